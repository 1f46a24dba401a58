"""Mixtures: the mean of the members' scores, saved and opened as one network."""

import pytest
import torch

import capsnet
from capsnet.errors import CapsNetError
from capsnet.layers.views import KINDS, Views, look, parse_views
from capsnet.models.mixture import mix

SMALL = (1, 20, 20)


def member(seed, name="efficient_capsnet", **options):
    torch.manual_seed(seed)
    return capsnet.create_model(name, SMALL, 3, **options).eval()


@pytest.fixture
def members():
    return [
        member(0),
        member(1, "base_capsnet"),
        member(2, deskew=True, ink_width=12, capsule_layers=((4, 6),), decoder=False),
    ]


def test_scores_are_the_mean_and_all_else_is_the_first_members(members):
    made = mix(members)
    images = torch.rand(4, *SMALL)
    outputs = [model(images, coupling=True) for model in members]
    output = made(images, coupling=True)
    torch.testing.assert_close(output.scores, torch.stack([o.scores for o in outputs]).mean(dim=0))
    torch.testing.assert_close(output.poses, outputs[0].poses)
    torch.testing.assert_close(output.coupling, outputs[0].coupling)
    torch.testing.assert_close(made.reconstruct(output.poses), members[0].reconstruct(outputs[0].poses))
    assert made.routing.name == members[0].routing.name


def test_a_mixture_is_saved_into_one_folder_and_opened_like_any_weights(members, tmp_path):
    made = mix(members, views="shift,turn=6")
    capsnet.save(made, tmp_path / "mixture")
    opened = capsnet.load(tmp_path / "mixture")
    images = torch.rand(2, *SMALL)
    torch.testing.assert_close(opened(images).scores, made(images).scores)
    assert opened.architecture == made.architecture
    again = mix([opened, members[1]])  # a mixture may be a member
    capsnet.save(again, tmp_path / "again")
    torch.testing.assert_close(capsnet.load(tmp_path / "again")(images).scores, again(images).scores)


def test_one_member_without_views_is_that_member(members):
    images = torch.rand(2, *SMALL)
    torch.testing.assert_close(mix(members[:1])(images).scores, members[0](images).scores)


def test_views_are_averaged(members):
    views = Views("shift=2,zoom")
    images = torch.rand(3, *SMALL)
    each = [members[0](part).scores for part in views(images).split(3)]
    assert len(each) == len(views) == 7
    output = mix(members[:1], views="shift=2,zoom")(images)
    torch.testing.assert_close(output.scores, torch.stack(each).mean(dim=0))
    torch.testing.assert_close(output.poses, members[0](images).poses)


def test_softmax_networks_average_their_probabilities():
    pair = [member(seed, "cnn_small") for seed in (0, 1)]
    images, targets = torch.rand(2, *SMALL), torch.eye(3)[:2]
    made = mix(pair)
    output = made(images)
    torch.testing.assert_close(output.scores.sum(dim=1), torch.ones(2))
    expected = -(targets * output.scores.log()).sum(dim=1).mean()
    torch.testing.assert_close(made.classification_loss(output, targets), expected)


def test_members_of_other_images_are_refused(members):
    torch.manual_seed(0)
    other = capsnet.create_model("efficient_capsnet", (1, 24, 24), 3)
    with pytest.raises(
        CapsNetError, match="take the same images and classes; 'efficient_capsnet' takes 1x20x20"
    ):
        mix([members[0], other])
    for wrong in ((), ("ab",), (("cnn_small",),)):
        with pytest.raises(CapsNetError, match="members are 1 to 100 pairs"):
            capsnet.create_model("mixture", members=wrong)


def test_a_view_is_a_shift_of_whole_pixels():
    images = torch.rand(2, 1, 6, 6)
    right = look(images, parse_views("shift=1")[1])  # reads from the left
    torch.testing.assert_close(right[..., 1:], images[..., :-1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(right[..., 0], images[..., 0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_views_go_both_ways_and_leave_the_middle(kind):
    dot = torch.zeros(1, 1, 9, 9)
    dot[..., 4, 4] = 1
    for affine in parse_views(kind):
        assert float(look(dot, affine)[..., 4, 4] > 0.8) == (kind != "shift")
    assert len(parse_views(kind)) == (4 if kind == "shift" else 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("twist", "no view 'twist'"),
        ("turn=x", "turn takes a number above 0, at most 45, not 'x'"),
        ("shift=0", "at most 8, not '0'"),
    ],
)
def test_unknown_views_are_one_sentence(text, sentence):
    with pytest.raises(CapsNetError, match=sentence):
        parse_views(text)
