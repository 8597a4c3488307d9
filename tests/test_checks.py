"""Bad input: a ValueError in one clear line that names the argument, the value and what was expected."""

import math
from dataclasses import replace

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from adascale.policies import best_energy
from adascale.problem import RoundLeakage
from companion.theory import optimal_cvxpy

MNIST = Scenario.mnist()
TINY = Scenario("tiny", 2, 4, 100, (20, 60), (1000, 600), 1.0, 0.2, 1e-12)
GAIN = np.full((2, 4), 1e-10)
PROBLEM = ReceiveScalingProblem(TINY, [1e-10, 2e-10, 1e-11, 5e-11], 0.1)
ETA = PROBLEM.max_eta / 2


def assert_refused(call, *words):
    """``call`` raises ValueError; its one line contains every word."""
    with pytest.raises(ValueError) as error:  # noqa: PT011
        call()
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 300
    for word in words:
        assert word in message, message


NOT_POSITIVE = [(0, "0"), (-1.5, "-1.5"), (math.nan, "nan"), (math.inf, "inf")]
WRONG_TYPE = ["3", "three", True, 1j, None, [[1.0], [2.0, 3.0]], {"a": 1}, np.array([1 + 1j])]
# these calls put the value into a list, where numpy has already turned a True beside a 1.0 into 1.0
IN_A_LIST = {"distance range", "batch_size of a device", "Scenario.min_gain", "Scenario.mean_gain", "problem's gains"}
IN_A_LIST |= {"rdp in an array", "schedule_epsilon", "one budget of many", "cost", "leakage", "epsilon", "multiplier"}

# every argument that has to be finite and > 0: (name in the message, a call that takes it)
POSITIVE = {
    "rdp": ("noise_multiplier", lambda x: accounting.rdp(0.1, x, 3)),
    "rdp in an array": ("noise_multiplier", lambda x: accounting.rdp(0.1, [1.0, x], 3)),
    "rdp_derivative": ("noise_multiplier", lambda x: accounting.rdp_derivative(0.1, x, 3)),
    "schedule_epsilon": ("noise_multiplier", lambda x: accounting.schedule_epsilon(0.1, [1.0, x])),
    "path loss": ("distance", channel.cost_hata_path_loss),
    "distance range": ("distance_range", lambda x: channel.Rayleigh(distance_range=(x, 200.0))),
    "clip_norm": ("clip_norm", lambda x: replace(TINY, clip_norm=x)),
    "max_power": ("max_power", lambda x: replace(TINY, max_power=x)),
    "noise_power": ("noise_power", lambda x: replace(TINY, noise_power=x)),
    "batch_size": ("batch_size", lambda x: replace(TINY, batch_size=x)),
    "batch_size of a device": ("batch_size", lambda x: replace(TINY, batch_size=[1.0, x])),
    "dataset_size": ("dataset_size", lambda x: replace(TINY, dataset_size=x)),
    "Scenario.min_gain": ("gain", lambda x: TINY.min_gain([[1.0, 1.0], [x, 1.0]])),
    "Scenario.mean_gain": ("path_loss", lambda x: TINY.mean_gain([1.0, x])),
    "problem's gains": ("min_gain", lambda x: ReceiveScalingProblem(TINY, [1.0, x], 0.1)),
    "problem's budget": ("budget", lambda x: ReceiveScalingProblem(TINY, [1.0, 1.0], x)),
    "one budget of many": ("budget", lambda x: ReceiveScalingProblem(TINY, [1.0, 1.0], [0.1, x])),
    "cost": ("eta", lambda x: PROBLEM.cost([1e-9, 1e-9, x, 1e-9])),
    "leakage": ("eta", lambda x: PROBLEM.rdp([1e-9, 1e-9, x, 1e-9])),
    "epsilon": ("eta", lambda x: PROBLEM.dp_epsilon([1e-9, 1e-9, x, 1e-9])),
    "multiplier": ("eta", lambda x: PROBLEM.noise_multiplier([1e-9, 1e-9, x, 1e-9])),
    "round leakage": ("noise_energy", RoundLeakage(TINY)),
    "its slope": ("noise_energy", RoundLeakage(TINY).slope),
    "penalty": ("penalty", policies.AdaScale),
}


@pytest.mark.parametrize("entry", POSITIVE)
@pytest.mark.parametrize(("value", "shown"), NOT_POSITIVE)
def test_what_must_be_positive_is_refused_by_name_and_value(entry, value, shown):
    name, call = POSITIVE[entry]
    assert_refused(lambda: call(value), name, shown, "finite and > 0")


# numpy has turned True into a number before it arrives where a list holds other numbers
WRONG_CASES = [
    (entry, value) for entry in POSITIVE for value in WRONG_TYPE if not (value is True and entry in IN_A_LIST)
]


@pytest.mark.parametrize(("entry", "value"), WRONG_CASES)
def test_what_must_be_a_number_is_refused_when_it_is_none(entry, value):
    """Strings and booleans too: numpy would read "3" as 3 and True as 1, and drop an imaginary part."""
    name, call = POSITIVE[entry]
    assert_refused(lambda: call(value), name)


RATE = {
    "rdp": lambda x: accounting.rdp(x, 1.0, 3),
    "rdp_derivative": lambda x: accounting.rdp_derivative(x, 1.0, 3),
    "schedule_epsilon": lambda x: accounting.schedule_epsilon(x, [1.0]),
}


@pytest.mark.parametrize("entry", RATE)
@pytest.mark.parametrize("value", [0, -0.1, 1.0000001, 2, math.nan, math.inf, "0.5", True, None])
def test_sampling_rates_outside_zero_to_one_are_refused(entry, value):
    assert_refused(lambda: RATE[entry](value), "sampling_rate")
    if isinstance(value, int | float) and not isinstance(value, bool):
        assert_refused(lambda: RATE[entry](value), f"got {float(value)}"[:8], "(0, 1]")


ORDER = {
    "rdp": lambda x: accounting.rdp(0.1, 1.0, x),
    "rdp_derivative": lambda x: accounting.rdp_derivative(0.1, 1.0, x),
    "Scenario": lambda x: replace(TINY, order=x),
    "RoundLeakage": lambda x: RoundLeakage(TINY, x),
    "problem.rdp": lambda x: PROBLEM.rdp(ETA, x),
    "to_dp": lambda x: accounting.to_dp([1.0, 1.0], [2.0, x]),
    "schedule_epsilon": lambda x: accounting.schedule_epsilon(0.1, [1.0], 1e-5, [2.0, x]),
    "dp_epsilon": lambda x: PROBLEM.dp_epsilon(ETA, 1e-5, [2.0, x]),
}


@pytest.mark.parametrize("entry", ORDER)
@pytest.mark.parametrize("value", [1, 0, -3, math.nan, math.inf, -math.inf, 0.999])
def test_orders_up_to_one_or_not_finite_are_refused(entry, value):
    assert_refused(lambda: ORDER[entry](value), "order", str(value), "finite and > 1")


@pytest.mark.parametrize("entry", ["rdp", "rdp_derivative", "Scenario", "RoundLeakage"])
@pytest.mark.parametrize("value", ["3", True, [2, 3], 3j, "alpha"], ids=repr)
def test_an_order_is_one_number(entry, value):
    assert_refused(lambda: ORDER[entry](value), "order")


def test_orders_are_a_plain_list():
    assert_refused(lambda: accounting.to_dp([1.0], []), "orders")
    assert_refused(lambda: accounting.schedule_epsilon(0.1, [1.0], 1e-5, []), "orders")
    assert_refused(lambda: accounting.schedule_epsilon(0.1, [1.0], 1e-5, [[2.0, 3.0]]), "orders")


DELTA = {
    "to_dp": lambda x: accounting.to_dp([1.0], [2.0], x),
    "schedule_epsilon": lambda x: accounting.schedule_epsilon(0.1, [1.0], x),
    "dp_epsilon": lambda x: PROBLEM.dp_epsilon(ETA, x),
}


@pytest.mark.parametrize("entry", DELTA)
@pytest.mark.parametrize("value", [0, 1, -1e-5, 2.0, math.nan, math.inf, "1e-5", None, [1e-5, 1e-6]], ids=repr)
def test_delta_is_one_number_between_zero_and_one(entry, value):
    assert_refused(
        lambda: DELTA[entry](value), "delta", "between 0 and 1" if isinstance(value, int | float) else "number"
    )


@pytest.mark.parametrize("value", [-1.0, math.nan, -math.inf])
def test_leakages_are_not_negative(value):
    assert_refused(lambda: accounting.to_dp([1.0, value], [2.0, 3.0]), "leakage", str(value), ">= 0")


SHAPES = {
    "rates and multipliers": (lambda: accounting.rdp([0.1, 0.2], [1.0, 2.0, 3.0], 3), "(2,)", "(3,)"),
    "leakages and orders": (lambda: accounting.to_dp([1.0, 2.0, 3.0], [2.0, 3.0]), "2 orders", "(3,)"),
    "one rate for a schedule": (lambda: accounting.schedule_epsilon([0.1, 0.2], [1.0, 2.0]), "sampling_rate"),
    "budgets and gains": (
        lambda: ReceiveScalingProblem(TINY, np.ones((3, 4)), [0.1, 0.2]),
        "budget (2,)",
        "min_gain (3,)",
    ),
    "gains without rounds": (lambda: ReceiveScalingProblem(TINY, 1.0, 0.1), "min_gain", "()"),
    "no rounds": (lambda: ReceiveScalingProblem(TINY, np.empty((2, 0)), 0.1), "min_gain", "(2, 0)"),
    "too few rounds": (lambda: PROBLEM.cost(ETA[:3]), "eta", "4", "(3,)"),
    "lanes of eta": (
        lambda: ReceiveScalingProblem(TINY, np.ones((3, 4)), 0.1).cost(np.ones((2, 4))),
        "eta (2, 4)",
        "(3, 4)",
    ),
    "devices of gain": (lambda: TINY.min_gain(np.ones((3, 4))), "gain", "(..., 2, T)", "(3, 4)"),
    "gain of one device": (lambda: TINY.min_gain(np.ones(2)), "gain", "(2,)"),
    "devices of path loss": (lambda: TINY.mean_gain(np.ones(3)), "path_loss", "(..., 2)", "(3,)"),
    "batch sizes": (lambda: replace(TINY, batch_size=(1, 2, 3)), "batch_size", "2", "(3,)"),
    "dataset sizes": (lambda: replace(TINY, dataset_size=(99.0,)), "dataset_size", "2", "(1,)"),
    "clip norms": (lambda: replace(TINY, clip_norm=(1.0, 1.0)), "clip_norm", "one number"),
    "penalties and lanes": (
        lambda: policies.AdaScale([0.1, 0.2]).schedule(ReceiveScalingProblem(TINY, np.ones((3, 4)), 0.1)),
        "penalty (2,)",
        "(3,)",
    ),
    "more penalties than lanes": (
        lambda: policies.AdaScale([0.1, 0.2, 0.3]).schedule(PROBLEM),
        "penalty",
        "(3,)",
        "()",
    ),
    "floors and queues": (lambda: best_energy([1.0, 2.0], [0.0, 0.0, 0.0], 1.0, RoundLeakage(TINY)), "shape"),
    "one end of a range": (lambda: channel.Rayleigh(distance_range=10.0), "distance_range"),
    "three ends of a range": (lambda: channel.Rayleigh(distance_range=(1.0, 2.0, 3.0)), "distance_range"),
}


@pytest.mark.parametrize("entry", SHAPES)
def test_shapes_that_do_not_fit_are_named(entry):
    call, *words = SHAPES[entry]
    assert_refused(call, *words)


@pytest.mark.parametrize("name", ["num_devices", "num_rounds", "num_parameters"])
@pytest.mark.parametrize("value", [0, -1, 2.0, 1.5, math.nan, "10", True, None, [2]], ids=repr)
def test_counts_are_whole_numbers(name, value):
    assert_refused(lambda: replace(MNIST, **{name: value}), name, "whole number >= 1", repr(value).strip("'"))


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True, None], ids=repr)
def test_numbers_of_devices_and_rounds_are_whole(position, value):
    arguments = [2, 3]
    arguments[position] = value
    assert_refused(lambda: channel.draw(*arguments, 0), ["num_devices", "num_rounds"][position], "whole number >= 1")


@pytest.mark.parametrize("value", [-1, 1.0, "7", None, [], [1, -2], True, [0.5]], ids=repr)
def test_seeds_are_whole_numbers(value):
    assert_refused(lambda: channel.draw(2, 3, value), "seed", "whole number >= 0")


def test_a_distance_range_is_ordered():
    assert_refused(lambda: channel.Rayleigh(distance_range=(200.0, 10.0)), "distance_range", "200", "10")


@pytest.mark.parametrize("value", ["", 3, None, b"mnist"])
def test_a_name_is_a_text(value):
    assert_refused(lambda: replace(MNIST, name=value), "name", "non-empty string", repr(value))


def test_a_batch_is_no_larger_than_its_dataset():
    assert_refused(lambda: replace(MNIST, batch_size=6001), "batch_size", "must not exceed dataset_size")
    assert_refused(lambda: replace(TINY, batch_size=(20, 601)), "batch_size", "index 1")


# TOML ----------------------------------------------------------------------------------------------------------------


def read(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "my.toml"
    path.write_bytes(text.encode(encoding))
    return Scenario.from_toml(path)


def edited(key, value):
    """The paper's MNIST scenario with one line replaced."""
    lines = MNIST.to_toml().splitlines()
    return "\n".join(f"{key} = {value}" if line.split(" = ")[0] == key else line for line in lines)


def test_the_toml_used_here_is_good_until_it_is_edited(tmp_path):
    assert read(tmp_path, edited("order", "3")) == MNIST


def test_an_unknown_key_is_named(tmp_path):
    assert_refused(
        lambda: read(tmp_path, MNIST.to_toml() + "batchsize = 3\n"), "my.toml", "unknown key 'batchsize'", "batch_size"
    )


@pytest.mark.parametrize("key", ["name", "num_devices", "batch_size", "noise_power"])
def test_a_missing_key_is_named(tmp_path, key):
    lines = [line for line in MNIST.to_toml().splitlines() if line.split(" = ")[0] != key]
    assert_refused(lambda: read(tmp_path, "\n".join(lines)), "my.toml", f"missing key '{key}'")


BROKEN = {
    "a string for a number": ("batch_size", '"60"', "batch_size"),
    "a string for a power": ("max_power", '"0.2"', "max_power"),
    "a string for an order": ("order", '"3"', "order"),
    "a boolean for a number": ("clip_norm", "true", "clip_norm"),
    "a boolean for a count": ("num_rounds", "true", "num_rounds"),
    "booleans for numbers": (
        "batch_size",
        "[true, true, true, true, true, true, true, true, true, true]",
        "batch_size",
    ),
    "a fraction for a count": ("num_rounds", "10.5", "num_rounds"),
    "a number for a name": ("name", "3", "name"),
    "a table for a number": ("max_power", "{watt = 0.2}", "max_power"),
    "a date for a number": ("max_power", "2020-01-01", "max_power"),
    "too short a list": ("batch_size", "[1, 2, 3]", "batch_size"),
    "a ragged list": ("batch_size", "[1, [2, 3]]", "batch_size"),
    "a list for a power": ("noise_power", "[1e-12, 1e-12]", "noise_power"),
    "a negative number": ("noise_power", "-1e-12", "noise_power"),
    "nan": ("noise_power", "nan", "noise_power"),
    "an order of one": ("order", "1", "order"),
    "a batch beyond its dataset": ("batch_size", "7000", "batch_size"),
}


@pytest.mark.parametrize("entry", BROKEN)
def test_a_bad_value_in_the_toml_is_named_with_its_file(tmp_path, entry):
    key, value, word = BROKEN[entry]
    assert_refused(lambda: read(tmp_path, edited(key, value)), "my.toml", word)


@pytest.mark.parametrize("text", ["name = ", "= 3", "[name", "name = 'a'\nname = 'b'"])
def test_what_is_not_toml_is_said_to_be_not_toml(tmp_path, text):
    assert_refused(lambda: read(tmp_path, text), "my.toml", "not valid TOML")


def test_a_file_in_another_encoding_is_refused(tmp_path):
    assert_refused(lambda: read(tmp_path, edited("name", "'\u00fcber'"), "latin-1"), "my.toml", "not valid TOML")


# Extremes that are not errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.1, 2, 2.5, 3])
def test_hardly_any_noise_is_refused_and_endless_noise_leaks_nothing(order):
    for q in (0.01, 0.5, 1.0):
        assert_refused(lambda q=q: accounting.rdp(q, 1e-160, order), "noise_multiplier", "1e-160", f"order {order}")
        assert 0 <= accounting.rdp(q, 1e160, order) < 1e-300


def test_cvxpy_refuses_a_fractional_order_by_name():
    problem = ReceiveScalingProblem(replace(TINY, order=2.5), [1e-10], 0.1)
    assert_refused(lambda: optimal_cvxpy.OptimalCvxpy().schedule(problem), "order", "integer", "2.5")
