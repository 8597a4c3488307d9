"""The exact accountant at the ends of its range and beyond: what is taken, what is refused and how, closed forms."""

import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest

from adascale.accounting import exact_delta, exact_epsilon
from adascale.accounting.exact import gaussian
from adascale.accounting.exact.sharp import sharp_epsilon
from adascale.errors import CannotCertify

from .test_exact import gaussian_delta


@pytest.mark.parametrize("error", [CannotCertify("for a reason"), OverflowError("for a reason")])
@pytest.mark.parametrize(
    ("function", "within", "of"),
    [
        (exact_epsilon, "epsilon.bracket", "the exact epsilon of 2 rounds .* at delta 0.01 cannot be certified"),
        (sharp_epsilon, "sharp.sharp", "the exact epsilon of 2 rounds .* at delta 0.01 was not found"),
        (exact_delta, "epsilon.delta_bracket", "the exact delta of 2 rounds .* at epsilon 0.01 cannot be certified"),
    ],
)
def test_what_is_beyond_floating_point_is_refused_with_the_schedule_and_the_reason(
    monkeypatch, function, within, of, error
):
    def refuse(*_):
        raise error

    monkeypatch.setattr(f"adascale.accounting.exact.{within}", refuse)
    with pytest.raises(ValueError, match=f"{of}: for a reason"):
        function(0.1, [1.0, 2.0], 0.01)


@pytest.mark.parametrize(("wrong", "shown"), [(1e-9, "1e-09"), (1e151, r"1e\+151"), (0.99e-6, "9.9e-07")])
@pytest.mark.parametrize("function", [exact_epsilon, sharp_epsilon, exact_delta])
def test_the_noise_that_is_out_of_range_is_named_and_not_one_beside_it(function, wrong, shown):
    for beside in (3.0, 0.5):
        with pytest.raises(ValueError, match=f"must be within 1e-6 ... 1e150, got {shown}$"):
            function(0.1, [beside, wrong, beside], 0.5)


@pytest.mark.parametrize("function", [exact_epsilon, sharp_epsilon, exact_delta])
def test_rates_in_rows_are_refused_with_their_shape(function):
    with pytest.raises(ValueError, match=r"must be one number or one per round, got shape \(1, 2\)"):
        function([[0.1, 0.2]], [1.0, 2.0], 0.5)
    with pytest.raises(ValueError, match=r"got shape \(2,\) with noise_multiplier of shape \(1,\)"):
        function([0.1, 0.2], [1.0], 0.5)


@pytest.mark.parametrize("sigma", [1e-6, 1e150])
def test_the_least_and_the_largest_noise_that_are_named_are_taken(sigma):
    assert 0 <= exact_epsilon(1.0, [sigma], 1e-5).lower < math.inf


@pytest.mark.parametrize("sigma", [[1.0], [1e3], [1e149], [1.0, 2.0], [1.0, 1e100]])
@pytest.mark.parametrize("rate", [1.0, 0.5, 1e-9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-3, 30.0, 1e4, 1e6, 1e290, 1.7e308])
def test_delta_is_a_probability_at_any_epsilon_or_refused_in_little_memory(rate, sigma, epsilon):
    tracemalloc.start()
    try:
        found, said = exact_delta(rate, sigma, epsilon), ""
    except ValueError as refused:
        found, said = None, str(refused)
    finally:
        most_memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if found:
        assert 0 <= found.lower <= found.delta <= found.upper <= 1
        assert math.copysign(1, found.lower) == math.copysign(1, found.delta) == 1  # no -0
    else:
        assert "cannot be certified" in said
        assert "division" not in said
    assert most_memory < 1e8  # five times what any of them takes


def test_a_delta_that_underflows_is_at_most_the_least_that_floating_point_holds():
    assert exact_delta(1.0, [1e149], 1e6)[:3] == (0.0, 0.0, 1e-300)


def test_all_the_gaussian_rounds_of_a_delta_of_one_have_an_upper_end_of_one():
    assert gaussian.delta(1e4, 0.0)[2] == 1


@pytest.mark.parametrize("epsilon", [5.0, 31.0, 60.0])
@pytest.mark.parametrize("q", [1e-20, 1e-12, 0.1])
def test_a_sampled_round_of_any_rate_has_the_epsilon_and_delta_of_forty_digits(q, epsilon):
    """ln(1 + (e^epsilon - 1) / q) and its inverse, where e^-epsilon / q may be large or small."""
    with mp.workdps(40):
        inner = mp.log(1 + mp.expm1(epsilon) / mp.mpf(q))
        delta = float(q * gaussian_delta(7.0, inner))
    found = gaussian.sampled_delta(q, 49.0, epsilon)
    np.testing.assert_allclose(found, delta, rtol=1e-10)
    assert found[1] <= delta <= found[2]
    found = gaussian.sampled_epsilon(q, 49.0, delta)
    np.testing.assert_allclose(found, epsilon, rtol=1e-9)
    assert found[1] <= epsilon <= found[2]
