"""Optional accelerators: C compiled on this machine, and other ways of computing the same numbers faster.

Functions, layers and models are plain PyTorch and know nothing of this package. `accelerate(model)` gives those modules
of a model that an accelerator is registered for a fast `forward` of their own; `plain(model)` takes it away again, and
`with accelerated(model):` does both. The training loop accelerates what it trains. `CAPSNET_KERNELS=off`,
`capsnet train --kernels off` or `with using("off"):` leave everything to PyTorch.

Results are the plain ones up to rounding. Wherever someone could tell the difference otherwise, the plain `forward` runs: with
hooks on a module that would be bypassed, subclasses, tensor subclasses, `torch.func`, `torch.compile`, tracing, counting.

To add an accelerator, write a file here and import it below:

    @accelerates(SomeLayer)
    def some_layer(layer: SomeLayer, features: Tensor) -> Any:
        if not (layer.training and readable(features, layer.weight) and library() is not None):
            return NotImplemented
        return SomeFunction.apply(features, layer.weight)

- It is registered for one exact type; a subclass runs its own `forward`.
- It takes the module and the arguments of its `forward`, and returns NotImplemented, before it has changed anything, for
  everything that it can't do exactly: other devices, number types, memory layouts, modules inside of another type.
- It may bypass modules inside: it is only called when none of them has a hook.
- Its backward pass may be asked for a graph (then `torch.is_grad_enabled()` is true in it): `differentiable.gradients`
  computes that by PyTorch's operations.
- It writes to no tensor that anyone else could hold; what it overwrites of its own is declared
  (`torch.autograd.graph.increment_version`).
- C is compiled by `compiled.compile_source`, which may return None.
"""

from capsnet.kernels import conv_blocks, primary, routing, spectral
from capsnet.kernels.acceleration import accelerate, accelerated, accelerates, plain
from capsnet.kernels.switch import MODES, KernelsWarning, enabled, using

__all__ = [
    "MODES",
    "KernelsWarning",
    "accelerate",
    "accelerated",
    "accelerates",
    "conv_blocks",
    "enabled",
    "plain",
    "primary",
    "routing",
    "spectral",
    "using",
]
