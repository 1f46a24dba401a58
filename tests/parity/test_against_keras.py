"""The authors' program and this library give the same capsules and pictures with the same weights.

`efficient_capsnet_mnist_random_io.npz` holds six MNIST test digits and what their program gives for them with the
random weights of `random_mnist_arrays`.
"""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import capsnet
from capsnet.convert import from_keras
from capsnet.models import CapsuleModel

RECORDED = np.load(Path(__file__).parent / "efficient_capsnet_mnist_random_io.npz")
Array = tuple[str, np.ndarray]


def random_mnist_arrays() -> dict[str, list[Array]]:
    """The weights with which the recorded outputs were made, group by group, in the file's order."""
    rng = np.random.default_rng(11)

    def kernel(*shape: int, fan: int = 0) -> np.ndarray:
        return rng.normal(0, np.sqrt(2 / (fan or np.prod(shape[:-1]))), shape).astype(np.float32)

    def small(*shape: int, std: float = 0.1) -> np.ndarray:
        return rng.normal(0, std, shape).astype(np.float32)

    def between(low: float, high: float, size: int) -> np.ndarray:
        return rng.uniform(low, high, size).astype(np.float32)

    encoder: list[Array] = []
    statistics: list[Array] = []
    for n, (size, below, above) in enumerate([(5, 1, 32), (3, 32, 64), (3, 64, 64), (3, 64, 128)]):
        conv, norm = f"conv2d_{n + 4}", f"batch_normalization_{n}"
        encoder += [(f"{conv}/kernel:0", kernel(size, size, below, above)), (f"{conv}/bias:0", small(above))]
        encoder += [(f"{norm}/gamma:0", between(0.7, 1.3, above)), (f"{norm}/beta:0", small(above))]
        statistics += [(f"{norm}/moving_mean:0", small(above))]
        statistics += [(f"{norm}/moving_variance:0", between(0.5, 1.5, above))]
    encoder += [("caps/kernel:0", kernel(9, 9, 1, 128, fan=81)), ("caps/bias:0", small(128))]
    encoder += [("fc/W:0", kernel(10, 16, 8, 16, fan=2)), ("fc/b:0", small(10, 16, 1, std=0.2))]
    decoder: list[Array] = []
    for n, (below, above) in enumerate([(160, 512), (512, 1024), (1024, 784)]):
        decoder += [(f"dense_{n}/kernel:0", kernel(below, above)), (f"dense_{n}/bias:0", small(above))]
    return {"input_7": [], "CapsNet": encoder + statistics, "mask": [], "Generator": decoder}


def one_group_a_layer(groups: dict[str, list[Array]]) -> dict[str, list[Array]]:
    """The same arrays as a file of a model without sub-models has them: a BatchNorm's statistics in its own group."""
    flat: dict[str, list[Array]] = {}
    for arrays in groups.values():
        for name, array in arrays:
            flat.setdefault(name.split("/")[0], []).append((name, array))
    return flat


def write_h5(path: Path, groups: dict[str, list[Array]], *, names_as_bytes: bool = True) -> Path:
    """Writes groups of arrays as Keras does."""

    def names(words: Iterator[str]) -> list[str] | list[bytes]:
        return [word.encode() for word in words] if names_as_bytes else list(words)

    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = names(iter(groups))
        for group, arrays in groups.items():
            written = file.create_group(group)
            written.attrs["weight_names"] = names(name for name, _ in arrays)
            for name, array in arrays:
                written.create_dataset(name, data=array)
    return path


GROUPS = random_mnist_arrays()


def assert_equals_the_record(model: CapsuleModel, *, reconstruct: bool = True) -> None:
    """Poses and reconstructions to 1e-5 of their range."""
    images = torch.from_numpy(RECORDED["input"]).permute(0, 3, 1, 2)
    with torch.no_grad():
        output = model(images)
        np.testing.assert_allclose(output.poses, RECORDED["encoder_0"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(output.scores, RECORDED["encoder_1"], rtol=1e-5)
        if reconstruct:
            pictures = model.reconstruct(output.poses).permute(0, 2, 3, 1)
            np.testing.assert_allclose(pictures, RECORDED["model_1"], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CapsuleModel:
    return from_keras(write_h5(tmp_path_factory.mktemp("h5") / "weights.h5", GROUPS))


def test_poses_and_reconstructions_equal_the_authors(model: CapsuleModel) -> None:
    assert not model.training
    assert_equals_the_record(model)


def test_a_converted_model_keeps_its_outputs_on_disk(model: CapsuleModel, tmp_path: Path) -> None:
    capsnet.save(model, tmp_path)
    assert_equals_the_record(capsnet.load(tmp_path))


def test_the_papers_root_of_d_is_not_the_programs(model: CapsuleModel) -> None:
    paper = capsnet.create_model("efficient_capsnet", scale="input").eval()
    paper.load_state_dict(model.state_dict())
    with pytest.raises(AssertionError):
        assert_equals_the_record(paper)


def test_the_card_says_what_the_file_does_not(model: CapsuleModel) -> None:
    assert model.card.class_names == tuple("0123456789")
    assert model.card.preprocessing["divisor"] == 256
    assert model.card.provenance["converted_from"] == "weights.h5"


@pytest.mark.parametrize("names_as_bytes", [True, False])
def test_names_and_grouping_do_not_matter(tmp_path: Path, names_as_bytes: bool) -> None:
    flat = one_group_a_layer(GROUPS)
    renamed = {
        f"g{n}": [(f"x{n}/y{m}", array) for m, (_, array) in enumerate(arrays)]
        for n, arrays in enumerate(flat.values())
    }
    file = write_h5(tmp_path / "x.h5", renamed, names_as_bytes=names_as_bytes)
    assert_equals_the_record(from_keras(file))


def test_a_file_without_a_decoder_gives_a_model_without_one(tmp_path: Path) -> None:
    model = from_keras(write_h5(tmp_path / "x.h5", {"Encoder": GROUPS["CapsNet"]}))
    assert model.decoder is None
    assert_equals_the_record(model, reconstruct=False)
