"""Saved and loaded is the same model; what cannot be loaded is said in a sentence; a crash costs nothing."""

import json
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import capsnet
from capsnet import saving
from capsnet.card import Card
from capsnet.errors import CapsNetError

CARD = Card(("no", "yes", "perhaps"), {"divisor": 256.0}, {"seed": 3}, {"test_error_percent": 0.5})


LARGEST = 300_000


def small() -> capsnet.models.CapsuleModel:
    """A network that is quick to make."""
    return capsnet.create_model("efficient_capsnet", (1, 20, 20), 3, decoder=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    capsnet.save(small(), tmp_path / "weights", card=CARD)
    return tmp_path / "weights"


def test_loading_gives_the_same_outputs_and_card(tmp_path: Path) -> None:
    model = capsnet.create_model(
        "efficient_capsnet", (2, 24, 30), 4, capsule_layers=((6, 8),), norm="instance", decoder="dense"
    )
    images = torch.rand(3, 2, 24, 30)
    capsnet.save(model, tmp_path)
    loaded = capsnet.load(tmp_path)
    assert not loaded.training
    assert loaded.architecture == model.architecture
    assert loaded.card == Card()
    torch.testing.assert_close(loaded(images).poses, model.eval()(images).poses, rtol=0, atol=0)
    poses = loaded(images).poses
    torch.testing.assert_close(loaded.reconstruct(poses), model.reconstruct(poses), rtol=0, atol=0)


def test_weights_with_the_former_names_of_tensors_are_loaded(folder: Path, tmp_path: Path) -> None:
    tensors = {
        name.replace(".routing.", ".routing_parameters."): tensor
        for name, tensor in capsnet.load(folder).state_dict().items()
    }
    assert "encoder.capsules.0.routing_parameters.log_prior" in tensors
    config = json.loads((folder / "config.json").read_text()) | {"tensors_sha256": saving.checksum(tensors)}
    (tmp_path / "former").mkdir()
    save_file(tensors, tmp_path / "former" / "model.safetensors", {"capsnet": json.dumps(config)})
    images = torch.rand(2, 1, 20, 20)
    assert torch.equal(capsnet.load(tmp_path / "former")(images).poses, capsnet.load(folder)(images).poses)


def test_the_card_survives_saving_and_saving_again(folder: Path, tmp_path: Path) -> None:
    model = capsnet.load(folder)
    assert model.card == CARD
    capsnet.save(model, tmp_path / "again")
    assert capsnet.load(str(tmp_path / "again" / "model.safetensors")).card == CARD


def test_config_json_says_what_the_weights_are(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["format_version"] == 1
    assert (config["model"], config["image_shape"], config["num_classes"], config["options"]) == (
        "efficient_capsnet",
        [1, 20, 20],
        3,
        {"decoder": False},
    )
    assert config["class_names"] == ["no", "yes", "perhaps"]
    assert config["score"] == {"test_error_percent": 0.5}


def test_same_weights_same_bytes(folder: Path, tmp_path: Path) -> None:
    capsnet.save(capsnet.load(folder), tmp_path / "again")
    for name in ("model.safetensors", "config.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_loading_leaves_the_random_numbers_alone(folder: Path) -> None:
    state = torch.random.get_rng_state()
    capsnet.load(folder)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_half_precision_loads_as_float32(tmp_path: Path) -> None:
    model = small()
    capsnet.save(model, tmp_path / "half", half=True)
    capsnet.save(model, tmp_path / "full")
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("half", "full")]
    assert sizes[0] < 0.55 * sizes[1]
    loaded = capsnet.load(tmp_path / "half")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    images = torch.rand(2, 1, 20, 20)
    torch.testing.assert_close(loaded(images).poses, model.eval()(images).poses, rtol=0, atol=1e-2)


def test_large_weights_are_cut_into_files(folder: Path, tmp_path: Path) -> None:
    model, cut = capsnet.load(folder), tmp_path / "cut"
    capsnet.save(model, cut, largest_file=LARGEST)
    files = sorted(cut.glob("*.safetensors"))
    assert len(files) > 1
    assert max(file.stat().st_size for file in files) < LARGEST + 20_000
    again = capsnet.load(cut)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    assert again.card == CARD
    capsnet.save(model, cut)
    assert [file.name for file in cut.glob("*.safetensors")] == ["model.safetensors"]


def test_a_missing_further_file_is_said(folder: Path) -> None:
    capsnet.save(capsnet.load(folder), folder, largest_file=LARGEST)
    further = next(folder.glob("model-*-2.safetensors"))
    further.unlink()
    with pytest.raises(CapsNetError, match=further.name):
        capsnet.load(folder)


def test_channels_last_models_save_too(tmp_path: Path) -> None:
    model = small().to(memory_format=torch.channels_last)
    capsnet.save(model, tmp_path)
    assert torch.equal(
        capsnet.load(tmp_path).encoder.blocks[1].conv.weight, model.encoder.blocks[1].conv.weight
    )


def test_a_run_folder_gives_its_best_else_its_last(tmp_path: Path) -> None:
    last, best = small(), small()
    capsnet.save(last, tmp_path / "last")
    assert torch.equal(next(capsnet.load(tmp_path).parameters()), next(last.parameters()))
    capsnet.save(best, tmp_path / "best")
    assert torch.equal(next(capsnet.load(str(tmp_path)).parameters()), next(best.parameters()))


def test_every_bundled_name_loads() -> None:
    for name in saving.bundled_names():
        model = capsnet.load(name)
        assert len(model.card.class_names) == model.architecture.num_classes


def test_bundled_names_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "BUNDLED", folder.parent)
    assert saving.bundled_names() == ["weights"]
    assert capsnet.load("weights").card == CARD


def test_what_has_no_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match=r"no weights 'nonsense': neither a folder nor a bundled name \("):
        capsnet.load("nonsense")
    with pytest.raises(CapsNetError, match=r"holds no weights: no model\.safetensors in it"):
        capsnet.load(tmp_path)


def test_a_model_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match="made by create_model"):
        capsnet.save(torch.nn.Linear(1, 1), tmp_path)  # type: ignore[arg-type]


def test_a_card_that_is_not_json_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CapsNetError, match="must fit into JSON"):
        capsnet.save(small(), tmp_path / "x", card=Card(score={"error": torch.ones(1)}))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("keep", [0, 4, 100, 5000, -1])
def test_truncated_tensors_are_damaged(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CapsNetError, match=r"model\.safetensors' is damaged"):
        capsnet.load(folder)


def test_a_flipped_bit_is_noticed(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)
    with pytest.raises(CapsNetError, match="checksum"):
        capsnet.load(folder)


def test_a_pickle_or_a_text_is_not_loaded(folder: Path) -> None:
    torch.save({"a": torch.ones(2)}, folder / "model.safetensors")
    with pytest.raises(CapsNetError, match="is damaged"):
        capsnet.load(folder)
    (folder / "model.safetensors").write_text("hello, I am some text")
    with pytest.raises(CapsNetError, match="is damaged"):
        capsnet.load(folder)


def test_other_programs_tensors_are_refused(folder: Path) -> None:
    save_file({"a": torch.ones(2)}, folder / "model.safetensors")
    with pytest.raises(CapsNetError, match="not written by capsnet"):
        capsnet.load(folder)


def test_damaged_config_json_is_damaged(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(CapsNetError, match="damaged or not JSON"):
        capsnet.load(folder)


def rewrite(folder: Path, **changes: object) -> None:
    """Writes the folder's tensors again with another configuration."""
    config, tensors = saving._read(folder)
    (folder / "config.json").unlink()
    save_file(tensors, folder / "model.safetensors", {"capsnet": json.dumps({**config, **changes})})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format_version": 2}, "format version 2; this capsnet reads up to 1"),
        ({"model": "efficient_capsent"}, "did you mean 'efficient_capsnet'"),
        (
            {"num_classes": 10**12, "class_names": []},
            r"1,000,000,000,000 classes are too many for weights of",
        ),
        ({"num_classes": 5, "class_names": []}, r"'encoder\.capsules\.0\.\S+' has shape"),
        ({"image_shape": [1, 20, 10**9]}, "Images of 1x20x1000000000 are too large"),
        ({"options": {"decoder": False, "capsule_layers": [[2**40, 2**40]]}}, "is damaged|has shape"),
        ({"class_names": ["a", "b", "a"]}, "Two classes have the same name, 'a'"),
        ({"preprocessing": {"resize": [40_000, 40_000]}}, "gives images of 40000x40000 pixels"),
        ({"preprocessing": {"resize": [40_000, 40_000], "crop": [20, 20]}}, "resizes to 40000x40000 pixels"),
        ({"preprocessing": {"crop": [24, 24]}}, "gives images of 24x24 pixels, the model takes 20x20"),
        (
            {"preprocessing": {"mean": [0.5] * 5, "std": [1.0] * 5}},
            "a mean for 5 channels, the images have 1",
        ),
        ({"num_classes": "many"}, "damaged"),
        ({"image_shape": [1, 20]}, "image_shape is"),
        ({"options": {"decoder": True}}, "'decoder.*' is missing"),
        ({"options": {"norm": "instance", "decoder": False}}, "does not belong to this model"),
        ({"options": None}, "damaged"),
        ({"class_names": ["one"]}, "1 class names for 3 classes"),
        ({"class_names": 5}, "class_names is a list"),
        ({"score": 5}, "score is an object"),
        ({"further_files": ["../model-1.safetensors"]}, "no name of a further file"),
        ({"further_files": 5}, "no name of a further file"),
    ],
)
def test_a_configuration_that_does_not_fit_is_said(folder: Path, changes: dict, sentence: str) -> None:
    rewrite(folder, **changes)
    with pytest.raises(CapsNetError, match=sentence):
        capsnet.load(folder)


def test_a_card_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    for card in (Card(("a", "b")), Card(("a", "b", "a")), Card(preprocessing={"resize": [9, 9]})):
        with pytest.raises(CapsNetError):
            capsnet.save(small(), tmp_path / "x", card=card)
    assert not (tmp_path / "x").exists()


def test_a_crash_between_the_two_files_leaves_readable_weights(folder: Path) -> None:
    old = (folder / "config.json").read_bytes()
    other = capsnet.create_model("efficient_capsnet", (1, 24, 24), 2, decoder=False)
    capsnet.save(other, folder)
    (folder / "config.json").write_bytes(old)
    assert capsnet.load(folder).architecture == other.architecture
    (folder / "config.json").unlink()
    assert capsnet.load(folder).architecture == other.architecture


def test_class_names_may_be_edited_in_config_json(folder: Path) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"perhaps"', '"maybe"'))
    card = capsnet.load(folder).card
    assert card.class_names == ("no", "yes", "maybe")


def test_a_full_disk_keeps_the_previous_weights(folder: Path) -> None:
    before = [(file.name, file.read_bytes()) for file in sorted(folder.iterdir())]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = small()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CapsNetError, match="what was there before is kept"):
            capsnet.save(model, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(file.name, file.read_bytes()) for file in sorted(folder.iterdir())] == before
