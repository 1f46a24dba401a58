"""The digamma function, which variational Bayes routing takes of counts and ONNX does not have.

For x > 0: six steps of psi(x) = psi(x + 1) - 1/x, then the asymptotic series, whose error beyond 6 is under 1e-9.
"""

from collections.abc import Callable
from typing import Any

import torch

STEPS = 6
# psi(x) = log x - 1/(2x) - sum of these times x^-2, x^-4, ...
SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240)


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations that torch's exporter lacks."""
    from onnxscript import opset20 as op

    def digamma(x: Any) -> Any:
        def number(value: float) -> Any:
            return op.Constant(value_float=value)

        shift = op.Reciprocal(x)
        for step in range(1, STEPS):
            shift = op.Add(shift, op.Reciprocal(op.Add(x, number(float(step)))))
        x = op.Add(x, number(float(STEPS)))
        inverse = op.Reciprocal(x)
        square = op.Mul(inverse, inverse)
        series = number(SERIES[-1])
        for factor in reversed(SERIES[:-1]):
            series = op.Add(op.Mul(series, square), number(factor))
        tail = op.Add(op.Mul(number(0.5), inverse), op.Mul(series, square))
        return op.Sub(op.Sub(op.Log(x), tail), shift)

    return {torch.ops.aten.digamma.default: digamma}
