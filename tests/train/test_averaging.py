from types import SimpleNamespace

import torch
from torch import nn

from capsnet import create_model
from capsnet.train.averaging import MovingAverage, RunningStatistics, statistics, take_statistics
from capsnet.train.distributed import Share, Torchrun


def test_the_average_follows_its_definition_statistics_included():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = MovingAverage(model, decay=0.5)
    expected = {k: v.clone() for k, v in model.state_dict().items() if v.is_floating_point()}
    for step in range(5):
        model(torch.randn(8, 2))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update(model, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = {k: decay * v + (1 - decay) * model.state_dict()[k] for k, v in expected.items()}
    for key, value in expected.items():
        torch.testing.assert_close(average.model.state_dict()[key], value)


def test_the_average_has_no_gradient_and_leaves_the_model_alone():
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    average = MovingAverage(model, decay=0.9)
    average.update(model, 0)
    assert torch.equal(model.weight, before)
    assert not any(p.requires_grad for p in average.model.parameters())


def test_running_statistics_are_the_mean_of_the_first_batches():
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=0.01))
    follower = RunningStatistics(model)
    batches = [torch.randn(16, 3) + n for n in range(5)]
    for step, batch in enumerate(batches):
        follower.before(step)
        model(batch)
        follower.after(step)
    torch.testing.assert_close(model[0].running_mean, torch.stack([b.mean(0) for b in batches]).mean(0))
    follower.before(1000)
    assert model[0].momentum == 0.01


def test_the_mean_taken_outside_compiled_layers_is_that_of_the_layers_themselves():
    models = [nn.Sequential(nn.BatchNorm1d(3, momentum=0.2)) for _ in range(2)]
    followers = [
        RunningStatistics(model, compiled=compiled)
        for model, compiled in zip(models, (False, True), strict=True)
    ]
    for step in range(12):
        batch = torch.randn(16, 3) + step
        for model, follower in zip(models, followers, strict=True):
            follower.before(step)
            model(batch)
            follower.after(step)
    assert models[1][0].momentum == 1.0  # never changes, so nothing is compiled twice
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(models[1][0], name), getattr(models[0][0], name))


def test_statistics_taken_anew_are_those_of_the_batches_and_nothing_else_changes():
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=0.01))
    model(torch.randn(16, 3) + 100)
    model.eval()
    batches = [torch.randn(16, 3) + n for n in range(5)]
    take_statistics(model, batches)
    torch.testing.assert_close(model[0].running_mean, torch.stack([b.mean(0) for b in batches]).mean(0))
    torch.testing.assert_close(model[0].running_var, torch.stack([b.var(0) for b in batches]).mean(0))
    assert model[0].momentum == 0.01
    assert not model.training


def hfc_after(batches):
    """The network after training steps on these batches, without the steps."""
    model = create_model("hfc", (1, 19, 19), 3)
    with torch.no_grad():
        for batch in batches:
            model(batch)
    return model


def test_statistics_of_every_model_can_be_taken_anew():
    """HFC's normalisation too, which has a shift and no scale."""
    batches = [torch.rand(8, 1, 19, 19) + n for n in range(2)]
    model = hfc_after([100 + 50 * torch.rand(8, 1, 19, 19)])
    follower = RunningStatistics(model)
    assert len(follower.norms) == 9 + 3 + 1
    take_statistics(model, batches)
    first = model.encoder.stages[0][0]
    means = [first.conv(batch).mean(dim=(0, 2, 3)) for batch in batches]
    torch.testing.assert_close(first.norm.norm.running_mean, torch.stack(means).mean(dim=0))


def test_every_normalisation_with_running_statistics_is_synchronised_between_gpus():
    model = nn.SyncBatchNorm.convert_sync_batchnorm(create_model("hfc", (1, 19, 19), 3))
    assert sum(isinstance(m, nn.SyncBatchNorm) for m in model.modules()) == 9 + 3 + 1
    before = {n for n, _ in create_model("hfc", (1, 19, 19), 3).named_parameters()}
    assert {n for n, _ in model.named_parameters()} == before


def test_constants_are_no_statistics():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.register_buffer("constant", torch.full((3,), torch.inf), persistent=False)
    average = MovingAverage(model, decay=0.5)
    model.constant = torch.zeros(3)
    average.update(model, 5)
    assert average.model.constant.isinf().all()
    assert len(statistics(model)) == 2


def test_processes_average_the_statistics_of_every_normalisation():
    model = hfc_after([torch.rand(8, 1, 19, 19)])
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    team = Torchrun.__new__(Torchrun)
    team.device, team.share = torch.device("cpu"), Share(0, 2)
    team.group = SimpleNamespace(
        all_reduce=lambda sums: sums.mul_(3)
    )  # the other has twice as much of everything
    team.average_statistics(model)
    for name, buffer in model.named_buffers():
        counted = name.endswith("num_batches_tracked")
        torch.testing.assert_close(buffer, before[name] if counted else 1.5 * before[name])
