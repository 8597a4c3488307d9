"""What the study of senders adds to the library: senders by least error, and the optimum for given senders."""

import numpy as np
import pytest

from adascale import channel
from adascale.accounting import rdp
from adascale.policies import Truncated
from adascale.scenario import Scenario
from companion.leakage.senders import by_error, optimum_on

S = Scenario.mnist()
GAIN = channel.draw(S.num_devices, 60, seed=4).gain
M = S.num_devices
G = S.clip_norm


def least_noise(gain, number):
    """At full power, by the power limit of the weakest of the best devices: eta |a|^2 spends all of P."""
    weakest = np.sort(gain / float(S.batch_second_moment), axis=0)[::-1][number - 1]
    eta = S.max_power * S.num_parameters * number**2 * weakest / G**2
    return S.num_parameters * S.noise_power / eta


def test_least_error_agrees_with_a_search_over_all_numbers():
    error = [
        least_noise(GAIN, k) / 2 + (2 * G * (M - k) / M) ** 2 for k in range(1, M + 1)
    ]
    np.testing.assert_array_equal(by_error(S, GAIN), 1 + np.argmin(error, axis=0))
    assert len({*by_error(S, GAIN)}) > 1


@pytest.mark.parametrize("total", [0.1, 0.4])
def test_no_schedule_of_the_same_senders_and_total_leaks_less(total):
    selection = Truncated.of_total(S, GAIN, total).select(S, GAIN)
    best = optimum_on(selection, GAIN)
    number = selection.senders.sum(axis=0)
    floor = np.array([least_noise(GAIN, k)[t] for t, k in enumerate(number)])

    def leakage(energy):
        sigma = number * S.batch_size / G * np.sqrt(energy / (2 * S.num_parameters))
        return np.sum(number * rdp(float(S.sampling_rate), sigma, S.order))

    energy, rng = best.noise_energy, np.random.default_rng(0)
    assert (energy >= floor * (1 - 1e-12)).all()
    assert energy.mean() == pytest.approx(total, rel=1e-9)
    assert leakage(energy) < leakage(selection.noise_energy)
    for share in (1e-4, 1e-2, 1):  # other schedules, near or far
        for spent in rng.dirichlet(np.ones(60), 20) * 60 * (total - floor.mean()):
            mixture = share * (floor + spent) + (1 - share) * energy
            assert leakage(energy) <= leakage(mixture) * (1 + 1e-9)
