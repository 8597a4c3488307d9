"""The exact accountant beside others, over drawn schedules: Opacus' PRV, Gaussian privacy, and one round in 60 digits.

Every test counts what it has compared, so that none can pass by refusing.
"""

import collections
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from adascale.accounting import exact_delta, exact_epsilon
from adascale.accounting.exact import certify as bracket
from adascale.accounting.exact import inversion
from adascale.errors import CannotCertify

from .coins import equal
from .exact import epsilon_by, gaussian_delta, one_round
from .test_exact import DELTAS, FEW, RATES, SIGMAS

ROUNDS = st.lists(st.tuples(SIGMAS, st.integers(1, 40)), min_size=1, max_size=2, unique_by=lambda pair: pair[0])
LARGEST = 2**13  # losses on the grid of the peer: its time


def sampled(_, rounds, delta, proof):
    """The closed form."""
    found = bracket.epsilon_interval(rounds, delta)
    proof.raise_lower(found.lower, "closed form")
    proof.reduce_upper(found.upper, "closed form")


# each way of a sum, and the share of rounds that it has to certify
WAYS = [(sampled, 1.0)]
WAYS += [pytest.param(*way, marks=pytest.mark.fuzz) for way in ((bracket.by_inversion, 0.1), (bracket.by_atoms, 0.6))]


class Counter(collections.Counter):
    """What happened, also for hypothesis' own statistics."""

    def note(self, name):
        self[name] += 1
        event(name)


def peer_ends(kinds, q, delta, width):
    """The bounds of Opacus' PRV, at an error of ``width`` in epsilon; a string where it has none."""
    from opacus.accountants import PRVAccountant
    from opacus.accountants.analysis.prv import PoissonSubsampledGaussianPRV

    accountant = PRVAccountant()
    accountant.history = [(sigma, q, number) for sigma, number in kinds]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            prvs, counts = zip(*((PoissonSubsampledGaussianPRV(q, sigma), n) for sigma, n in kinds), strict=True)
            grid = accountant._get_domain(
                prvs=prvs, num_self_compositions=counts, eps_error=width, delta_error=delta / 100
            )
            if not grid.size <= LARGEST:
                return "grid too large"
            found = accountant._get_dprv(eps_error=width, delta_error=delta / 100)
            # its sums are in double precision, which its own bounds leave out
            low, _, high = found.compute_epsilon(delta, delta / 100 + 1e-15 * math.sqrt(grid.size), width)
        except (ValueError, RuntimeError, OverflowError, IndexError) as error:
            return type(error).__name__
    return (low, high) if math.isfinite(low) and math.isfinite(high) else "not a number"


@pytest.mark.slow
@pytest.mark.hypothesis
def test_the_ends_and_those_of_the_peer_overlap():
    seen = Counter()

    @FEW
    @given(RATES, ROUNDS, DELTAS)
    def compare(q, kinds, delta):
        sigma = np.repeat(*map(np.array, zip(*kinds, strict=True)))
        try:
            ours = exact_epsilon(q, sigma, delta)
        except ValueError as error:
            if "cannot be certified" not in str(error):
                raise
            seen.note("not certified")
            assume(False)
        if ours.upper == 0:  # the peer has no bracket at 0, but a delta
            seen.note("epsilon is 0")
            return
        peer = peer_ends(kinds, q, delta, max(0.1 * ours.epsilon, 5e-3))
        if isinstance(peer, str):
            seen.note(f"peer: {peer}")
            assume(False)
        assert peer[0] <= ours.upper
        assert ours.lower <= peer[1]
        seen.note("the peer is above 0" if peer[0] > 0 else "compared")
        seen["total"] += 1

    compare()
    assert seen["the peer is above 0"] >= 0.1 * (sum(seen.values()) - seen["total"]), seen


@pytest.mark.hypothesis
def test_without_sampling_the_ends_hold_gaussian_privacy_in_multi_precision():
    @given(st.lists(SIGMAS, min_size=1, max_size=5), DELTAS)
    def compare(sigma, delta):
        found = exact_epsilon(1.0, sigma, delta)
        mu = math.sqrt(math.fsum(each**-2.0 for each in sigma))
        assert gaussian_delta(mu, found.lower) >= delta * (1 - 1e-15) or found.lower == 0
        assert gaussian_delta(mu, found.upper) <= delta * (1 + 1e-15)
        assert found.upper - found.lower <= 1e-9 * found.upper + 1e-9

    compare()


@pytest.mark.hypothesis
@pytest.mark.parametrize(("way", "least"), WAYS)
def test_one_round_in_sixty_digits_lies_between_the_ends(way, least):
    seen = Counter()

    @given(RATES.filter(lambda q: q < 0.5), SIGMAS, st.floats(-9, -0.05).map(lambda x: 10**x))
    def compare(q, sigma, fraction):
        delta = float(fraction * one_round(q, sigma, 0, "add"))
        try:
            _, lower, upper, _ = epsilon_by(way, equal(q, sigma), delta)
        except CannotCertify:
            seen.note("not certified")
            return
        low, high = (max(one_round(q, sigma, end, name) for name in inversion.DIRECTIONS) for end in (lower, upper))
        assert low >= delta >= high
        seen.note("compared")

    compare()
    assert seen["compared"] >= least * sum(seen.values()), seen


@pytest.mark.hypothesis
def test_delta_of_one_round_in_sixty_digits_lies_between_the_ends():
    @given(RATES.filter(lambda q: q < 1), SIGMAS, st.floats(0, 6))
    @example(0.0003152118512629508, 2.7399803878363183, 5.853888478217723)  # so small that its digits are cut
    def compare(q, sigma, epsilon):
        found = exact_delta(q, [sigma], epsilon)
        truth = max(one_round(q, sigma, epsilon, name) for name in inversion.DIRECTIONS)
        assert found.lower <= truth <= found.upper
        assert found.upper <= 1.01 * found.lower or found.upper < 1e-250
        assert found.lower <= found.delta <= found.upper

    compare()
