"""Estimated channels: the alignment's law, its energy, what it does to power and to privacy, each against a formula."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from adascale import Scenario, channel
from companion.results import load
from companion.training import channel_estimates as ce
from companion.training import estimates

SCENARIO = replace(Scenario.mnist(), num_devices=4)
ERROR = np.array([0.01, 0.1, 0.5, 2.0])
DRAWN = channel.draw(4, 20_000, 0)
KINDS = ("least-squares", "mmse")
KEPT = load("channels/estimates")


def estimated(kind):
    return ce.estimate(DRAWN, ERROR, kind, seed=7)


@pytest.mark.parametrize("kind", KINDS)
def test_alignment_is_normal_given_the_estimates(
    kind,
):
    believed = estimated(kind)
    c = DRAWN.coefficient / believed
    law = ce.alignment_law(believed, DRAWN.path_loss, ERROR, kind)
    normal = stats.norm(scale=np.sqrt(0.5)).cdf
    standard = (c - law.mean) / np.sqrt(law.variance)
    for row in (*standard.real, *standard.imag):
        assert stats.kstest(row, normal).pvalue > 1e-3
    # the control: each kind's mean is not the other's
    (other,) = {*KINDS} - {kind}
    mean = ce.alignment_law(believed, DRAWN.path_loss, ERROR, other).mean
    wrong = (c - mean).real / np.sqrt(law.variance)
    assert stats.kstest(wrong[3], normal).pvalue < 1e-6


def test_the_alignment_has_no_second_moment():
    """The tail is that of 1 / u, so the share above u, times u, tends to a constant."""
    u = np.array([1e4, 1e8, 1e12])
    tail = u * ce.gain_ratio_survival(u, 0.1)
    np.testing.assert_allclose(tail, 0.1 / 1.1**2, rtol=1e-3)


def test_the_energy_of_misalignment_is_what_a_simulation_finds():
    law = ce.alignment_law(estimated("mmse"), DRAWN.path_loss, ERROR)
    variance = law.variance[:, :1]
    rng = np.random.default_rng(1)
    gradient = rng.standard_normal((4, 3))  # of the lengths G k_m: the bound is met
    gradient *= SCENARIO.clip_norm * np.sqrt(float(SCENARIO.batch_second_moment))
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    deviation = np.sqrt(variance / 2) * rng.standard_normal((4, 50_000))
    energy = ((deviation.T @ gradient / 4) ** 2).sum(axis=1)
    expected = float(ce.misalignment(SCENARIO, variance)[0])
    assert abs(energy.mean() - expected) < 4 * energy.std() / np.sqrt(energy.size)


@pytest.mark.slow
def test_a_row_is_what_is_stored():
    case = {"nu": 0.16, "error": "-10 dB", "kind": "mmse", "seed": 1}
    (row,) = estimates.rows("digits", **case)
    stored = KEPT.query(
        "dataset == 'digits' and nu == 0.16 and error == '-10 dB' and kind == 'mmse' and seed == 1"
    )
    # another processor rounds otherwise
    assert stored.accuracy.item() == pytest.approx(row.pop("accuracy"), abs=0.011)
    for name, value in row.items():
        assert not isinstance(value, np.ndarray), name  # written with all digits
        expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-4)
        assert stored[name].item() == expected, name
