"""Which network an h5 file holds, and what is said of files that hold none."""

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import capsnet
from capsnet import convert
from capsnet.cli.convert import convert as convert_command
from capsnet.convert import NETWORKS, from_keras
from capsnet.errors import CapsNetError


def keras_file(path: Path, model: Any, change: Any = lambda arrays: arrays) -> Path:
    """A model's own weights, written in the authors' layout: random values of the right shapes and order."""
    rng = np.random.default_rng(0)
    slots = [*convert._learned(model), *convert._statistics(model)]
    arrays = [rng.uniform(0.5, 1, slot.shape).astype(np.float32) for slot in slots]
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"all"]
        group = file.create_group("all")
        arrays = change(arrays)
        group.attrs["weight_names"] = [f"a{n}".encode() for n in range(len(arrays))]
        for n, array in enumerate(arrays):
            group.create_dataset(f"a{n}", data=array)
    return path


@pytest.mark.parametrize("decoder", [True, False])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: f"{network.model}-{network.image_shape[1]}")
def test_each_network_is_told_from_its_shapes(
    tmp_path: Path, network: convert.Network, decoder: bool
) -> None:
    classes = len(network.class_names)
    made = capsnet.create_model(network.model, network.image_shape, classes, decoder=decoder)
    model = from_keras(keras_file(tmp_path / "x.h5", made))
    assert model.architecture.name == network.model
    assert model.architecture.image_shape == network.image_shape
    assert (model.decoder is not None) == decoder
    assert len(model.card.class_names) == model.architecture.num_classes
    assert all(p.min() >= 0.5 and p.max() <= 1 for p in model.parameters())


def test_a_dense_decoders_pixels_go_from_channels_last_to_first() -> None:
    arrange = convert._channels_first((2, 3, 4), np.transpose)
    kernel = np.arange(24.0).reshape(1, 24)
    assert np.array_equal(arrange(kernel)[:, 0].reshape(2, 3, 4), kernel.reshape(3, 4, 2).transpose(2, 0, 1))


@pytest.fixture(scope="module")
def small() -> Any:
    return capsnet.create_model("efficient_capsnet_multimnist", decoder=False)


def test_a_model_that_is_saved_whole_converts_too(tmp_path: Path, small: Any) -> None:
    keras_file(tmp_path / "x.h5", small)
    with h5py.File(tmp_path / "x.h5") as weights, h5py.File(tmp_path / "y.h5", "w") as whole:
        copy = whole.create_group("model_weights")
        copy.attrs["layer_names"] = weights.attrs["layer_names"]
        weights.copy("all", copy)
    assert from_keras(tmp_path / "y.h5").architecture.name == "efficient_capsnet_multimnist"


def test_converting_leaves_the_random_numbers_alone(tmp_path: Path, small: Any) -> None:
    file = keras_file(tmp_path / "x.h5", small)
    state = torch.random.get_rng_state()
    from_keras(file)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays[:-1],
        lambda arrays: [*arrays, np.ones(3, np.float32)],
        lambda arrays: [arrays[0][:4], *arrays[1:]],
        lambda arrays: [arrays[1], arrays[0], *arrays[2:]],
        lambda arrays: [],
    ],
)
def test_other_networks_are_refused_by_their_shapes(tmp_path: Path, small: Any, change: Any) -> None:
    file = keras_file(tmp_path / "x.h5", small, change)
    with pytest.raises(
        CapsNetError, match=r"x\.h5' holds none of the networks that can be converted \(effic"
    ):
        from_keras(file)


def test_numbers_that_are_not_finite_are_damage(tmp_path: Path, small: Any) -> None:
    file = keras_file(tmp_path / "x.h5", small, lambda arrays: [arrays[0] * np.nan, *arrays[1:]])
    with pytest.raises(CapsNetError, match="not finite"):
        from_keras(file)


@pytest.mark.parametrize("keep", [0, 10, 1000, 300_000])
def test_truncated_files_are_damaged(tmp_path: Path, small: Any, keep: int) -> None:
    file = keras_file(tmp_path / "x.h5", small)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CapsNetError, match=r"x\.h5' is damaged or not a Keras weights file"):
        from_keras(file)


def test_foreign_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_text("not an h5 file at all")
    with pytest.raises(CapsNetError, match="damaged or not a Keras weights file"):
        from_keras(tmp_path / "x.h5")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file.create_dataset("numbers", data=np.ones(3))
    with pytest.raises(CapsNetError, match="damaged or not a Keras weights file"):
        from_keras(tmp_path / "y.h5")
    with pytest.raises(CapsNetError, match=r"There is no file '.*z\.h5'"):
        from_keras(tmp_path / "z.h5")
    with pytest.raises(CapsNetError, match="Could not read"):
        from_keras(tmp_path)


def test_text_where_numbers_belong_is_damage(tmp_path: Path, small: Any) -> None:
    file = keras_file(
        tmp_path / "x.h5", small, lambda arrays: [np.full(arrays[0].shape, b"text"), *arrays[1:]]
    )
    with pytest.raises(CapsNetError, match="damaged or not a Keras"):
        from_keras(file)


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_h5py(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "h5py")
    monkeypatch.setattr(builtins, "__import__", without_h5py)
    with pytest.raises(CapsNetError, match=r"pip install 'capsnet\[convert\]'"):
        from_keras(tmp_path / "x.h5")


def test_the_command_writes_weights_that_load(
    tmp_path: Path, small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = keras_file(tmp_path / "x.h5", small)
    convert_command(file, out=tmp_path / "text")
    assert "efficient_capsnet_multimnist: 154,656 parameters" in capsys.readouterr().out
    convert_command(file, out=tmp_path / "made", json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "efficient_capsnet_multimnist"
    assert (told["encoder_parameters"], told["decoder_parameters"]) == (154_656, 0)
    assert capsnet.load(tmp_path / "made").architecture.num_classes == 10


def test_the_command_does_not_overwrite(tmp_path: Path, small: Any) -> None:
    file = keras_file(tmp_path / "x.h5", small)
    with pytest.raises(CapsNetError, match="exists already and is not overwritten"):
        convert_command(file, out=tmp_path)
    (tmp_path / "empty").mkdir()
    convert_command(file, out=tmp_path / "empty")
    with pytest.raises(CapsNetError, match="not overwritten"):
        convert_command(file, out=tmp_path / "empty")
    with pytest.raises(CapsNetError, match="not overwritten"):
        convert_command(file, out=file)


def test_the_original_capsnet_is_its_own_program_in_its_own_layouts(tmp_path: Path) -> None:
    """Channels last, W as one matrix for each input to all outputs: the arrays' program, written out in NumPy."""
    rng = np.random.default_rng(1)
    shapes = [(9, 9, 1, 256), (256,), (9, 9, 256, 256), (32, 8), (1152, 8, 160), (10, 16)]
    arrays = [
        rng.normal(0, std, s).astype(np.float32)
        for s, std in zip(shapes, [0.1, 0.1, 0.02, 0.3, 0.2, 0.2], strict=True)
    ]
    with torch.device("meta"):
        made = capsnet.create_model("capsnet", decoder=False)
    model = from_keras(keras_file(tmp_path / "x.h5", made, lambda _: arrays))
    conv, conv_bias, primary, primary_bias, weight, bias = (array.astype(np.float64) for array in arrays)
    image = rng.uniform(0, 1, (28, 28, 1))

    def convolve(maps: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(maps, (9, 9), axis=(0, 1))[::stride, ::stride]
        return np.einsum("hwcyx,yxco->hwo", windows, kernel, optimize=True)

    def squash(s: np.ndarray) -> np.ndarray:
        squared = np.square(s).sum(-1, keepdims=True)
        return squared / (1 + squared) * s / np.sqrt(squared)

    maps = np.maximum(convolve(image, conv, 1) + conv_bias, 0)
    capsules = squash(convolve(maps, primary, 2).reshape(6, 6, 32, 8) / 32 + primary_bias).reshape(1152, 8)
    votes = np.einsum("ik,iko->io", capsules, weight).reshape(1152, 10, 16)
    logits = np.zeros((1152, 10))
    for _ in range(3):
        coupling = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        poses = squash(np.einsum("ij,ijd->jd", coupling, votes) + bias)
        logits = logits + np.einsum("ijd,jd->ij", votes, poses)
    with torch.no_grad():
        got = model(torch.from_numpy(image.transpose(2, 0, 1)[None]).float()).poses[0]
    lengths = np.linalg.norm(poses, axis=1)
    assert lengths.max() > 0.2
    np.testing.assert_allclose(got, poses, rtol=1e-5, atol=1e-5)
