"""Policies that choose who sends: the threshold, the power limit, whose rounds count, and the gain at equal noise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, accounting, channel, policies
from adascale.accounting import ExactAccountant
from adascale.errors import BudgetNotReached, InvalidInput
from adascale.policies import Best, Selecting, Truncated

from ..problems import MIXED, MNIST, powers

EXACT = ExactAccountant()
UNEQUAL = replace(
    MIXED, max_power=(0.2, 0.05, 0.1)
)  # three devices with their own batches and power limits
PART = replace(UNEQUAL, privacy_noise_power=2e-13)
gain_rows = st.lists(
    st.lists(powers(-13, -8), min_size=3, max_size=3), min_size=1, max_size=6
)


class Recorder:
    """An accountant that keeps what it is asked; epsilon is the number of rounds."""

    def __init__(self):
        self.asked = []

    def epsilon(self, sampling_rate, noise_multiplier, delta):
        self.asked.append((sampling_rate, noise_multiplier))
        return np.asarray(float(len(noise_multiplier)))


def total_of(scenario, gain, threshold):
    """The mean noise energy of a threshold by plain loops; inf if a round has no sender."""
    M, T = gain.shape
    power, batch = (
        np.broadcast_to(each, M) for each in (scenario.max_power, scenario.batch_size)
    )
    moment = 1 + (1 - np.broadcast_to(scenario.sampling_rate, M)) / batch
    spent = 0.0
    for t in range(T):
        count = sum(
            gain[m, t] * (power[m] / power.max()) / moment[m] >= threshold
            for m in range(M)
        )
        cap = (
            power.max()
            * scenario.num_parameters
            / scenario.clip_norm**2
            * count**2
            * threshold
        )  # x_max / M^2
        spent += (
            scenario.num_parameters * scenario.noise_power / cap if count else np.inf
        )
    return spent / T


@given(gain_rows, st.floats(-2, 2))
def test_threshold_is_the_least_of_all_with_its_total(rows, factor):
    gain = np.array(rows).T
    scaled = np.sort(UNEQUAL.scaled_gain(gain).ravel())
    least = min(
        total_of(UNEQUAL, gain, each) for each in scaled
    )  # within an interval, the total falls
    wanted = least * 10.0 ** abs(factor) * 1.0001
    found = float(Truncated.of_total(UNEQUAL, gain, wanted).threshold)
    assert total_of(UNEQUAL, gain, found) == pytest.approx(wanted, rel=1e-11)
    for below in [
        *scaled,
        *np.nextafter(scaled, np.inf),
        *(found * np.array([0.1, 0.9, 0.999999])),
    ]:
        assert below >= found or total_of(UNEQUAL, gain, below) > wanted * (1 - 1e-11)
    with pytest.raises(BudgetNotReached, match="total must be at least"):
        Truncated.of_total(UNEQUAL, gain, least * 0.9999)


def test_totals_broadcast_against_realisations():
    gain = channel.draw(10, 30, range(4)).gain
    total = np.array([[0.3], [3.0]])
    for found in (
        Truncated.of_total(MNIST, gain, total),
        Best.of_total(MNIST, gain, total, 5),
    ):
        selection = found.select(MNIST, gain)
        assert (selection.eta.shape, selection.senders.shape[-2:]) == (
            (2, 4, 30),
            (10, 30),
        )
        np.testing.assert_allclose(
            selection.total, np.broadcast_to(total, (2, 4)), rtol=1e-12
        )
        level = "level" if isinstance(found, Best) else "threshold"
        alone = replace(found, **{level: getattr(found, level)[1, 2]})
        np.testing.assert_array_equal(
            alone.select(MNIST, gain[2]).eta, selection.eta[1, 2]
        )


@pytest.mark.parametrize("policy", [Truncated(3e-11), Best(2), Best(2, 0.5), Best(3)])
def test_rounds_one_by_one_are_the_schedule_and_every_sender_is_within_its_power_limit(
    policy,
):
    gain = 10.0 ** np.random.default_rng(1).uniform(-12, -9, (3, 200))
    found, state, scaled, most = (
        policy.select(UNEQUAL, gain),
        policy.start(UNEQUAL),
        UNEQUAL.scaled_gain(gain),
        0.0,
    )
    assert found.scenario.num_rounds == 200
    for t in range(200):
        state, eta, senders = policy.decide(state, scaled[..., t : t + 1])
        np.testing.assert_array_equal(eta[..., 0], found.eta[..., t])
        np.testing.assert_array_equal(senders[..., 0], found.senders[..., t])
    for m, t in np.argwhere(found.senders):
        size, data = UNEQUAL.batch_size[m], UNEQUAL.dataset_size[m]
        second = UNEQUAL.clip_norm**2 * (
            1 + (1 - size / data) / size
        )  # of the norm of the mean gradient
        power = (
            found.eta[t]
            * second
            / (UNEQUAL.num_parameters * found.senders[:, t].sum() ** 2 * gain[m, t])
        )
        most = max(most, power / UNEQUAL.max_power[m])
    assert 0.9 < most <= 1 + 1e-12


def test_best_sends_the_strongest_and_holds_its_level_above_its_floor():
    equals = np.array([[1e-10, 1e-10], [3e-10, 1e-10], [2e-10, 1e-10]])
    assert Best(2).select(MIXED, equals).senders.T.tolist() == [
        [False, True, True],
        [True, True, False],
    ]
    gain = channel.draw(10, 100, 3).gain
    floor, found = Best(6).select(MNIST, gain), Best(6, 0.01).select(MNIST, gain)
    np.testing.assert_allclose(
        found.noise_energy, np.maximum(floor.noise_energy, 0.01), rtol=1e-14
    )
    assert 0 < (floor.noise_energy > 0.01).mean() < 1


def test_skipped_rounds_leak_and_cost_nothing():
    gain = np.full((3, 4), 1e-10)
    gain[:, 1], gain[2] = 1e-13, 1e-13
    found = Truncated(5e-11).select(MIXED, gain)
    assert found.eta[1] == 0
    assert found.total == pytest.approx(found.noise_energy[0], rel=1e-14)
    assert found.participation.tolist() == [0.75, 0.75, 0]
    assert found.epsilons(Recorder()).tolist() == [3, 3, 0]
    nobody = Truncated(1e-8).select(MIXED, gain)
    assert np.isnan(nobody.total)
    assert nobody.epsilon(EXACT) == nobody.epsilon_mean(EXACT) == 0


def test_noise_multiplier_of_truncation_is_one_constant_of_the_scenario():
    threshold = 3e-11
    found = Truncated(threshold).select(
        UNEQUAL, 10.0 ** np.random.default_rng(2).uniform(-12, -9, (3, 200))
    )
    assert {*found.senders.sum(axis=0)} == {0, 1, 2, 3}
    energy = UNEQUAL.noise_power / (
        max(UNEQUAL.max_power) * 9 / UNEQUAL.clip_norm**2 * threshold
    )  # w_0
    for m in range(3):
        expected = (
            3
            * UNEQUAL.batch_size[m]
            / UNEQUAL.clip_norm
            * np.sqrt(energy / (2 * UNEQUAL.num_parameters))
        )
        own = found.noise_multiplier[m, found.senders[m]]
        np.testing.assert_allclose(own, expected, rtol=1e-14)
        assert np.isinf(found.noise_multiplier[m, ~found.senders[m]]).all()


@pytest.mark.parametrize("scenario", [UNEQUAL, PART])
def test_epsilon_is_that_of_own_rounds(scenario):
    """The accountant sees these rounds alone, each with the noise that protects over the largest change of the mean."""
    protecting = scenario.privacy_noise_power or scenario.noise_power
    found = Best(2, 0.01).select(
        scenario, 10.0 ** np.random.default_rng(3).uniform(-12, -9, (3, 50))
    )
    recorder = Recorder()
    epsilon = found.epsilons(recorder)
    for m, (rate, sigma) in enumerate(recorder.asked):
        own = [t for t in range(50) if found.senders[m, t]]
        noise = [
            np.sqrt(protecting / (2 * found.eta[t])) for t in own
        ]  # per coordinate of the update
        change = UNEQUAL.clip_norm / (2 * UNEQUAL.batch_size[m])
        assert rate == UNEQUAL.batch_size[m] / UNEQUAL.dataset_size[m]
        np.testing.assert_allclose(np.sort(sigma), np.sort(noise) / change, rtol=1e-13)
        assert epsilon[m] == len(own)
    exposed = found._replace(exposure=4.0)
    np.testing.assert_array_equal(exposed.noise_multiplier, found.noise_multiplier / 2)
    assert found.epsilon(Recorder()) == epsilon.max()
    assert found.epsilon_mean(Recorder()) == epsilon.mean() < epsilon.max()


@pytest.mark.parametrize("scenario", [MNIST, PART])
def test_epsilon_is_kept_on_every_channel(scenario):
    policy = Truncated(epsilon=8.0, delta=1e-6)
    guarantee = policy.guarantee(scenario, EXACT, 1e-6)
    assert 8 * 0.998 <= guarantee <= 8
    M, T = scenario.num_devices, scenario.num_rounds
    for gain in (
        channel.draw(M, T, 0).gain,
        np.full((M, T), 1e-6),
        np.full((M, T), 1e-14),
    ):
        found = policy.select(scenario, gain)
        assert found.epsilon(EXACT, 1e-6) <= guarantee * (1 + 1e-9)
        if gain[0, 0] == 1e-6:
            np.testing.assert_allclose(found.epsilon(EXACT, 1e-6), guarantee, rtol=1e-6)


def test_truncation_leaks_less_than_the_optimum_of_all_at_equal_noise():
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, range(4)).gain
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), 0.04)
    w = policies.Optimal().schedule(problem)
    best, total = problem.epsilon(w, EXACT), w.mean(axis=-1)
    found = Truncated.of_total(MNIST, gain, total).select(MNIST, gain)
    np.testing.assert_allclose(found.total, total, rtol=1e-12)
    epsilons = found.epsilons(EXACT)
    assert (epsilons.max(axis=-1) < best).all()
    sigma, rounds = (
        float(found.noise_multiplier[0].min()),
        found.senders[0].sum(axis=-1),
    )
    first = found._replace(senders=found.senders[0], eta=found.eta[0])
    for own, epsilon in zip(rounds, first.epsilons(EXACT), strict=True):
        proven = accounting.epsilon(
            [(0.01, sigma, int(own))], 1e-5
        )  # certified by counting rounds
        assert proven.lower <= epsilon <= proven.upper * (1 + 1e-6)
    assert epsilons.mean() < 0.5 * best.mean()
    assert found.participation.mean() > 0.95


def test_wrong_accounting_is_below_a_proven_lower_bound():
    gain = channel.draw(10, 100, 1).gain
    found = Truncated(np.quantile(MNIST.scaled_gain(gain), 0.4)).select(MNIST, gain)
    m = int(found.participation.argmin())
    sigma, own, T = (
        float(found.noise_multiplier.min()),
        int(found.senders[m].sum()),
        100,
    )
    noise = 0.5 / sigma  # the same rounds where epsilon is not tiny
    true = accounting.epsilon([(0.01, sigma * noise, own)], 1e-5)
    amplified = accounting.epsilon(
        [(0.01 * own / T, sigma * noise, T)], 1e-5
    )  # (a) as if nobody knew who sends
    assert amplified.upper < true.lower
    counts = found.senders.sum(axis=0)[found.senders[m]]
    by_all = [
        (0.01, sigma * noise * 10 / k, 1) for k in counts
    ]  # (b) M devices, though the mean is that of K_t
    assert accounting.epsilon(by_all, 1e-5).upper < true.lower


def test_bad_arguments_are_named():
    gain = channel.draw(10, 12, 0).gain
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), 0.04)
    for policy, message in [
        (Truncated(), "exactly one of threshold and epsilon"),
        (Truncated(1e-11, 1.0), "exactly one of threshold and epsilon"),
        (Truncated(-1.0), "threshold must be finite and > 0"),
        (Truncated(1e-320), "threshold must be within"),
        (Truncated(epsilon=-1.0), "epsilon must be"),
        (Best(0), "number must be a whole number >= 1"),
        (Best(11), "number must be at most 10, got 11"),
        (Best(5, -1.0), "level must be finite and >= 0"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            policy.select(MNIST, gain)
    for policy in (Truncated(1e-11), Best(5)):  # of a trace of min_gain
        with pytest.raises(
            InvalidInput, match="needs the gains of all devices, got min_gain"
        ):
            policy.schedule(problem)
        with pytest.raises(
            InvalidInput, match=r"gain must have shape \(..., 10, T\), got \(12,\)"
        ):
            policy.select(MNIST, problem.min_gain)
    with pytest.raises(BudgetNotReached, match="total must be more than"):
        Best.of_total(MNIST, gain, 1e-6, 10)
    for method in (
        Selecting().start,
        lambda scenario: Selecting().decide((scenario, gain), gain),
    ):
        with pytest.raises(NotImplementedError, match="Selecting has no"):
            method(MNIST)
    chosen = Truncated(1e-11).select(MNIST, gain)
    for kind in (
        int,
        float,
    ):  # as positions, 0 and 1 would give another epsilon and no error
        wrong = chosen._replace(senders=chosen.senders.astype(kind))
        for measure in (lambda wrong=wrong: wrong.epsilon(EXACT), wrong.rdp):
            with pytest.raises(InvalidInput, match=r"^senders must be bool, got"):
                measure()
