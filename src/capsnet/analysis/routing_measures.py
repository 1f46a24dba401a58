"""What critics ask of a routing: are capsules dead, does the coupling depend on the picture, is anything lost without it?

Mitterreiter et al. 2023 found capsules that are never active and couplings that hardly change from picture to picture, so that
no tree of parts and wholes is built; Everett et al. 2023 found activations that vanish with depth. Paik et al. 2019 found
uniform coupling as good. The measures below are ours, made to answer these questions for any weights.

Of every routed layer, with the coupling p of an input shared among its parents (attention routing: of a parent among inputs),
as percent of the logarithm of the number of choices, so that 100 is the most there can be:

    entropy              mean H(p): 100 where everything goes everywhere, 0 where each input has one parent
    diversity            H(mean of p over inputs) - mean H(p): how differently the inputs of a picture share themselves
    picture dependence   H(mean of p over pictures) - mean H(p), mean over inputs: what the picture tells of where an input goes

and the standard deviation over pictures. A capsule is dead if it is never longer than `DEAD` on the pictures. Then the errors
with other couplings than the routing's own, in all layers at once: the mean over training images, uniform, or that of another
picture. Weights are not trained again, so an error that rises says what these weights use, not what another routing could do.

Layers of convolutional capsules, which share an input among positions, are left as they are.

Letters: B batch, I input capsules, J output capsules.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from capsnet.analysis.subject import Subject
from capsnet.data.base import Split
from capsnet.errors import CapsNetError
from capsnet.evaluate.metrics import evaluate
from capsnet.functional.routing import RoutingResult
from capsnet.functional.routing.positions import OverPositions
from capsnet.layers.routing import Routing

DEAD = 0.05
SEED = 0
OnResult = Callable[[str, Tensor | None, RoutingResult], Tensor | None]


class LayerMeasures:
    """Sums over the pictures seen so far, from which a layer's measures follow."""

    def __init__(self) -> None:
        self.pictures = 0
        self.over_inputs = False
        self.entropy = self.diversity = 0.0
        self.sum = self.squares = torch.zeros(())
        self.inputs: Activity | None = None
        self.parents = Activity()

    def add(self, activations: Tensor | None, result: RoutingResult) -> None:
        """Take in a batch."""
        coupling = result.coupling.double()
        self.over_inputs = shared_among_inputs(coupling)
        shares = as_shares(coupling, over_inputs=self.over_inputs)
        own = entropy(shares).mean(dim=1)
        self.entropy += float(own.sum())
        self.diversity += float((entropy(shares.mean(dim=2, keepdim=True)).squeeze(1) - own).sum())
        self.sum = self.sum + coupling.sum(dim=0)
        self.squares = self.squares + coupling.square().sum(dim=0)
        self.pictures += len(coupling)
        self.parents.add(result.activations)
        if activations is not None and activations.ndim == 2:
            self.inputs = self.inputs or Activity()
            self.inputs.add(activations)

    @property
    def mean(self) -> Tensor:
        """The mean coupling (J, I)."""
        return self.sum / self.pictures

    def result(self) -> dict[str, Any]:
        """Return the measures, for JSON."""
        j, i = self.mean.shape
        most = math.log(max(i if self.over_inputs else j, 2)) / 100
        mean_entropy = self.entropy / self.pictures
        shares = as_shares(self.mean.unsqueeze(0), over_inputs=self.over_inputs)
        deviation = (self.squares / self.pictures - self.mean.square()).clamp(min=0).sqrt()
        return {
            "inputs": i,
            "parents": j,
            "shared_among": "inputs" if self.over_inputs else "parents",
            "entropy_percent": mean_entropy / most,
            "diversity_percent": self.diversity / self.pictures / most,
            "picture_dependence_percent": (float(entropy(shares).mean()) - mean_entropy) / most,
            "deviation_over_pictures": float(deviation.mean()),
            "mean_coupling": float(self.mean.mean()),
            "dead_inputs": self.inputs.dead() if self.inputs else None,
            "mean_input_activation": self.inputs.mean() if self.inputs else None,
            "dead_parents": self.parents.dead(),
            "mean_parent_activation": self.parents.mean(),
        }


class Activity:
    """How active each capsule of a layer has been."""

    def __init__(self) -> None:
        self.count, self.sum, self.most = 0, torch.zeros(()), torch.zeros(())

    def add(self, activations: Tensor) -> None:
        self.count += len(activations)
        self.sum = self.sum + activations.sum(dim=0)
        self.most = torch.maximum(self.most, activations.amax(dim=0))

    def dead(self) -> int:
        return int((self.most < DEAD).sum())

    def mean(self) -> float:
        return float(self.sum.mean()) / self.count


def shared_among_inputs(coupling: Tensor) -> bool:
    """Whether the coupling (B, J, I) sums to one over the inputs and not over the parents."""
    over_inputs, over_parents = ((coupling.sum(dim=d) - 1).abs().max() for d in (2, 1))
    return bool(over_inputs < 1e-3 <= over_parents)


def as_shares(coupling: Tensor, *, over_inputs: bool) -> Tensor:
    """Make the choices the middle axis, and let them sum to one: a routing may leave part of an input to nobody."""
    shares = coupling.transpose(1, 2) if over_inputs else coupling
    return shares / shares.sum(dim=1, keepdim=True).clamp(min=1e-12)


def entropy(shares: Tensor) -> Tensor:
    """In nats, of the middle axis: (B, J, I) -> (B, I)."""
    return -torch.special.xlogy(shares, shares).sum(dim=1)


@contextmanager
def watching(subject: Subject, on_result: OnResult) -> Iterator[None]:
    """Call `on_result` (layer, input activations, result) after every routing; a coupling that it returns is used instead."""

    def hook(name: str) -> Callable[..., RoutingResult | None]:
        def after(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
            if isinstance(kwargs.get("normalise"), OverPositions):
                return None
            given = on_result(name, args[1] if len(args) > 1 else kwargs.get("activations"), result)
            return None if given is None else module.forward(*args, **{**kwargs, "coupling": given})

        return after

    with ExitStack() as stack:
        for name, module in routings(subject).items():
            handle = module.register_forward_hook(hook(name), with_kwargs=True)
            stack.callback(handle.remove)
        yield


def routings(subject: Subject) -> dict[str, Routing]:
    """Return the routings of the encoder by the name of their layer, or refuse a network that does not route."""
    named = subject.model.encoder.named_modules()
    found = {name.removesuffix(".routing"): module for name, module in named if isinstance(module, Routing)}
    if not found:
        raise CapsNetError(f"'{subject.name}' does not route, so there is no coupling to measure.")
    return found


def measured(subject: Subject, split: Split) -> dict[str, LayerMeasures]:
    """Run the network over a split and return the measures of each routed layer."""
    layers: dict[str, LayerMeasures] = {}

    def add(name: str, activations: Tensor | None, result: RoutingResult) -> None:
        at = None if activations is None else activations.cpu()
        layers.setdefault(name, LayerMeasures()).add(at, RoutingResult(*(t.cpu() for t in result)))

    with watching(subject, add):
        evaluate(subject.model, subject.dataset, split)
    return layers


def uniform(coupling: Tensor) -> Tensor:
    """Share what is shared equally; what a routing leaves to nobody stays there."""
    axis = 2 if shared_among_inputs(coupling) else 1
    return coupling.mean(dim=axis, keepdim=True).expand_as(coupling)


def measure(subject: Subject, indices: Tensor, *, mean_images: int) -> dict[str, Any]:
    """Measure every routed layer on test images, and the errors with other couplings.

    Args:
        mean_images: how many training images the mean coupling is taken over.
    """
    dataset = subject.dataset
    found, generator = routings(subject), torch.Generator().manual_seed(SEED)
    # In no order of classes: another picture of the batch is then any other.
    order = torch.randperm(len(indices), generator=generator)
    test = dataset.test.select(indices[order])
    some = torch.randperm(len(dataset.train.labels), generator=generator)[:mean_images]
    means = {name: layer.mean for name, layer in measured(subject, dataset.train.select(some)).items()}

    couplings: dict[str, Callable[[str, Tensor], Tensor]] = {
        "mean": lambda name, c: means[name].to(c).expand_as(c).contiguous(),
        "uniform": lambda _, c: uniform(c).contiguous(),
        "another picture's": lambda _, c: c.roll(1, dims=0),
    }
    layers = measured(subject, test)
    errors = {"own": _errors(subject, test, None)}
    if all(module.entry.takes("coupling") for module in found.values()):
        errors |= {kind: _errors(subject, test, replace) for kind, replace in couplings.items()}
    answers = [entry.pop("answers") for entry in errors.values()]
    for entry, changed in zip(errors.values(), answers, strict=True):
        entry["changed_percent"] = 100 * float((changed != answers[0]).any(dim=1).double().mean())
    return {
        "routing": [module.name for module in found.values()],
        "layers": {name: layer.result() for name, layer in layers.items()},
        "mean_images": len(some),
        "errors": errors,
    }


def _errors(
    subject: Subject, split: Split, replace: Callable[[str, Tensor], Tensor] | None
) -> dict[str, Any]:
    answers: list[Tensor] = []

    def on_result(name: str, _: Tensor | None, result: RoutingResult) -> Tensor | None:
        return replace(name, result.coupling) if replace else None

    def on_scores(scores: Tensor, classes: Tensor) -> None:
        answers.append(scores.topk(classes.shape[1], dim=1).indices.sort(dim=1).values.cpu())

    with watching(subject, on_result):
        evaluation = evaluate(subject.model, subject.dataset, split, on_scores=on_scores)
    return {**evaluation.named_errors(), "answers": torch.cat(answers)}
