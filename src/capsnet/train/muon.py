"""AdamW, in which the kernels of convolutions follow Muon (Jordan et al. 2024).

Muon takes a kernel's momentum as a matrix with one row per output channel and brings all its singular values close to one
before the step: the kernel then moves in all directions alike, including those with small gradients. The Newton-Schulz
iteration does this with a few matrix products.

Letters: O output channels, N all other numbers of a kernel.
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOMENTUM = 0.95
STEPS = 5
# Jordan's: five steps bring singular values of 0.01 to 1 to within 0.6 and 1.3.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrix: Float[Tensor, "o n"]) -> Float[Tensor, "o n"]:
    """Return nearly U V^T, where U S V^T is the matrix's singular value decomposition.

    Each step is X <- P X with P = a + b A + c A^2 and A = X X^T. All P are polynomials of the first A, so they are multiplied
    among themselves, O x O each, and X only once, which is much the larger.
    """
    if len(matrix) > matrix.shape[1]:
        return orthogonalised(matrix.T).T
    x = matrix / matrix.norm().clamp_min(1e-7)
    gram = x @ x.T
    product = factor = _polynomial(gram)
    for _ in range(STEPS - 1):
        gram = factor @ gram @ factor
        factor = _polynomial(gram)
        product = factor @ product
    return product @ x


def _polynomial(gram: Float[Tensor, "o o"]) -> Float[Tensor, "o o"]:
    """P of a step."""
    a, b, c = COEFFICIENTS
    factor = torch.addmm(gram, gram, gram, beta=b, alpha=c)
    factor.diagonal().add_(a)
    return factor


def mixing_kernels(model: nn.Module) -> list[Tensor]:
    """Return the kernels that learn of convolutions that mix several channels: neither depthwise ones nor that of a
    single-channel image."""
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.groups == 1 < m.in_channels]
    return [conv.weight for conv in convolutions if conv.weight.requires_grad]


class MuonAdamW(torch.optim.AdamW):
    """Muon for `kernels`, at `kernel_rate` times the learning rate, and AdamW for all other parameters."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        kernels: Iterable[Tensor],
        *,
        kernel_rate: float,
        **options: Any,
    ) -> None:
        super().__init__(parameters, **options)
        self.kernels, self.kernel_rate = list(kernels), kernel_rate

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Moves all parameters; the kernels' gradients are used up."""
        (group,) = self.param_groups
        for kernel in self.kernels:
            if kernel.grad is None:
                continue
            gradient = kernel.grad.flatten(1)
            state = self.state[kernel]
            if not state:
                state["step"] = torch.tensor(0.0)  # AdamW looks for it in whatever state is loaded
                state["momentum"] = torch.zeros_like(gradient)
            state["step"] += 1
            state["momentum"].lerp_(gradient, 1 - MOMENTUM)
            update = orthogonalised(gradient.lerp(state["momentum"], MOMENTUM))
            # A matrix with more rows than columns has smaller entries when it is orthogonal.
            rate = group["lr"] * self.kernel_rate * max(1.0, len(update) / update.shape[1]) ** 0.5
            kernel.mul_(1 - group["lr"] * group["weight_decay"]).sub_(rate * update.view(kernel.shape))
            kernel.grad = None  # AdamW passes over it
        super().step()
