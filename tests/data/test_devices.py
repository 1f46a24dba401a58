import pytest
import torch

from capsnet.data import augmentation


@pytest.mark.parametrize("table", ["MNIST_AUGMENTATIONS", "FASHION_AUGMENTATIONS"])
def test_augmentation_makes_every_tensor_on_the_images_device(table):
    images = torch.randint(0, 256, (4, 1, 28, 28), dtype=torch.uint8)
    augmentation.lanczos_squish.cache_clear()
    # A tensor made without naming a device would land on "meta" here and could not meet the images.
    for name, augment in getattr(augmentation, table).items():
        generator = torch.Generator("cpu").manual_seed(0)
        with torch.device("meta"):
            assert augment(images, generator).device.type == "cpu", name
