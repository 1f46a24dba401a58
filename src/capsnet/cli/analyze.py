"""`capsnet analyze`: what networks cost, and what their capsules encode.

Each command writes its figures as PNG and SVG, and their numbers as JSON and CSV, into one folder.
"""

from pathlib import Path

from tyro.extras import SubcommandApp

from capsnet.cli import console, cost, foreign
from capsnet.cli.analysis_options import (
    DataDir,
    Device,
    Images,
    Json,
    OnDataSet,
    Out,
    Seed,
    Threads,
    Weights,
    finish,
    open_subject,
    write_record,
)
from capsnet.cli.options import Maybe, Names
from capsnet.errors import CapsNetError


def build_app() -> SubcommandApp:
    """The commands under `capsnet analyze`."""
    app = SubcommandApp()
    app.command(name="cost")(cost.cost)
    commands = (
        reconstruct,
        perturb,
        equivariance,
        errors,
        missed,
        routing,
        calibration,
        foreign.unknown,
        foreign.attacks,
    )
    for command in commands:
        app.command(name=command.__name__)(command)
    return app


def reconstruct(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    beside: tuple[str, ...] = (),
    per_class: int = 1,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Draw test images and what decoders reconstruct from their capsules.

    Args:
        beside: More weights, one row each.
        per_class: The number of images of each class.
    """
    from capsnet.analysis.reconstruct import reconstruct as run

    first = open_subject(weights, dataset, data_dir, device, threads)
    subjects = [
        first,
        *(open_subject(w, first.opened.dataset_name, data_dir, device, threads) for w in beside),
    ]
    finish(run(subjects, first.one_of_each(per_class, seed), out), first, out, "reconstruct", json)


def perturb(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    image: int = 0,
    steps: int = 11,
    reach: float = 0.25,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Move each number of an image's capsule and draw what the decoder makes of it, with an animation.

    Args:
        image: The test image's number.
        steps: The number of values for each dimension; odd, so that the middle one is the capsule itself.
        reach: How far each dimension is moved to either side.
    """
    from capsnet.analysis import perturb as run

    if steps < 3 or steps % 2 == 0:
        raise CapsNetError(f"--steps is odd and at least 3; got {steps}.")
    subject = open_subject(weights, dataset, data_dir, device, threads)
    if not 0 <= image < len(subject.dataset.test.labels):
        raise CapsNetError(f"--image is from 0 to {len(subject.dataset.test.labels) - 1}; got {image}.")
    made = run.perturb(subject, image, steps=steps, reach=reach)
    finish(run.draw(subject, made, out), subject, out, "perturb", json)


def equivariance(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    images: Images = None,
    linear_images: int = 2000,
    record: Maybe[Path] = None,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure how linearly capsules encode shifts and rotations (the paper's table and four panels).

    Args:
        linear_images: The number of test images for the linear read-out: half to fit, half to measure.
        record: Also write the numbers to DIR/equivariance/MODEL.json, for `capsnet reproduce`.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from capsnet.analysis.equivariance import describe, linear_read_out, shares_table
    from capsnet.analysis.equivariance_figures import draw_all
    from capsnet.analysis.plotting import write_csv
    from capsnet.files import write_json

    subject = open_subject(weights, dataset, data_dir, device, threads)
    indices = subject.choose(images, seed)
    columns = (TextColumn("images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console.errors, disable=not console.errors.is_terminal) as bar:
        task = bar.add_task("", total=len(indices))
        shares = shares_table(subject, indices, on_images=lambda n: bar.advance(task, n))
    result = describe(subject, indices, shares, seed)
    result["linear_images"] = min(linear_images, len(subject.dataset.test.labels))
    result["linear"] = linear_read_out(subject, subject.choose(linear_images, seed), seed)
    names = subject.dataset.class_names
    rows = [
        {"transformation": k, "class": n, "first_component_percent": v}
        for k, entry in result["table"].items()
        for n, v in zip(names, entry["by_class_percent"], strict=True)
    ]
    write_csv(out / "equivariance.csv", rows)
    if record:
        write_json(record / "equivariance" / f"{subject.name}.json", result)
    result["files"] = [str(f) for f in draw_all(result, names, out)]
    finish(result, subject, out, "equivariance", json)


def errors(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    most: int = 40,
    images: Images = None,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Draw the misclassified test images with all capsule lengths, the most confident mistakes first.

    Args:
        most: The number of mistakes to draw; the CSV file has all.
    """
    from capsnet.analysis.errors import analyse

    subject = open_subject(weights, dataset, data_dir, device, threads)
    result = analyse(subject, subject.choose(images, seed), out, most=most)
    finish(result, subject, out, "errors", json)


def missed(
    runs: Names,
    /,
    *,
    out: Out,
    most: int = 60,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Count how many of several networks miss each test image, by writer and by what people say of the label.

    Args:
        runs: Run folders, folders of `capsnet trials` (all their runs), or weights.
        most: The number of images to draw; the CSV file has all.
    """
    from capsnet.analysis.missed import analyse
    from capsnet.evaluate.ensembles import open_members

    if not runs:
        raise CapsNetError("Name at least one run.")
    members = open_members(runs, data_dir=data_dir)
    subject = open_subject(members[0].run, None, data_dir, "cpu", None)
    finish(analyse(members, subject, out, most=most), subject, out, "missed", json)


def routing(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    images: Images = None,
    mean_images: int = 1000,
    record: Maybe[Path] = None,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure what the routing does: dead capsules, how the coupling depends on the picture, errors with other couplings.

    Also draws the coupling of primary capsules: of single images, the mean of each class, and the log priors.

    Args:
        mean_images: The number of training images that the mean coupling is taken over.
        record: Also write the measures to DIR/routing/NAME.json, for the documentation's tables.
    """
    from capsnet.analysis.routing import analyse
    from capsnet.analysis.routing_figures import draw, lines
    from capsnet.analysis.routing_measures import measure

    if mean_images < 1:
        raise CapsNetError(f"--mean-images is at least 1; got {mean_images}.")
    subject = open_subject(weights, dataset, data_dir, device, threads)
    indices = subject.choose(images, seed)
    measures = measure(subject, indices, mean_images=mean_images)
    result = analyse(subject, indices, subject.one_of_each(1, seed), out)
    result["files"] += [str(file) for file in draw(subject, measures, out)]
    if record:
        file = record / "routing" / f"{Path(subject.weights).name}.json"
        write_record(file, subject, {"images": len(indices), **measures})
    if not json:
        for line in lines(measures):
            console.out.print(line, markup=False, highlight=False, soft_wrap=True)
    finish({**measures, **result}, subject, out, "routing", json)


def calibration(
    weights: Weights,
    dataset: OnDataSet = None,
    /,
    *,
    out: Out,
    images: Images = None,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure whether the best score is a probability, before and after temperature scaling."""
    from capsnet.analysis.calibration import analyse

    subject = open_subject(weights, dataset, data_dir, device, threads)
    finish(analyse(subject, subject.choose(images, seed), out), subject, out, "calibration", json)
