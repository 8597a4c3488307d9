"""Policies that choose who sends: the threshold, the power limit, whose rounds count, and the gain at equal noise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Problem, channel
from adascale.accounting import ExactAccountant
from adascale.errors import BudgetNotReached, InvalidInput
from adascale.policies import Best, Joint, Truncated
from adascale.problem import RoundLeakage

from ..problems import MIXED, MNIST, powers

EXACT = ExactAccountant()
# three devices with their own batches and power limits
UNEQUAL = replace(MIXED, max_power=(0.2, 0.05, 0.1))
PART = replace(UNEQUAL, privacy_noise_power=2e-13)
EQUAL = replace(MIXED, batch_size=20, dataset_size=1000)
gain_rows = st.lists(
    st.lists(powers(-13, -8), min_size=3, max_size=3), min_size=1, max_size=6
)


def random_gain(seed, rounds):
    return 10.0 ** np.random.default_rng(seed).uniform(-12, -9, (3, rounds))


def total_of(scenario, gain, threshold):
    """The mean noise energy of a threshold by plain loops; inf if a round has no sender."""
    spent = []
    for of_round in scenario.scaled_gain(gain).T:
        count = sum(of_round >= threshold)
        if count == 0:
            return np.inf
        x_max = scenario.x_max * (count / scenario.num_devices) ** 2
        spent.append(scenario.noise_scale / (x_max * threshold))
    return np.mean(spent)


@given(gain_rows, st.floats(-2, 2))
def test_threshold_is_the_least_of_all_with_its_total(rows, factor):
    gain = np.array(rows).T
    scaled = UNEQUAL.scaled_gain(gain).ravel()
    # within an interval, the total falls
    least = min(total_of(UNEQUAL, gain, g) for g in scaled)
    total = least * 10.0 ** abs(factor) * 1.0001
    threshold = float(Truncated.of_total(UNEQUAL, gain, total).threshold)
    assert total_of(UNEQUAL, gain, threshold) == pytest.approx(total, rel=1e-11)
    for lower in [*scaled, *np.nextafter(scaled, np.inf), 0.999999 * threshold]:
        if lower < threshold:
            assert total_of(UNEQUAL, gain, lower) > total * (1 - 1e-11)
    with pytest.raises(BudgetNotReached, match="total must be at least"):
        Truncated.of_total(UNEQUAL, gain, least * 0.9999)


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [(Truncated, (), "threshold"), (Best, (5,), "level"), (Joint, (), "price")],
)
def test_totals_broadcast_against_realisations(kind, options, field):
    gain = channel.draw(10, 30, range(4)).gain
    total = np.array([[0.3], [3.0]])
    policy = kind.of_total(MNIST, gain, total, *options)
    assert getattr(policy, field).shape == (2, 4)
    selection = policy.select(MNIST, gain)
    rtol = 0.01 if kind is Joint else 1e-12  # a round of Joint drops a device at once
    np.testing.assert_allclose(selection.total / total, 1, rtol=rtol)
    alone = kind.of_total(MNIST, gain[2], 3.0, *options).select(MNIST, gain[2])
    np.testing.assert_array_equal(alone.eta, selection.eta[1, 2])


EACH = pytest.mark.parametrize(
    "policy",
    [Truncated(3e-11), Best(2), Best(2, 0.5), Joint(0.1), Joint(total=0.5)],
)


@EACH
def test_a_selection_is_its_rounds_one_at_a_time(policy):
    gain = random_gain(1, 50)
    scenario = replace(UNEQUAL, num_rounds=50)
    selection = policy.select(UNEQUAL, gain)
    state = policy.start(scenario)
    scaled = UNEQUAL.scaled_gain(gain)
    assert selection.scenario.num_rounds == 50
    for t in range(50):
        state, eta, senders = policy.decide(state, scaled[..., t : t + 1])
        np.testing.assert_array_equal(eta[..., 0], selection.eta[..., t])
        np.testing.assert_array_equal(senders[..., 0], selection.senders[..., t])


@EACH
def test_every_sender_is_within_its_power_limit(policy):
    gain = random_gain(1, 200)
    selection = policy.select(UNEQUAL, gain)
    # of the norm of the mean gradient
    second = UNEQUAL.clip_norm**2 * UNEQUAL.batch_second_moment[:, None]
    count = np.maximum(selection.senders.sum(axis=0), 1)
    power = selection.eta * second / (UNEQUAL.num_parameters * count**2) / gain
    share = power / np.array(UNEQUAL.max_power)[:, None]
    assert 0.9 < share[selection.senders].max() <= 1 + 1e-12


def test_best_sends_the_strongest_and_the_first_of_equal_ones():
    gain = np.array([[1e-10, 1e-10], [3e-10, 1e-10], [2e-10, 1e-10]])
    senders = Best(2).select(MIXED, gain).senders.T.tolist()
    assert senders == [[False, True, True], [True, True, False]]


def test_skipped_rounds_leak_and_cost_nothing():
    gain = np.full((3, 4), 1e-10)
    gain[:, 1], gain[2] = 1e-13, 1e-13
    selection = Truncated(5e-11).select(MIXED, gain)
    assert selection.eta[1] == 0
    assert selection.total == pytest.approx(selection.noise_energy[0], rel=1e-14)
    assert selection.participation.tolist() == [0.75, 0.75, 0]
    sent = selection.noise_multiplier[0, [0, 2, 3]]
    epsilon = selection.epsilons(EXACT)
    assert epsilon[0] == EXACT.epsilon(MIXED.sampling_rate[0], sent, 1e-5)
    assert epsilon[2] == 0


def test_without_a_sender_nothing_leaks_and_there_is_no_total():
    nobody = Truncated(1e-8).select(MIXED, np.full((3, 4), 1e-10))
    assert np.isnan(nobody.total)
    assert nobody.epsilon(EXACT) == 0


@pytest.mark.parametrize("scenario", [UNEQUAL, PART])
def test_epsilon_is_that_of_own_rounds(scenario):
    """Each with the noise that protects over the largest change of the mean."""
    protecting = scenario.privacy_noise_power or scenario.noise_power
    selection = Best(2, 0.01).select(scenario, random_gain(3, 50))
    expected = []
    for m, own in enumerate(selection.senders):
        noise = np.sqrt(protecting / (2 * selection.eta[own]))  # per coordinate
        change = UNEQUAL.clip_norm / (2 * UNEQUAL.batch_size[m])
        sigma = selection.noise_multiplier[m, own]
        np.testing.assert_allclose(sigma, noise / change, rtol=1e-13)
        expected.append(EXACT.epsilon(UNEQUAL.sampling_rate[m], sigma, 1e-5))
    assert selection.epsilons(EXACT).tolist() == expected
    assert selection.epsilon(EXACT) == max(expected) > min(expected)
    exposed = selection._replace(exposure=4.0).noise_multiplier
    np.testing.assert_array_equal(exposed, selection.noise_multiplier / 2)


@pytest.mark.parametrize("scenario", [MNIST, PART])
def test_epsilon_is_kept_on_every_channel(scenario):
    policy = Truncated(epsilon=8.0, delta=1e-6)
    guarantee = policy.guarantee(scenario, EXACT, 1e-6)
    assert 8 * 0.998 <= guarantee <= 8
    shape = scenario.num_devices, scenario.num_rounds
    some, all_send = (
        policy.select(scenario, gain).epsilon(EXACT, 1e-6)
        for gain in (channel.draw(*shape, 0).gain, np.full(shape, 1e-6))
    )
    assert some <= guarantee * (1 + 1e-9)
    assert all_send == pytest.approx(guarantee, rel=1e-6)


def least_lagrangian(scenario, gain, price):
    """The least leakage plus price times noise of one round, over all sets of senders and a fine grid of energies."""
    leakage = RoundLeakage(scenario)
    scaled = scenario.scaled_gain(gain)
    values = []
    for senders in [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]:
        share = len(senders) / 3
        floor = scenario.floor(scaled[senders].min()) / share**2
        w = floor * np.geomspace(1, 1e7, 4001)
        values.append((share * leakage(share**2 * w) / 3 + price * w).min())
    return min(values)


@given(gain_rows, st.floats(-3, 2))
def test_joint_choice_is_the_best_set_and_scaling_of_every_round(rows, exponent):
    gain = np.array(rows).T
    price = 10.0**exponent
    selection = Joint(price).select(EQUAL, gain)
    leakage = RoundLeakage(EQUAL)
    share = selection.senders.mean(axis=0)
    w = selection.noise_energy
    reached = share * leakage(share**2 * w) / 3 + price * w
    for t, value in enumerate(reached):
        least = least_lagrangian(EQUAL, gain[:, [t]], price)
        assert value == pytest.approx(least, rel=1e-4)  # the grid of energies


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Truncated(), "exactly one of threshold and epsilon"),
        (Truncated(1e-320), "threshold must be"),
        (Truncated(epsilon=-1.0), "epsilon must be"),
        (Best(0), "number must be a whole number >= 1"),
        (Best(11), "number must be at most 10, got 11"),
        (Best(5, -1.0), "level must be finite and >= 0"),
        (Joint(), "exactly one of price and total"),
        (Joint(-1.0), "price must be"),
        (Joint(total=0.0), "total must be"),
    ],
)
def test_bad_parameters_are_named(policy, expected):
    with pytest.raises(InvalidInput, match=expected):
        policy.start(MNIST)


def test_a_problem_without_the_gains_of_all_devices_is_refused():
    problem = Problem(MNIST, np.full(12, 1e-10), 0.04)
    with pytest.raises(InvalidInput, match="needs the gains of all devices"):
        Best(5).schedule(problem)


def test_a_total_below_full_power_is_refused():
    gain = channel.draw(10, 12, 0).gain
    with pytest.raises(BudgetNotReached, match="total must be more than"):
        Best.of_total(MNIST, gain, 1e-6, 10)
    with pytest.raises(BudgetNotReached, match="total must be at least"):
        Joint.of_total(MNIST, gain, 1e-9)


def test_senders_as_zeros_and_ones_are_refused():
    """As positions, 0 and 1 would give another epsilon and no error."""
    selection = Truncated(1e-11).select(MNIST, channel.draw(10, 12, 0).gain)
    wrong = selection._replace(senders=selection.senders.astype(int))
    with pytest.raises(InvalidInput, match=r"^senders must be bool, got"):
        wrong.epsilon(EXACT)
