"""The figures of chapters 1, 3 and 5 draw the numbers that they are given."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt

from adascale import ReceiveScalingProblem, Scenario, channel
from companion.figures import convergence, drawn_data, floors, penalty

MNIST = Scenario.mnist()


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def series(figure, name, panel=0):
    data = drawn_data(figure)
    panels = data.panel.unique()
    return data[(data.panel == panels[panel]) & (data.series == name)]


def test_water_is_poured_on_the_sorted_floors():
    drawn = floors.poured(np.array([3.0, 1.0, 2.0]), 2.5)
    assert series(drawn, "schedule $w_t$").y.tolist() == [2.5, 2.5, 3.0]


def test_floors_are_drawn_by_realisation():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    drawn = floors.over_rounds(rows, (0.01, 0.16))
    assert [series(drawn, f"realisation {k}").y.tolist() for k in (1, 2, 3)] == rows.tolist()


def test_the_tail_and_the_quantiles_of_the_running_mean_are_drawn():
    quantiles = np.array([[1.0, 2], [3, 4], [5, 6]])
    drawn = floors.running_mean(np.array([0.1, 10.0]), np.array([16, 32]), quantiles, quantiles)
    assert series(drawn, "simulated").y.max() == 0.5
    assert series(drawn, "median, simulated", 1).y.tolist() == [3, 4]


def test_no_realisation_lies_below_its_farthest_device_alone():
    places = channel.draw(10, 1, seed=range(50))
    omega = (MNIST.noise_scale / MNIST.x_max / MNIST.mean_gain(places.path_loss)).sum(axis=-1)
    drawn = floors.farthest(MNIST, places.distance, omega)
    points, line = series(drawn, "one realisation"), series(drawn, "farthest device alone")
    assert (points.y > np.interp(points.x, line.x, line.y)).all()
    assert not (points.y > 20 * np.interp(points.x, line.x, line.y)).any()  # negative control: not arbitrarily far


def test_each_panel_of_the_bounds_has_its_lines_and_its_measurements():
    names = ("initial", "heterogeneity", "sampling", "noise", "total", "near", "exact")
    curves = {name: np.array([1.0, 2.0]) * k for k, name in enumerate(names, 1)}
    one = convergence.Varied(np.array([1.0, 10]), curves, np.array([3.0]), (np.array([9.0]), np.array([1.0])))
    drawn = convergence.bounds(dict.fromkeys(("T", "rate", "energy", "spread"), one))
    assert len(drawn.axes) == 4
    assert series(drawn, "the paper's bound").y.tolist() == [5, 10]
    assert series(drawn, "left side, exact", 3).y.tolist() == [7, 14]


def test_reused_data_cross_the_right_side_where_they_break_it():
    bias = {name: (np.zeros(5), np.full(5, 0.1)) for name in ("fixed data", "fresh data")}
    drawn = convergence.reused(bias, 20)
    left, right = (series(drawn, name, 1) for name in ("left side", "right side, $k^2 = 2$"))
    over = left.y.to_numpy() > right.y.to_numpy()
    assert left.x[over].min() >= 1722 > left.x[~over].max()  # test_convergence.py has 1722


def test_the_floors_term_has_its_median_and_landaus():
    rounds, term = np.array([100.0, 1000]), np.array([[1.0, 0.1], [2, 0.2], [3, 0.3]])
    drawn = convergence.floors_term(rounds, term, 1.2)
    assert series(drawn, "median of 3 realisations").y.tolist() == [2, 0.2]


def test_the_collapse_is_drawn_by_horizon_and_by_cap():
    caps = np.array([1.0, 10.0])
    queues = {1.0: np.array([0.0, 1, 2]), 10.0: np.array([0.0, 3, 4])}
    drawn = penalty.collapse(caps, {100: caps / 50, 1000: caps / 500}, 0.04, queues)
    assert series(drawn, "T = 1000").y.tolist() == [0.002, 0.02]
    assert series(drawn, "W = 10", 1).y.tolist() == [0.01, 3, 4]  # from 0.01


def test_one_training_ends_at_its_cost():
    gain = MNIST.min_gain(channel.draw(10, 40, seed=0).gain)
    problem = ReceiveScalingProblem(MNIST, gain, 0.04)
    eta = problem.max_eta / 2
    drawn = penalty.one_training(problem, eta, np.arange(41) * 0.04)
    assert drawn.axes[1].lines[0].get_ydata() == pytest.approx(np.arange(41))
    assert drawn.axes[2].lines[0].get_ydata()[-1] == pytest.approx(float(problem.cost(eta)) / 0.04)
    again = penalty.against_cost(problem, np.array([1.0, 2]), np.array([0.04, 0.05]), np.array([2.0, 1]))
    assert series(again, "cost / $\\nu$").y.tolist() == [1, 1.25]
    assert series(again, "AdaScale", 1).y.tolist() == [2, 1]


def test_realisations_and_their_geometric_mean_are_drawn_above_one():
    nus = np.array([0.01, 0.16])
    ratio = {"AdaScale": np.array([[1.5, 1.5], [1.1, 1.1]]), "EqualAlloc": np.array([[4.0, 9.0], [2, 2]])}
    drawn = penalty.near_optimal(nus, ratio)
    assert series(drawn, "EqualAlloc").y.tolist() == pytest.approx([5, 1])
    scaled = np.array([[2.0, 3.0], [4.0, 5.0]])
    tuned = penalty.tuned_penalties(nus, 10 * scaled, scaled, 5)
    assert tuned.axes[0].lines[0].get_ydata().tolist() == (10 * scaled).ravel().tolist()
    blind = penalty.blind_penalties(nus, {"one": scaled, "other": 2 * scaled}, {"one": scaled, "other": scaled})
    assert series(blind, "other").y.tolist() == (2 * scaled).ravel().tolist()
