"""The figures show the whole network, and name each network once."""

import pytest

from capsnet import create_model
from capsnet.analysis.subject import Subject, labels
from capsnet.opening import open_weights
from capsnet.report.drawings import stages


def names_and_shapes(model):
    return [(stage.name.split("\n")[0], stage.shape) for stage in stages(model)]


def test_the_architecture_is_drawn_from_image_to_picture():
    assert names_and_shapes(create_model("efficient_capsnet").eval()) == [
        ("image", (1, 28, 28)),
        ("conv 5×5", (32, 24, 24)),
        ("conv 3×3", (64, 22, 22)),
        ("conv 3×3", (64, 20, 20)),
        ("conv 3×3", (128, 9, 9)),
        ("depthwise", (16, 8)),
        ("routing", (10, 16)),
        ("dense", (512,)),
        ("dense", (1024,)),
        ("dense", (784,)),
        ("picture", (1, 28, 28)),
    ]


@pytest.mark.parametrize("training", [True, False])
def test_stages_are_seen_of_every_form(training):
    drawn = names_and_shapes(create_model("efficient_capsnet_smallnorb", decoder=False).train(training))
    assert [name for name, _ in drawn] == ["image", "conv 7×7", *["conv 3×3"] * 3, "depthwise", "routing"]


def test_two_networks_of_one_model_have_two_names(tmp_path):
    opened = open_weights("efficient_capsnet.mnist")
    one, other = Subject(opened), Subject(opened)
    assert labels([one]) == ["efficient_capsnet"]
    one.weights, other.weights = "runs/first", "runs/second"
    assert labels([one, other]) == ["first", "second"]
    one.weights, other.weights = "one/best", "other/best"
    assert labels([one, other]) == ["one/best", "other/best"]
