import torch

import capsnet
from capsnet.data import load_dataset
from capsnet.data.base import Split
from capsnet.evaluate.cost import count_operations, count_parameters
from capsnet.evaluate.metrics import Evaluation, evaluate


def test_the_error_is_counted_image_by_image():
    dataset = load_dataset("mnist")
    split = dataset.test.select(torch.arange(60))
    torch.manual_seed(0)
    model = capsnet.create_model("efficient_capsnet").eval()
    wrong = 0
    for image, label in zip(*split, strict=True):
        scores = model(dataset.preprocessing.apply(image[None])).scores[0]
        wrong += int(scores.argmax()) != int(label)
    result = evaluate(model, dataset, split, batch_size=7)
    assert (result.images, result.wrong_images) == (60, wrong)
    assert result.error_percent == round(100 * wrong / 60, 6)


def test_evaluation_leaves_the_model_in_its_mode_and_hears_every_batch():
    dataset = load_dataset("mnist")
    model = capsnet.create_model("efficient_capsnet").train()
    seen = []
    evaluate(model, dataset, Split(*(t[:10] for t in dataset.test)), batch_size=4, on_batch=seen.append)
    assert model.training
    assert seen == [4, 4, 2]


def test_pair_and_digit_error_go_by_their_names():
    two = Evaluation(images=100, wrong_images=8, wrong_classes=10, classes_per_image=2, loss=0.0)
    assert two.named_errors("test_") == {"test_pair_error_percent": 8.0, "test_digit_error_percent": 5.0}
    one = Evaluation(images=100, wrong_images=8, wrong_classes=8, classes_per_image=1, loss=0.0)
    assert one.named_errors() == {"error_percent": 8.0}


def test_operations_of_the_mnist_network_are_the_papers():
    model = capsnet.create_model("efficient_capsnet")
    # 2 x (5*5*32*24^2 + 3*3*(32*64*22^2 + 64*64*20^2 + 64*128*9^2) + 9*9*128 + votes 10*16*8*16 + routing)
    convolutions = 25 * 32 * 24**2 + 9 * (32 * 64 * 22**2 + 64 * 64 * 20**2 + 64 * 128 * 9**2) + 81 * 128
    capsules = 10 * 16 * 8 * 16 + 2 * 10 * 16 * 16
    assert count_operations(model) == 2 * (convolutions + capsules)
    # The paper prints 0.06 G; its literal equation 5 would add 10 x 16 x 16 x 16 multiply-accumulates.
    assert round(count_operations(model) / 1e9, 2) == 0.06
    assert count_parameters(model.encoder) == 161_824
