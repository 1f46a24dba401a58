import math

import numpy as np
import pytest
import torch

import capsnet
from capsnet.analysis.routing_figures import lines
from capsnet.analysis.routing_measures import LayerMeasures, measure, uniform
from capsnet.analysis.subject import Subject
from capsnet.functional.routing import ROUTINGS, RoutingResult

WEIGHTS = "efficient_capsnet.mnist"


def measures_of(coupling, activations=None):
    layer = LayerMeasures()
    for part in coupling.split(3):
        result = RoutingResult(torch.zeros(len(part), part.shape[1], 2), part.sum(dim=2), part)
        layer.add(None if activations is None else activations[: len(part)], result)
    return layer.result()


def literal(shares):
    """Entropy, diversity and picture dependence of (B, J, I) in percent of log J, number by number."""
    images, parents, inputs = shares.shape

    def h(p):
        return -sum(x * math.log(x) for x in p if x > 0)

    own = np.mean([h(shares[n, :, i]) for n in range(images) for i in range(inputs)])
    over_inputs = np.mean([h(shares[n].mean(axis=1)) for n in range(images)])
    over_images = np.mean([h(shares[:, :, i].mean(axis=0)) for i in range(inputs)])
    return [100 * x / math.log(parents) for x in (own, over_inputs - own, over_images - own)]


def test_measures_equal_their_definitions():
    coupling = torch.randn(8, 4, 5).mul(2).softmax(dim=1)
    found = measures_of(coupling)
    names = ("entropy_percent", "diversity_percent", "picture_dependence_percent")
    assert [found[name] for name in names] == pytest.approx(literal(coupling.double().numpy()), abs=1e-4)
    assert found["deviation_over_pictures"] == pytest.approx(
        float(coupling.std(dim=0, correction=0).mean()), abs=1e-6
    )


def test_extremes_are_zero_and_a_hundred():
    one_parent_each = torch.eye(4).repeat(6, 1, 1)  # input i to parent i, whatever the picture
    found = measures_of(one_parent_each)
    assert found["entropy_percent"] == pytest.approx(0)
    assert found["diversity_percent"] == pytest.approx(100)
    assert found["picture_dependence_percent"] == pytest.approx(0)
    by_picture = torch.eye(4)[:, :, None].expand(4, 4, 5)  # all inputs of picture n to parent n
    found = measures_of(by_picture)
    assert found["diversity_percent"] == pytest.approx(0)
    assert found["picture_dependence_percent"] == pytest.approx(100)
    assert measures_of(torch.full((4, 4, 5), 0.25))["entropy_percent"] == pytest.approx(100)


def test_a_coupling_among_inputs_is_measured_among_inputs():
    coupling = torch.eye(5)[:3].repeat(6, 1, 1)  # each parent hears one input
    found = measures_of(coupling)
    assert found["shared_among"] == "inputs"
    assert found["entropy_percent"] == pytest.approx(0)
    assert torch.allclose(uniform(coupling), torch.full((6, 3, 5), 0.2))


def test_capsules_that_are_never_long_are_dead():
    activations = torch.full((3, 5), 0.5)
    activations[:, 1] = 0.01
    activations[2, 3] = 0.0
    found = measures_of(torch.full((3, 4, 5), 0.25), activations)
    assert (found["dead_inputs"], found["dead_parents"]) == (1, 0)
    assert measures_of(torch.full((3, 4, 5), 0.25))["dead_inputs"] is None


def test_bundled_weights_lose_their_answers_without_their_coupling_and_with_it_nothing(monkeypatch):
    subject = Subject(capsnet.open_weights(WEIGHTS))
    found = measure(subject, torch.arange(60), mean_images=40)
    errors = found["errors"]
    assert set(errors) == {"own", "mean", "uniform", "another picture's"}
    assert errors["own"]["changed_percent"] == 0
    assert errors["own"]["error_percent"] < 5 < errors["uniform"]["error_percent"]
    assert found["layers"]["capsules.0"]["picture_dependence_percent"] > 5
    assert len(lines(found)) == 5
    monkeypatch.setattr("capsnet.analysis.routing_measures.uniform", lambda coupling: coupling)
    assert measure(subject, torch.arange(60), mean_images=1)["errors"]["uniform"] == errors["own"]


@pytest.mark.parametrize("name", sorted(ROUTINGS))
def test_every_routing_is_measured_in_two_layers(name, tmp_path):
    model = capsnet.create_model(
        "efficient_capsnet", (1, 28, 28), 10, routing=name, capsule_layers=((6, 8),), decoder=False
    )
    capsnet.save(model, tmp_path / "w")
    subject = Subject(capsnet.open_weights(tmp_path / "w", "mnist"))
    found = measure(subject, torch.arange(8), mean_images=8)
    assert found["routing"] == [name, name]
    assert set(found["layers"]) == {"capsules.0", "capsules.1"}
    assert len(found["errors"]) == 4


def test_of_convolutional_capsules_only_the_class_capsules_are_measured(tmp_path):
    model = capsnet.create_model("matrix_capsnet", (1, 28, 28), 10, types=(2, 2, 2, 2), decoder=False)
    capsnet.save(model, tmp_path / "w")
    found = measure(Subject(capsnet.open_weights(tmp_path / "w", "mnist")), torch.arange(4), mean_images=4)
    assert len(found["layers"]) == 1  # the class capsules; those before share inputs among positions
