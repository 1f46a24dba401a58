"""Fashion-MNIST: 60,000 + 10,000 garments, 28x28 grey (Xiao, Rasul, Vollgraf 2017). Found on this machine or downloaded.

| split | images | classes | pixels     |
|-------|--------|---------|------------|
| train | 60,000 | 10      | 1x28x28    |
| test  | 10,000 | 10      | 1x28x28    |
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.download import Progress, Remote, fetch_all
from capsnet.data.files import data_folders, find_folder
from capsnet.data.idx import read_idx
from capsnet.data.mnist import read_mnist_like
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import register_dataset

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

FOLDER = "fashion-mnist"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
SOURCES = (
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/{}",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{}",
)
FILES = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
MAX_BYTES = 48_000_000
CLASS_NAMES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
PREPROCESSING = Preprocessing(kind="picture", divisor=256.0, light_on_dark=True)


def find(data_dir: Path | None = None) -> Path | None:
    """The folder that has the four files, if there is one."""
    return find_folder(FOLDER, FILES, data_dir, others=(DEBIAN,))


def fetch(data_dir: Path | None = None, progress: Progress | None = None) -> Path:
    """Downloads the files into the first data folder."""
    remotes = [
        Remote(
            f"{name}.gz",
            tuple(s.format(f"{name}.gz") for s in SOURCES),
            MAX_BYTES,
            partial(read_idx, sha256=sha256),
        )
        for name, sha256 in FILES.items()
    ]
    return fetch_all("Fashion-MNIST", remotes, data_folders(data_dir)[0] / FOLDER, progress)


@register_dataset(
    train_images=60_000,
    test_images=10_000,
    image_shape=(1, 28, 28),
    class_names=CLASS_NAMES,
    licence="MIT",
    find=find,
    fetch=fetch,
)
def fashion_mnist(data_dir: Path | None = None) -> "DataSet":
    """Garments in MNIST's format (Xiao, Rasul, Vollgraf 2017)."""
    from capsnet.data.augmentation import FASHION_AUGMENTATIONS
    from capsnet.data.base import DataSet

    train, test, digests = read_mnist_like(find(data_dir) or fetch(data_dir), FILES)
    return DataSet(
        "fashion_mnist", train, test, CLASS_NAMES, PREPROCESSING, (1, 28, 28), FASHION_AUGMENTATIONS, digests
    )
