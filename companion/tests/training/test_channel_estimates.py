"""Estimated channels: the alignment's law, its energy, what it does to power and to privacy, each against a formula."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from adascale import ReceiveScalingProblem, Scenario, accounting, channel
from companion.results import load
from companion.training import channel_estimates as ce
from companion.training import estimates

SCENARIO = replace(Scenario.mnist(), num_devices=4)
ERROR = np.array([0.01, 0.1, 0.5, 2.0])
DRAWN = channel.draw(4, 20_000, 0)
KINDS = ("least-squares", "mmse")
ONE = [[1.0]], [1.0], 0.1
KEPT = load("channels/estimates")
MNIST = estimates.compared(KEPT, "mnist").set_index(["nu", "error", "kind"])


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


def test_errors_are_proportional_and_a_longer_or_wider_realisation_keeps_them():
    small = estimated("least-squares", 0.01)[0] - DRAWN.coefficient
    large = estimated("least-squares", 0.04)[0] - DRAWN.coefficient
    np.testing.assert_allclose(large, 2 * small, rtol=1e-8, atol=1e-18)
    part = channel.draw(3, 50, 0)
    np.testing.assert_array_equal(
        estimated("mmse", 0.1, part)[0], ce.estimate(DRAWN, 0.1, seed=7)[:3, :50]
    )
    many = channel.draw(3, 50, [5, 0])
    lanes = ce.estimate(many, 0.1, seed=[3, 7])
    np.testing.assert_array_equal(lanes[1], estimated("mmse", 0.1, part)[0])
    assert not np.allclose(
        lanes[0] / many.coefficient[0], lanes[1] / many.coefficient[1]
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


def test_pilots_as_strong_as_data_give_every_device_one_received_error():
    error = ce.pilot_error(DRAWN.path_loss, 8, SCENARIO.max_power, SCENARIO.noise_power)
    np.testing.assert_allclose(
        error * SCENARIO.max_power / (DRAWN.path_loss * SCENARIO.noise_power), 1 / 8
    )


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


def test_misalignment_is_a_multiple_of_the_floor():
    believed, _ = estimated("mmse")
    problem = ReceiveScalingProblem(
        SCENARIO, SCENARIO.min_gain(np.abs(believed) ** 2), 0.1
    )
    energy = ce.misalignment(
        SCENARIO, ce.alignment_law(believed, DRAWN.path_loss, ERROR).variance
    )
    received = (
        SCENARIO.max_power
        / (DRAWN.path_loss * SCENARIO.noise_power)
        * ERROR
        / (1 + ERROR)
    )
    bottleneck = (np.abs(believed) ** 2).argmin(axis=0)
    assert (energy <= received.sum() * problem.min_noise_energy / 2 * (1 + 1e-12)).all()
    assert (
        energy >= received[bottleneck] * problem.min_noise_energy / 2 * (1 - 1e-12)
    ).all()


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


def test_both_quadratures_together_tell_the_server_the_modulus():
    """One sample's step over the noise, in the real coordinates of what is received, and in the real part alone."""
    c, sigma = 0.6 - 1.1j, 3.0
    sample = np.random.default_rng(0).standard_normal(7)
    sample /= np.linalg.norm(sample)
    step = np.concatenate(
        [(c * sample).real, (c * sample).imag]
    )  # in units of the sensitivity
    assert np.linalg.norm(step) / sigma == pytest.approx(
        1 / float(ce.true_noise_multiplier(sigma, c))
    )
    real = float(ce.true_noise_multiplier(sigma, c.real))
    assert np.linalg.norm(step[:7]) / sigma == pytest.approx(1 / real)
    turned = (np.conj(c) / abs(c)) * (
        c * sample
    )  # what the server can do: all of it in one quadrature
    np.testing.assert_allclose(turned, abs(c) * sample, atol=1e-15)


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


def test_with_mmse_estimates_the_mean_leakage_is_above_the_account():
    error = np.full(4, 0.1)
    believed, c = estimated("mmse", error)
    sigma = 2.0  # one for all
    x = (np.abs(believed) ** 2 * DRAWN.path_loss[:, None]).ravel()
    kept = x > 0.2  # where the mean over few draws is a mean
    for alpha in (1.5, 3.0):
        true = accounting.rdp(
            0.01,
            ce.true_noise_multiplier(np.full(kept.sum(), sigma), c.ravel()[kept]),
            alpha,
        )
        assert true.mean() - 4 * true.std() / np.sqrt(true.size) > accounting.rdp(
            0.01, sigma, alpha
        )


def test_no_round_exceeds_the_bound_but_with_the_probability_that_is_given():
    drawn = channel.draw(400, 60, 2)
    believed, c = estimated("least-squares", 0.3, drawn, 3)
    law = ce.alignment_law(believed, drawn.path_loss, 0.3, "least-squares")
    beyond = (np.abs(c) > ce.alignment_bound(law, 0.2)).any(axis=-1).mean()
    assert 0.01 < beyond < 0.2  # a union bound, and a triangle


def estimate(error, seed=0, kind="mmse"):
    return ce.estimate(channel.draw(2, 3, 0), error, kind, seed=seed)


BAD = [("error", estimate, -0.1), ("symbols", ce.pilot_error, 1e10, 0, 1.0, 1e-12)]
BAD += [
    ("power", ce.pilot_error, 1e10, 1, 0.0, 1e-12),
    ("variance", ce.misalignment, SCENARIO, -np.ones((4, 1))),
]
BAD += [(r"\|estimate\|\^2", ce.alignment_law, [[1.0], [0.0]], [1.0, 1.0], 0.1)]
BAD += [
    (r"\|alignment\|", ce.true_noise_multiplier, [1.0], [0j]),
    ("ratio", ce.gain_ratio_survival, 0.0, 0.1),
]
BAD += [
    ("probability", ce.alignment_bound, ce.alignment_law(*ONE), 1.0),
    ("error", ce.gain_ratio_survival, 1.0, 0.0),
]


def test_bad_input_is_named():
    for case in BAD:
        named, function, *given = case
        with pytest.raises(ValueError, match=f"^{named} must"):
            function(*given)


def test_exact_coefficients_leak_what_is_accounted_and_estimates_leak_more():
    exact = KEPT[KEPT.error == "none"]
    np.testing.assert_allclose(exact.true, exact.epsilon, rtol=1e-5)
    assert not exact.over.any()
    mmse = MNIST.xs("mmse", level="kind").drop("none", level="error")
    assert (mmse.true > mmse.epsilon).all()
    for nu in estimates.BUDGETS:
        ordered = [
            MNIST.true[nu, error, "mmse"]
            for error in ("1000 pilots", "100 pilots", "10 pilots")
        ]
        assert ordered == sorted(ordered)
        assert ordered[0] < 1.02 * MNIST.epsilon[nu, "1000 pilots", "mmse"]
    assert (
        MNIST.true[0.16, "-20 dB", "mmse"] > 2 * MNIST.epsilon[0.16, "-20 dB", "mmse"]
    )


def test_ten_pilots_for_ten_devices_keep_misalignment_below_the_noise_and_no_simulation_exceeds_the_bound():
    enough = KEPT[KEPT.error.isin(["10 pilots", "100 pilots", "1000 pilots"])]
    assert (enough.misaligned < enough.noise).all()
    trained = KEPT.dropna(subset=["measured"]).query("error != 'none'")
    assert trained.measured.median() < trained.misaligned.median()


def test_the_true_floor_as_a_cap_is_exceeded_in_about_half_of_the_rounds():
    over = KEPT[KEPT.error != "none"].groupby("kind").over
    rounds = 500 * len(estimates.SEEDS)
    assert over.mean()["mmse"] > 0.5 - 2 / np.sqrt(rounds)
    assert over.mean()["least-squares"] < 0.5 + 2 / np.sqrt(rounds)


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


def test_the_schedule_is_within_the_limit_of_what_is_believed():
    for error in ("-10 dB", "10 pilots"):
        made = estimates.realise(Scenario.digits(), 0.04, error, "least-squares", 0)
        assert (made.energy >= made.problem.min_noise_energy).all()
        assert not np.allclose(made.problem.min_noise_energy, made.true_floor)
    again = estimates.realise(Scenario.digits(), 0.04, "none", "mmse", 0)
    np.testing.assert_allclose(
        again.problem.min_noise_energy, made.true_floor, rtol=1e-12
    )
    np.testing.assert_allclose(again.alignment, 1, rtol=1e-12)


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
