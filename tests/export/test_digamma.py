"""Digamma from elementary operations, against scipy's."""

import numpy as np
from scipy.special import digamma as expected

from capsnet.export.digamma import SERIES, STEPS, translations


def test_digamma_in_onnx_operations_equals_scipys():
    (function,) = translations().values()
    x = np.concatenate([np.logspace(-3, 4, 200), np.linspace(0.5, 3, 50)]).astype(np.float32)
    # onnxscript runs the operations one by one when they are given arrays.
    np.testing.assert_allclose(function(x).value, expected(x), rtol=2e-5, atol=2e-6)


def test_the_series_is_exact_enough_where_it_begins():
    x = float(STEPS)
    tail = sum(factor * x ** -(2 * n) for n, factor in enumerate(SERIES, start=1))
    assert abs(np.log(x) - 0.5 / x - tail - expected(x)) < 1e-9
