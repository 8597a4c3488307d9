"""What the paper says of its leakage figures, each statement as a test: those that hold, and those that do not.

Forty realisations; the chapters "MNIST" and "CIFAR-10" show a hundred.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from opacus.accountants import RDPAccountant

from adascale import ReceiveScalingProblem, Scenario, channel, policies, presets
from adascale.comparison import leakage_table
from companion.claims import compare, judge, paper_claims
from companion.methods import METHODS, VARIANTS

SCENARIOS = {"mnist": Scenario.mnist(), "cifar10": Scenario.cifar10()}
BUDGETS = {name: presets.load(name).levels for name in SCENARIOS}
BENCHMARKS = ("EqualAlloc", "EstimFuture", "PowerControl", "LyapunovPowerControl")


class Figure:
    """The table of one figure and its verdicts."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.table = leakage_table(SCENARIOS[dataset], BUDGETS[dataset], range(40), METHODS)
        self.claims = paper_claims(self.table)

    def verdicts(self, claim, metric=None, policy=None):
        rows = self.claims[self.claims.claim == claim]
        for name, wanted in (("metric", metric), ("policy", policy)):
            rows = rows if wanted is None else rows[rows[name] == wanted]
        assert len(rows), "nothing was judged"
        return list(rows.verdict)


@pytest.fixture(scope="module")
def mnist():
    return Figure("mnist")


@pytest.fixture(scope="module")
def cifar10():
    return Figure("cifar10")


@pytest.fixture(params=["mnist", "cifar10"])
def figure(request):
    return request.getfixturevalue(request.param)


def test_the_comparison_is_at_equal_cost(figure):
    assert set(figure.table.policy) == {"Optimal", "AdaScale", *BENCHMARKS}
    assert (abs(figure.table.cost / figure.table.nu - 1) < 1e-9).all()


def test_nothing_leaks_less_rdp_than_the_optimum(figure):
    rdp = figure.table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    # a cost 1e-9 above the budget could buy about as much
    assert (rdp.drop(columns="Optimal").div(rdp["Optimal"], axis=0) > 1 - 1e-8).all(axis=None)


def test_adascale_is_ahead_of_every_benchmark_of_both_panels(figure):
    for policy in BENCHMARKS[:2]:
        assert set(figure.verdicts("ahead", "rdp", policy)) == {"holds"}
    assert set(figure.verdicts("ahead", "epsilon")) == {"holds"}
    judged = figure.claims[(figure.claims.claim == "ahead") & (figure.claims.metric == "epsilon")]
    assert set(judged.policy) == set(BENCHMARKS)


def test_in_rdp_19_leaks_less_than_adascale_at_the_largest_nu_of_mnist(mnist):
    """Not in the paper's panel; ahead of both where the paper's argument would matter most, at small nu."""
    assert mnist.verdicts("ahead", "rdp", "PowerControl") == ["holds"] * 4 + ["fails"]
    assert set(mnist.verdicts("ahead", "rdp", "LyapunovPowerControl")) == {"holds"}


def test_adascale_is_within_20_percent_of_the_optimum(figure):
    assert set(figure.verdicts("close")) == {"holds"}


def test_adascale_is_within_5_percent_of_the_optimum_at_the_largest_budget(figure):
    last = figure.table[figure.table.nu == BUDGETS[figure.dataset][-1]]
    assert judge(compare(last, "rdp", "AdaScale", "Optimal"), 1.05, above=False).verdict.item() == "holds"


def test_every_leakage_rises_as_nu_decreases(figure):
    assert set(figure.verdicts("rises")) == {"holds"}


def test_the_gap_narrows_as_nu_grows_on_mnist(mnist):
    for policy in ("EqualAlloc", "EstimFuture"):
        assert set(mnist.verdicts("narrows", "rdp", policy)[1:]) == {"holds"}
        assert mnist.verdicts("narrows", "rdp", policy)[0] != "fails"
    assert set(mnist.verdicts("narrows", "epsilon", "EqualAlloc")) <= {"holds", "not settled"}
    assert mnist.verdicts("narrows", "epsilon", "EstimFuture")[1:] == ["fails", "holds", "holds"]


def test_the_gap_in_nats_narrows_as_nu_grows(figure):
    assert set(figure.verdicts("narrows in nats", "rdp", "EqualAlloc")) == {"holds"}
    assert set(figure.verdicts("narrows in nats", "rdp", "EstimFuture")) <= {"holds", "not settled"}


def test_as_a_ratio_the_gap_does_not_narrow_at_the_smallest_nu_of_cifar10(cifar10):
    """Does not reproduce for EqualAlloc; EstimFuture's does narrow."""
    assert cifar10.verdicts("narrows", "rdp", "EqualAlloc")[0] == "fails"
    assert set(cifar10.verdicts("narrows", "rdp", "EqualAlloc")[2:]) == {"holds"}
    assert "fails" not in cifar10.verdicts("narrows", "rdp", "EstimFuture")


def test_the_kinder_reading_of_estim_future_is_drawn_but_at_the_smallest_nu_of_cifar10(figure):
    """The smaller RDP on average; the readings of EstimFuture differ by more than an order of magnitude on MNIST."""
    scenario, levels = SCENARIOS[figure.dataset], BUDGETS[figure.dataset]
    other = leakage_table(scenario, levels, range(40), {"devices": VARIANTS["EstimFuture, devices"]})
    table = pd.concat([figure.table, other])
    verdicts = list(judge(compare(table, "rdp", "devices", "EstimFuture")).verdict)
    assert set(verdicts[1:]) == {"holds"}
    assert (verdicts[0] == "holds") == (figure.dataset == "mnist")


def test_the_gap_to_28_grows_with_nu_on_mnist(mnist):
    """Does not reproduce."""
    assert set(mnist.verdicts("narrows", "epsilon", "LyapunovPowerControl")) == {"fails"}


def test_19_and_28_do_not_leak_far_more_rdp_at_small_nu(figure):
    """Does not reproduce with r = 1 and the kindest pair: less than EqualAlloc or EstimFuture."""
    for policy in ("PowerControl", "LyapunovPowerControl"):
        assert figure.verdicts("higher", "rdp", policy)[:2] == ["fails", "fails"]


@pytest.fixture(scope="module")
def readings():
    basic = {name: METHODS[name] for name in ("Optimal", "AdaScale", "EqualAlloc", "EstimFuture")}
    return leakage_table(SCENARIOS["mnist"], [0.01, 0.04, 0.16], range(20), basic | VARIANTS)


def test_under_other_readings_19_and_28_do_leak_far_more(readings):
    drawn = ("EqualAlloc", "EstimFuture")
    for name in ("PowerControl, r = 0.99", "PowerControl, not subtracted", "LyapunovPowerControl, 1.2 times the rate"):
        judged = judge(compare(readings, "rdp", name, drawn))
        assert list(judged.verdict)[1:] == ["holds", "holds"]


def test_adascale_is_behind_under_one_reading_only(readings):
    """[28] with a filled queue and another V, a variant of this book: ahead in DP but at the smallest nu."""
    filled = "LyapunovPowerControl, filled queue, V = 30 η̄³"
    for name in {*VARIANTS} - {filled}:
        assert "fails" not in set(judge(compare(readings, "epsilon", name, "AdaScale")).verdict)
    assert list(judge(compare(readings, "epsilon", filled, "AdaScale")).verdict) == ["holds", "fails", "fails"]


def test_the_verdicts_can_fail(readings):
    """The control: with two policies in exchanged roles a statement that held fails."""
    swapped = readings.replace({"policy": {"AdaScale": "EqualAlloc", "EqualAlloc": "AdaScale"}})
    judged = paper_claims(swapped, drawn=("EqualAlloc",), others=())
    assert set(judged[judged.claim == "ahead"].verdict) == {"fails"}
    assert "fails" in set(judged[judged.claim == "close"].verdict)


@pytest.mark.parametrize("dataset", SCENARIOS)
def test_alpha_hardly_moves_the_dp_leakage_of_adascale(dataset):
    """At fixed nu; the paper says negligible, which on MNIST at the smallest nu means up to a sixth."""
    scenario, ends = SCENARIOS[dataset], BUDGETS[dataset][:: len(BUDGETS[dataset]) - 1]
    tables = {
        alpha: leakage_table(replace(scenario, order=alpha), ends, range(10), {"AdaScale": policies.AdaScale})
        for alpha in (2, 3, 8, 32)
    }
    worst = {"mnist": (0.16, 0.05), "cifar10": (0.05, 0.02)}[dataset]  # largest change seen, rounded up
    for table in tables.values():
        change = abs(table.epsilon / tables[3].epsilon - 1).to_numpy().reshape(2, 10).max(axis=1)
        assert (change <= worst).all()
    rdp = tables[32].rdp / tables[3].rdp
    assert (rdp > 5).all()  # the control: the RDP leakage, of another order, moves a great deal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "policy", "nu", "seed"),
    [("mnist", "AdaScale", 0.01, 7), ("mnist", "LyapunovPowerControl", 0.16, 2), ("cifar10", "EstimFuture", 0.32, 3)],
)
def test_the_epsilon_of_a_figure_is_that_of_opacus(dataset, policy, nu, seed):
    scenario = SCENARIOS[dataset]
    row = leakage_table(scenario, [nu], [seed], {policy: METHODS[policy]}).iloc[0]
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), nu)
    eta = METHODS[policy](problem, scenario.mean_gain(drawn.path_loss)).schedule(problem)
    accountant = RDPAccountant()
    for sigma in problem.noise_multiplier(eta)[0]:
        accountant.step(noise_multiplier=sigma, sample_rate=scenario.sampling_rate)
    # 1e-8: both schedules are tuned to 1e-9 in the cost, each from a start of its own
    assert row.epsilon == pytest.approx(accountant.get_epsilon(delta=1e-5), rel=1e-8)


def test_floors_are_so_heavy_tailed_that_one_round_can_hold_most_of_their_sum():
    """Why every row names the largest floor and its round: E[w_min] is infinite."""
    scenario = SCENARIOS["mnist"]
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, list(range(40))).gain
    floor = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 0.04).floor
    share = floor.max(axis=-1) / floor.sum(axis=-1)
    assert share.max() > 0.5
    assert np.median(floor.max(axis=-1)) > 100 * np.median(floor)
