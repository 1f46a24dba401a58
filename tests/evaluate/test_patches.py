import torch

import capsnet
from capsnet.data.base import Split
from capsnet.data.patches import patches
from capsnet.data.view_input import make_view_dataset
from capsnet.data.viewpoints import norb_views
from capsnet.evaluate.metrics import evaluate


def views(n=6):
    images = torch.randint(0, 256, (n, 2, 96, 96), dtype=torch.uint8)
    labels, info = torch.arange(n) % 5, torch.zeros(n, 4, dtype=torch.long)
    split, seen = Split(images, labels), norb_views(labels, info)
    return make_view_dataset("toys", tuple("abcde"), split, split, seen, seen)


def test_scores_of_patches_are_averaged_image_by_image():
    data = views()
    for name in ("efficient_capsnet_smallnorb", "cnn_small"):
        model = capsnet.create_model(name, (2, 48, 48), 5).eval()
        seen = []
        evaluate(
            model,
            data,
            data.test,
            patches=4,
            batch_size=9,
            on_scores=lambda scores, _, seen=seen: seen.append(scores),
        )
        with torch.no_grad():
            expected = torch.stack(
                [model(crop).scores for crop in patches(data.test.images, data.preprocessing, 4)]
            )
        torch.testing.assert_close(torch.cat(seen), expected.mean(dim=0))


def test_one_patch_is_the_centre_crop():
    data = views()
    model = capsnet.create_model("efficient_capsnet_smallnorb").eval()
    assert evaluate(model, data, data.test, patches=1) == evaluate(model, data, data.test)
