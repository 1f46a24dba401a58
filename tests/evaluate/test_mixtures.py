"""An ensemble saved as one folder: what it says about itself, and that every command takes it."""

import json

import pytest
import torch

import capsnet
from capsnet.card import Card
from capsnet.cli import main
from capsnet.errors import CapsNetError
from capsnet.evaluate.mixtures import save_mixture

CARD = {"dataset": "mnist", "dataset_options": {}, "validation": 0, "hold_out": "images", "limit": None}


@pytest.fixture
def weights(tmp_path):
    """Two untrained networks with cards as training writes them."""
    data = capsnet.data.load_dataset("mnist")
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = capsnet.create_model("base_capsnet")
        card = Card(data.class_names, data.preprocessing.to_dict(), {**CARD, "recipe": "fast", "seed": seed})
        capsnet.save(model, tmp_path / f"w{seed}", card=card)
    return [str(tmp_path / "w0"), str(tmp_path / "w1")]


def test_the_card_has_what_all_share_and_lists_where_they_differ(weights, tmp_path):
    save_mixture(weights, tmp_path / "both", score={"errors": 3})
    card = capsnet.load(tmp_path / "both").card
    assert card.provenance["dataset"] == "mnist"
    assert card.provenance["recipe"] == "mixture"
    assert [member["seed"] for member in card.provenance["members"]] == [0, 1]
    assert [member["name"] for member in card.provenance["members"]] == ["w0", "w1"]
    assert "seed" not in card.provenance
    assert card.score == {"errors": 3}
    assert str(tmp_path) not in json.dumps(card.to_dict())


def test_the_command_saves_what_eval_then_finds_equal(weights, tmp_path, capsys, monkeypatch):
    from capsnet.data import mnist

    whole = mnist.read_mnist_like

    def fewer(*arguments):
        train, test, digests = whole(*arguments)
        return train, test.select(torch.arange(64)), digests

    monkeypatch.setattr(mnist, "read_mnist_like", fewer)
    main(["ensemble", *weights, "--views", "shift", "--save", str(tmp_path / "both"), "--json"])
    ensemble = json.loads(capsys.readouterr().out)
    main(["eval", str(tmp_path / "both"), "--json"])
    tested = json.loads(capsys.readouterr().out)
    assert tested["model"] == "mixture"
    assert tested["errors"] == ensemble["ensemble"]["errors"]
    main(["eval", weights[0], "--views", "shift", "--json"])
    viewed = json.loads(capsys.readouterr().out)
    assert viewed["views"] == "shift"
    assert viewed["error_percent"] == ensemble["members"][0]["test_error_percent"]


def test_members_with_other_pixels_are_refused(weights, tmp_path):
    model = capsnet.load(weights[1])
    other = {**model.card.preprocessing, "divisor": 255.0}
    capsnet.save(model, tmp_path / "w2", card=Card(model.card.class_names, other, model.card.provenance))
    with pytest.raises(CapsNetError, match="prepared in different ways"):
        save_mixture([weights[0], str(tmp_path / "w2")], tmp_path / "both")
    assert not (tmp_path / "both").exists()
