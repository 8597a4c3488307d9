"""Estimated channels: the alignment's law, its energy, what it does to power and to privacy, each against a formula."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from adascale import ReceiveScalingProblem, Scenario, channel
from companion.results import load
from companion.training import channel_estimates as ce
from companion.training import estimates

SCENARIO = replace(Scenario.mnist(), num_devices=4)
ERROR = np.array([0.01, 0.1, 0.5, 2.0])
DRAWN = channel.draw(4, 20_000, 0)
KINDS = ("least-squares", "mmse")
KEPT = load("channels/estimates")


def estimated(kind, error=ERROR, drawn=DRAWN, seed=7):
    believed = ce.estimate(drawn, error, kind, seed=seed)
    return believed, drawn.coefficient / believed


def test_both_estimates_are_of_one_measurement_and_without_error_they_are_the_channel():
    ls, mmse = (estimated(kind)[0] for kind in KINDS)
    np.testing.assert_allclose(ls, mmse * (1 + ERROR[:, None]), rtol=1e-14)
    for kind in ce.KINDS:
        np.testing.assert_allclose(
            ce.estimate(DRAWN, 0, kind, seed=1), DRAWN.coefficient, rtol=1e-15
        )


@pytest.mark.parametrize("kind", KINDS)
def test_given_the_estimates_the_alignment_is_normal_with_the_stated_mean_and_variance(
    kind,
):
    believed, c = estimated(kind)
    law = ce.alignment_law(believed, DRAWN.path_loss, ERROR, kind)
    standard = (c - law.mean) / np.sqrt(law.variance)
    for part in (standard.real, standard.imag):
        for row in part:
            assert stats.kstest(row, stats.norm(scale=np.sqrt(0.5)).cdf).pvalue > 1e-3
    # the control: each kind's mean is not the other's
    wrong = (
        c
        - ce.alignment_law(
            believed, DRAWN.path_loss, ERROR, KINDS[kind == KINDS[0]]
        ).mean
    ).real
    assert (
        stats.kstest(
            (wrong / np.sqrt(law.variance))[3], stats.norm(scale=np.sqrt(0.5)).cdf
        ).pvalue
        < 1e-6
    )
    # and it does not depend on the estimate
    assert abs(np.corrcoef(standard[2].real, np.abs(believed[2]))[0, 1]) < 4 / np.sqrt(
        c.shape[1]
    )


@pytest.mark.parametrize("square", [1e-3, 0.1, 1.0, 5.0])
def test_the_ratio_of_gains_has_its_closed_form(square):
    """Against an integral: given X the true gain is a non-central chi-square."""
    for u in (1e-2, 0.5, 1.0, 3.0, 1e3):
        left = square / (1 + square)

        def above(
            y, u=u, left=left
        ):  # |h|^2 given |measured|^2 = (1 + square) x: mean x / (1 + square), variance left
            x = np.exp(y)
            centre = 2 * x / (1 + square) / left
            return (
                x
                * np.exp(-x)
                * stats.ncx2.sf(2 * u * (1 + square) * x / left, 2, centre)
            )

        expected = integrate.quad(above, -40, 6, limit=500, points=np.arange(-39, 6))[0]
        assert float(ce.gain_ratio_survival(u, square)) == pytest.approx(
            expected, rel=1e-5, abs=1e-9
        )


def test_the_alignment_has_no_second_moment():
    """The tail is that of 1 / u, so the share above u, times u, tends to a constant."""
    u = np.array([1e4, 1e8, 1e12])
    np.testing.assert_allclose(
        u * ce.gain_ratio_survival(u, 0.1), 0.1 / 1.1**2, rtol=1e-3
    )
    _, c = estimated("least-squares", 0.1)
    for limit in (0.5, 1.0, 2.0, 10.0):
        share, expected = (
            (np.abs(c) ** 2 > limit).mean(),
            float(ce.gain_ratio_survival(limit, 0.1)),
        )
        assert abs(share - expected) < 4 * np.sqrt(expected / c.size)


def test_at_the_bottleneck_the_error_is_larger_by_one_over_its_probability():
    error = np.array([0.01, 0.02, 0.05, 0.1])
    _, c = estimated("least-squares", error)
    weighed = DRAWN.gain / SCENARIO.batch_second_moment
    bottleneck = weighed.argmin(axis=0)
    probability = DRAWN.path_loss / DRAWN.path_loss.sum()
    share = np.bincount(bottleneck, minlength=4) / bottleneck.size
    assert (
        np.abs(share - probability) < 4 * np.sqrt(probability / bottleneck.size)
    ).all()
    ratio = np.abs(c[bottleneck, np.arange(bottleneck.size)]) ** 2
    for u in (0.5, 1.0, 4.0):
        expected = probability @ ce.gain_ratio_survival(u, error / probability)
        assert abs((ratio > u).mean() - expected) < 4 * np.sqrt(expected / ratio.size)
        larger = (
            ratio * (1 + error[bottleneck]) ** 2
        )  # MMSE: the divisor is of the law before the round
        expected = probability @ ce.gain_ratio_survival(
            u / (1 + error) ** 2, error / probability
        )
        assert abs((larger > u).mean() - expected) < 4 * np.sqrt(expected / ratio.size)
    naive = probability @ ce.gain_ratio_survival(4.0, error)
    assert abs((ratio > 4).mean() - naive) > 4 * np.sqrt(
        naive / ratio.size
    )  # the control


def test_the_energy_of_misalignment_is_what_a_simulation_finds():
    believed, _ = estimated("mmse")
    law = ce.alignment_law(believed, DRAWN.path_loss, ERROR)
    one = law.variance[:, :1]
    rng = np.random.default_rng(1)
    gradient = rng.standard_normal((4, 3))  # aligned lengths G k_m: the bound is met
    length = SCENARIO.clip_norm * np.sqrt(float(SCENARIO.batch_second_moment))
    gradient *= length / np.linalg.norm(gradient, axis=1, keepdims=True)
    deviation = np.sqrt(one / 2) * rng.standard_normal((4, 50_000))
    energy = ((deviation.T @ gradient / 4) ** 2).sum(axis=1)
    expected = float(ce.misalignment(SCENARIO, one)[0])
    assert abs(energy.mean() - expected) < 4 * energy.std() / np.sqrt(energy.size)


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_as_many_pilots_as_devices_keep_misalignment_below_the_receiver_s_noise(
    devices, seed
):
    scenario = replace(Scenario.mnist(), num_devices=devices)
    drawn = channel.draw(devices, 5, seed)
    error = ce.pilot_error(
        drawn.path_loss, devices, scenario.max_power, scenario.noise_power
    )
    for kind in KINDS:
        believed = ce.estimate(drawn, error, kind, seed=seed)
        law = ce.alignment_law(believed, drawn.path_loss, error, kind)
        floor = ReceiveScalingProblem(
            scenario, scenario.min_gain(np.abs(believed) ** 2), 0.1
        ).min_noise_energy
        assert (
            ce.misalignment(scenario, law.variance) <= floor / 2 * (1 + 1e-12)
        ).all()


def test_the_floor_of_the_estimates_keeps_the_power_and_the_true_one_does_not_in_half_of_the_rounds():
    slack = 4 * 0.5 / np.sqrt(20_000)  # four standard errors
    for kind, low, high in (
        ("least-squares", 0.2, 0.5 + slack),
        ("mmse", 0.5 - slack, 0.8),
    ):
        believed, _ = estimated(kind)
        needed = (
            SCENARIO.batch_second_moment / np.abs(believed) ** 2
        )  # power over P_max at eta = x_max
        own = SCENARIO.min_gain(np.abs(believed) ** 2) * needed
        assert own.max() <= 1 + 1e-12
        over = ((SCENARIO.min_gain(DRAWN.gain) * needed).max(axis=0) > 1).mean()
        assert low < over < high
    scaled = estimated("least-squares")[0] / np.sqrt(1 + ERROR[:, None])
    over = (
        SCENARIO.min_gain(DRAWN.gain) > SCENARIO.min_gain(np.abs(scaled) ** 2)
    ).mean()
    assert abs(over - 0.5) < slack


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_device_leaks_beyond_the_account_is_bounded_by_its_power(kind):
    error = ce.pilot_error(
        DRAWN.path_loss, 20, SCENARIO.max_power, SCENARIO.noise_power
    )
    believed, c = estimated(kind, error)
    problem = ReceiveScalingProblem(
        SCENARIO, SCENARIO.min_gain(np.abs(believed) ** 2), 0.04
    )
    law = ce.alignment_law(believed, DRAWN.path_loss, error, kind)
    sigma = problem.noise_multiplier(problem.min_noise_energy)
    unit = (
        2
        * SCENARIO.num_parameters
        / (SCENARIO.batch_size**2 * float(SCENARIO.batch_second_moment))
    )
    used = (
        problem.max_eta
        * float(SCENARIO.batch_second_moment)
        / (SCENARIO.x_max * np.abs(believed) ** 2)
    )
    dose = (unit / 20 / (1 + error))[:, None]
    np.testing.assert_allclose(law.variance / sigma**2, used * dose, rtol=1e-10)
    true = ce.true_noise_multiplier(sigma, c) ** -2.0
    received = SCENARIO.max_power * DRAWN.gain / SCENARIO.noise_power
    assert (true <= unit * received * (1 + 1e-12)).all()
    excess = true.mean(axis=-1) - (law.mean**2 / sigma**2 + used * dose).mean(axis=-1)
    assert (np.abs(excess) < 4 * true.std(axis=-1) / np.sqrt(true.shape[-1])).all()


@pytest.mark.slow
def test_a_row_is_what_is_stored():
    case = {"nu": 0.16, "error": "-10 dB", "kind": "mmse", "seed": 1}
    made = estimates.training_row("digits", **case) | estimates.leakage_row(
        Scenario.digits(), **case
    )
    stored = KEPT.query(
        "dataset == 'digits' and nu == 0.16 and error == '-10 dB' and kind == 'mmse' and seed == 1"
    )
    assert stored.accuracy.item() == pytest.approx(
        made.pop("accuracy"), abs=0.011
    )  # another processor rounds otherwise
    assert stored.measured.item() == pytest.approx(made.pop("measured"), rel=0.05)
    for name, value in made.items():
        assert stored[name].item() == pytest.approx(value, rel=1e-4), name


def test_a_case_is_compared_with_exact_coefficients_on_the_same_realisations():
    table = KEPT.query(
        "dataset == 'digits' and nu == 0.16 and seed < 3 and error in ('none', '10 pilots')"
    )
    exact, ten = (
        table[table.error == error].accuracy.to_numpy()
        for error in ("none", "10 pilots")
    )
    found = estimates.compared(table, "digits").set_index("error")
    assert found.lost.tolist() == pytest.approx([0.0, np.mean(exact - ten)])
    assert found.trainings.tolist() == [3, 3]
    low = stats.ttest_rel(exact, ten).confidence_interval(0.95).low
    assert found.low["10 pilots"] == pytest.approx(low)
    assert found.true["10 pilots"] == table[table.error == "10 pilots"].true.median()


def test_the_committed_table_has_a_row_per_case_with_an_accuracy_where_there_is_a_training(
    monkeypatch,
):
    for name, few in {
        "SEEDS": range(1),
        "BUDGETS": (0.16,),
        "CASES": {"digits": [("-20 dB", "mmse")] * 2},
    }.items():
        monkeypatch.setattr(estimates, name, few)
    monkeypatch.setattr(estimates, "TRAINED", {"digits": (range(0), [])})
    ((text, about),) = estimates.committed()
    made = pd.read_csv(io.StringIO(text))
    assert list(made.columns) == list(KEPT.columns)
    assert made.accuracy.isna().tolist() == [True, True]
    assert about["seeds"] == "0-0"
