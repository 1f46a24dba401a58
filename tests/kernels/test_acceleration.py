"""The pass: what it changes about a model, and what it leaves alone."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from capsnet import kernels
from capsnet.errors import CapsNetError
from capsnet.kernels import acceleration, available


class Doubling(nn.Module):
    """Says by its result which forward has run."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.inner(x)


class Heir(Doubling):
    pass


ONE = torch.ones(1)
PLAIN, FAST = 2.0, 3.0


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """Three times in place of twice, except for negative numbers."""
    fast = {Doubling: lambda module, x: NotImplemented if (x < 0).any() else 3 * x}
    monkeypatch.setattr(acceleration, "_FAST", fast)
    monkeypatch.delenv("CAPSNET_KERNELS", raising=False)


def test_the_fast_forward_runs_where_it_applies():
    model = kernels.accelerate(nn.Sequential(Doubling()))
    assert model(ONE) == FAST
    assert model(-ONE) == -PLAIN
    assert kernels.plain(model)(ONE) == PLAIN


def test_subclasses_run_their_own():
    assert kernels.accelerate(Heir())(ONE) == PLAIN


def test_the_modules_own_hooks_fire_and_leave_it_fast():
    model = kernels.accelerate(Doubling())
    seen = []
    model.register_forward_hook(lambda module, given, result: seen.append(result))
    assert model(ONE) == FAST
    assert seen == [FAST]


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_with_a_hook_inside_all_runs_plain(register):
    model = kernels.accelerate(Doubling())
    seen = []
    hook = getattr(model.inner, register)(lambda *_: seen.append(1))
    assert model(ONE) == PLAIN
    assert seen == [1]
    hook.remove()
    assert model(ONE) == FAST


def test_with_a_backward_hook_inside_all_runs_plain():
    model = kernels.accelerate(Doubling())
    model.inner.register_full_backward_hook(lambda *_: None)
    assert model(ONE.clone().requires_grad_()) == PLAIN


def test_with_a_hook_on_every_module_all_runs_plain():
    model = kernels.accelerate(Doubling())
    hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert model(ONE) == PLAIN
    finally:
        hook.remove()


def test_a_forward_that_someone_else_replaced_is_not_bypassed():
    model = kernels.accelerate(Doubling())
    model.inner.forward = lambda x: 5 * x
    assert model(ONE) == 5 * PLAIN


def test_what_follows_operations_sees_them_all():
    model = kernels.accelerate(Doubling())
    x = ONE.clone()
    assert torch.func.vmap(model)(x[None]) == PLAIN
    assert torch.func.grad(lambda x: model(x).sum())(x) == PLAIN
    assert torch.func.jvp(model, (x,), (x,))[1] == PLAIN
    assert torch.jit.trace(model, x, check_trace=False)(x) == PLAIN
    assert torch.compile(model, backend="eager", fullgraph=True)(x) == PLAIN
    assert torch.export.export(model, (x,)).module()(x) == PLAIN
    with torch.utils.flop_counter.FlopCounterMode(display=False):
        assert model(x) == PLAIN
    with torch.device("cpu"):  # a mode that every function is given to
        assert model(x) == PLAIN
    assert model(x) == FAST


def test_tensors_of_other_types_run_plain():
    class Marked(Tensor):
        pass

    assert kernels.accelerate(Doubling())(ONE.as_subclass(Marked)) == PLAIN
    assert kernels.accelerate(Doubling())(x=ONE.as_subclass(Marked)) == PLAIN


def test_copies_are_accelerated_for_themselves():
    model = kernels.accelerate(nn.Sequential(Doubling()))
    other = copy.deepcopy(model)
    other[0].inner.register_forward_hook(lambda *_: None)
    assert model(ONE) == FAST
    assert other(ONE) == PLAIN
    assert kernels.plain(other)[0].__dict__.keys() == Doubling().__dict__.keys()
    assert model(ONE) == FAST


def test_a_pickled_model_is_whole():
    model = pickle.loads(pickle.dumps(kernels.accelerate(Doubling())))
    assert model(ONE) == PLAIN
    assert kernels.accelerate(model)(ONE) == FAST


def test_accelerating_within_a_block_leaves_the_model_as_it_was():
    model = nn.Sequential(Doubling(), Doubling())
    kernels.accelerate(model[0])
    with kernels.accelerated(model):
        assert model(ONE) == FAST * FAST
    assert model(ONE) == FAST * PLAIN


def test_one_switch_turns_all_off(monkeypatch):
    model = kernels.accelerate(Doubling())
    with kernels.using("off"):
        assert model(ONE) == PLAIN
        assert not acceleration.is_accelerated(kernels.accelerate(Doubling()))
    assert model(ONE) == FAST
    monkeypatch.setenv("CAPSNET_KERNELS", "off")
    assert model(ONE) == PLAIN
    with kernels.using("auto"):
        assert model(ONE) == FAST
    monkeypatch.setenv("CAPSNET_KERNELS", "of")
    with pytest.raises(CapsNetError, match="CAPSNET_KERNELS is 'auto' or 'off', not 'of'"):
        model(ONE)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (torch._C, "_len_torch_dispatch_stack"),
        (torch._C, "_len_torch_function_stack"),
        (torch._C._functorch, "peek_interpreter_stack"),
        (torch.autograd.forward_ad, "_current_level"),
        (available.nn_module, "_has_any_global_hook"),
    ],
)
def test_without_a_private_function_of_pytorch_it_runs_plain_and_says_so(place, name, monkeypatch):
    monkeypatch.delattr(place, name)
    monkeypatch.setattr("capsnet.kernels.switch._warned", False)
    model = kernels.accelerate(Doubling())
    with pytest.warns(kernels.KernelsWarning, match=name):
        assert model(ONE) == PLAIN
    assert model(ONE) == PLAIN  # without another warning
