import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capsnet.evaluate.statistics import bootstrap_interval, mcnemar_p, sign_flip_p, summarise


def test_a_summary_is_what_it_says():
    s = summarise([1.0, 2.0, 4.0])
    assert (s["n"], s["mean"], s["min"], s["max"]) == (3, pytest.approx(7 / 3), 1.0, 4.0)
    assert s["deviation"] == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert s["interval"][0] < s["mean"] < s["interval"][1]


def test_one_value_has_no_spread():
    s = summarise([0.5])
    assert s["deviation"] is None
    assert s["interval"] is None


def test_the_interval_of_many_normal_values_is_the_textbook_one():
    values = np.random.default_rng(1).normal(10, 2, 400)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std(ddof=1) / 20
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_exact_binomial_test(b, c):
    expected = stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar_p(b, c) == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 8, 14])
def test_sign_flips_are_scipys_exact_permutation_test(n):
    d = np.random.default_rng(n).normal(0.3, 1, n)
    expected = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    ).pvalue
    assert sign_flip_p(d) == pytest.approx(expected)


def test_many_seeds_are_drawn_and_never_give_zero():
    assert 0 < sign_flip_p([1.0] * 30) < 0.001
    assert sign_flip_p([0.0] * 30) == 1.0
