"""The report's figures: made from the weights that are present, in little enough work to stay within minutes."""

from collections.abc import Callable, Sequence
from pathlib import Path

from capsnet.analysis import calibration, errors, perturb, reconstruct, routing
from capsnet.analysis.equivariance_figures import draw_classes, draw_cumulative, draw_linear
from capsnet.analysis.plotting import save_figure
from capsnet.analysis.subject import Subject, labels
from capsnet.devices import choose_device
from capsnet.errors import CapsNetError
from capsnet.opening import open_weights
from capsnet.registry import create_model
from capsnet.report.curves import draw_curves
from capsnet.report.drawings import draw_architecture, draw_routing
from capsnet.report.page import Picture
from capsnet.report.records import Results
from capsnet.saving import bundled_names

ROUTED_IMAGES = 2000


def draw_all(
    results: Results, weights: Sequence[str], out: Path, data_dir: Path | None, say: Callable[[str], None]
) -> list[Picture]:
    """Every figure that can be made, into `out`."""
    say("drawing the architecture and the routing")
    made = network_figures(out)
    records = [r for r in results.runs("mnist") if r.get("curve")]
    if records:
        file = save_figure(draw_curves(records), out, "curves")[0]
        seeds = len(records)
        alt = f"Training loss and validation error by epoch for {seeds} runs on MNIST; both fall."
        made.append(
            Picture("curves", "Training curves", file, alt, f"Every whole run on MNIST in results/: {seeds}.")
        )
    made += equivariance_figures(results, out)
    subjects = [subject for name in weights if (subject := _open(name, data_dir, say))]
    for subject in subjects[:1]:
        made += subject_figures(subject, subjects, out, say)
    return made


def _open(name: str, data_dir: Path | None, say: Callable[[str], None]) -> Subject | None:
    try:
        return Subject(open_weights(name, data_dir=data_dir), choose_device("auto"))
    except CapsNetError as error:
        say(f"leaving out {name}: {error}")
        return None


def default_weights(results: Path) -> list[str]:
    """The MNIST networks in the package and among the results, Efficient-CapsNet first."""
    names = [name for name in bundled_names() if name.endswith(".mnist")]
    names += map(str, (results / "weights").glob("*.mnist"))
    return sorted(names, key=lambda name: (not name.startswith("efficient_capsnet."), name))


def network_figures(out: Path) -> list[Picture]:
    model = create_model("efficient_capsnet").eval()
    architecture = save_figure(draw_architecture(model), out, "architecture")[0]
    flow = save_figure(draw_routing(model), out, "routing")[0]
    return [
        Picture(
            "architecture",
            "The network",
            architecture,
            "Efficient-CapsNet from left to right: a 28 by 28 image, four convolutions, 16 primary capsules of 8 numbers, "
            "10 class capsules of 16, and the decoder's three dense layers back to a picture.",
            "Efficient-CapsNet for MNIST (the paper's figure 2), from the shapes that its layers give.",
        ),
        Picture(
            "routing-flow",
            "The routing",
            flow,
            "Flow chart: capsules give votes, votes give agreement, agreement gives coupling by a softmax; coupling plus "
            "log priors weights the votes, whose sum is squashed to the class capsules.",
            "Self-attention routing (the paper's figures 3 and 4) with this network's shapes.",
        ),
    ]


def equivariance_figures(results: Results, out: Path) -> list[Picture]:
    records = sorted(results.of("equivariance"), key=lambda r: r["model"] != "efficient_capsnet")
    if not records or records[0]["model"] != "efficient_capsnet":
        return []
    record, *others = records
    names = tuple(map(str, range(len(record["table"]["x"]["by_class_percent"]))))
    figures = (
        ("equivariance", "Cumulative variance", draw_cumulative(record, *others), "the paper's four panels"),
        ("equivariance-classes", "First component by class", draw_classes(record, names), "for each digit"),
        ("equivariance-linear", "Linear read-out", draw_linear(record), "beyond the paper"),
    )
    first = {k: v["first_component_percent"] for k, v in record["table"].items()}
    alt = "Share of variance in the first component: " + ", ".join(f"{k} {v:.1f} %" for k, v in first.items())
    linear = "R squared of the linear read-out: " + ", ".join(
        f"{k} {v['r_squared']:.2f}" for k, v in record["linear"].items() if v["r_squared"] is not None
    )
    count = f"{record['images']:,} test images"
    return [
        Picture(
            key,
            title,
            save_figure(figure, out, key)[0],
            linear if key.endswith("linear") else alt,
            f"{count}; {what}.",
        )
        for key, title, figure, what in figures
    ]


def subject_figures(
    subject: Subject, subjects: Sequence[Subject], out: Path, say: Callable[[str], None]
) -> list[Picture]:
    """What one network's capsules do, on the test images."""
    made = []
    decoding = [s for s in subjects if s.model.decoder is not None and s.dataset.name == subject.dataset.name]
    if decoding:
        say("reconstructing and perturbing")
        reconstruct.reconstruct(decoding, subject.one_of_each(), out)
        names = ", ".join(labels(decoding))
        alt = f"A test image of each class, and below each what the decoder of {names} makes of its capsule."
        made.append(Picture("reconstruct", "Reconstructions", out / "reconstruct.png", alt, f"By {names}."))
        perturb.draw(decoding[0], perturb.perturb(decoding[0], 0), out)
        alt = "A grid of reconstructed digits: 16 rows, one a dimension of the capsule, 11 steps from -0.25 to 0.25 each."
        made.append(
            Picture("perturb", "Perturbed capsules", out / "perturb.png", alt, "Each row moves one number.")
        )
        alt = "The same 16 dimensions animated, each swept there and back."
        made.append(Picture("perturb-animation", "The same, animated", out / "perturb.gif", alt, ""))
    say("looking for mistakes")
    found = errors.analyse(subject, subject.choose(None), out)
    if found["errors"]:
        alt = f"The {min(found['errors'], errors.MOST)} surest mistakes of {found['errors']}, with all capsule lengths as bars."
        caption = (
            f"{found['errors']} of {found['images']:,} test images are wrong. In {found['label_is_second']} of them the "
            f"label is the second longest capsule; in {found['close_calls']} the lead is below {found['close_call_lead']}."
        )
        made.append(Picture("errors", "Misclassified digits", out / "errors.png", alt, caption))
    try:
        say("measuring the routing")
        told = routing.analyse(subject, subject.choose(ROUTED_IMAGES), subject.one_of_each(), out)
        own = sum(told["mean_coupling_to_own_class"]) / len(told["mean_coupling_to_own_class"])
        caption = f"Mean coupling to the image's own class {own:.2f}; uniform coupling would be {told['uniform']:.2f}."
        alt = "For a digit of each class, a map of coupling: class capsules down, primary capsules across; one bright row each."
        made.append(
            Picture("coupling", "Coupling of single images", out / "routing-examples.png", alt, caption)
        )
        alt = "Three maps: mean coupling to the image's own class, to each class over all images, and the learned log priors."
        caption = f"Over {told['images']:,} seeded test images."
        made.append(Picture("coupling-mean", "Mean coupling", out / "routing-mean.png", alt, caption))
    except CapsNetError as error:
        say(str(error))
    say("calibrating")
    told = calibration.analyse(subject, subject.choose(None), out)
    caption = (
        f"Expected calibration error {told['before']['ece_percent']:.2f} % before, {told['after']['ece_percent']:.2f} % after "
        f"temperature scaling (T = {told['temperature']:.2f}), fitted on {told['fitted_on']}."
    )
    alt = "Two reliability diagrams, accuracy against confidence, before and after temperature scaling."
    return [
        *made,
        Picture("calibration", "Is the length a probability?", out / "calibration.png", alt, caption),
    ]
