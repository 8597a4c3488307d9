"""Bad input: one InvalidInput in one clear line that names the argument; the validators, and one case per entry."""

import math
import pickle
from collections import deque
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adascale import (
    ReceiveScalingProblem,
    Scenario,
    accounting,
    channel,
    errors,
    policies,
    tuning,
)
from adascale import checks as check
from adascale.files import from_mapping
from adascale.policies import adascale_energies, estimated_min_gain, water_level
from adascale.policies.base import CompiledPolicy
from adascale.problem import RoundLeakage
from adascale.tables import read_table
from companion.theory import optimal_cvxpy

from .problems import MIXED, make

TINY = Scenario("tiny", 2, 4, 100, (20, 60), (1000, 600), 1.0, 0.2, 1e-12)
GAIN = np.array([1e-10, 2e-10, 1e-11, 5e-11])
PROBLEM = ReceiveScalingProblem(TINY, GAIN, 0.1)
W = 2 * PROBLEM.min_noise_energy
THREE = ReceiveScalingProblem(TINY, np.ones((3, 4)), 0.1)


def refused(call, argument):
    """``call`` raises a ValueError in one short line that names this argument; returns the line."""
    with pytest.raises(ValueError) as error:  # noqa: PT011
        call()
    message = str(error.value)
    assert getattr(error.value, "argument", None) in (argument, None), message
    assert argument in message
    assert "\n" not in message
    assert len(message) < 300
    return message


# numpy would read "3" as 3 and True as 1, and drop an imaginary part
BOOLEANS = [
    True,
    np.True_,
    np.array([True]),
    [1.0, True],
    (np.True_, 1.0),
    [[2.0], (True,)],
    deque([2.0, True]),
]
BOOLEANS += [[np.array([True]), 1.0], pd.Series([True]), [2, np.array(True)]]
WRONG_TYPE = [
    "3",
    "three",
    1j,
    None,
    [[1.0], [2.0, 3.0]],
    {"a": 1},
    np.array([1 + 1j]),
    [True, None],
    *BOOLEANS,
]
HUGE = [10**800, 10**5000, [1.5, 10**800], [1.5, 10**5000]]
MASKED = [
    np.ma.masked_array([1.0, 2.0], [0, 1]),
    [1.0, np.ma.masked],
    [np.ma.masked_array([1.0], [1]), [1.0]],
]
REFUSED = {
    "positive": (
        check.positive,
        [0, -1.5, math.nan, math.inf, np.longdouble("1e4000"), 10**400, *MASKED],
    ),
    "at_least": (
        lambda name, x: check.at_least(name, x, 1),
        [0.999, math.nan, math.inf],
    ),
    "sampling_rate": (check.sampling_rate, [0, -0.1, 1.0000001, math.nan, math.inf]),
    "order": (check.order, [1, 0, -3, math.nan, math.inf, -math.inf, 0.999, [2, 3]]),
    "fraction": (check.fraction, [0, 1, -1e-5, 2.0, math.nan, math.inf, [1e-5, 1e-6]]),
    "whole": (check.whole, [0, -1, 2.0, 1.5, math.nan, [2]]),
}


@pytest.mark.parametrize("validator", REFUSED)
def test_validators_refuse_and_show_the_value(validator):
    function, values = REFUSED[validator]
    for value in [*values, *WRONG_TYPE, *HUGE[2:], *HUGE[: 2 * (validator != "whole")]]:
        message = refused(lambda value=value: function("it", value), "it")
        assert message.startswith("it must ")
        assert not isinstance(value, float) or str(value) in message


def test_validators_name_the_first_bad_entry_and_return_what_they_accept():
    assert refused(lambda: check.positive("x", [1.0, -2.0, -3.0]), "x").endswith(
        "got -2.0 at index 1"
    )
    assert refused(lambda: check.positive("x", [[1.0, 2.0], [3.0, 0.0]]), "x").endswith(
        "got 0.0 at index (1, 1)"
    )
    accepted = (
        (check.sampling_rate, 1),
        (check.order, 1.5),
        (check.fraction, 0.5),
        (check.whole, np.int8(3)),
    )
    assert all(function("x", value) == value for function, value in accepted)
    unmasked = check.as_floats("x", np.ma.masked_array([1.0, 2.0]))
    assert type(unmasked) is np.ndarray
    np.testing.assert_array_equal(
        check.as_floats("x", pd.array([1, 2**70], dtype=object)), [1, 2.0**70]
    )


NAN = math.nan
CONSTANTS = {  # of a scenario; 601 of 600 samples, and what float64 cannot hold
    **{
        "name": ["", 3, b"mnist"],
        "num_devices": [True, 10**12],
        "num_parameters": ["10", 10**400],
        "order": [0.9],
    },
    **{
        "batch_size": [
            [1.0, 0],
            (1, 2, 3),
            (20, 601),
            np.ma.masked_array([20.0, 60.0], [0, 1]),
            1e-320,
        ]
    },
    **{
        "clip_norm": [-1, (1.0, 1.0), 1e200, 1e-200],
        "max_power": [0, (0.1, 0.2, 0.3), 1e308, 10**400, (1e-300, 1e10)],
    },
    **{
        "dataset_size": [0, (99.0,)],
        "noise_power": [math.inf, 1e-320, 1e308],
        "num_rounds": [1.5],
    },
}
ENTRIES = {
    "noise_multiplier": [
        lambda: accounting.rdp(0.1, [1, NAN], 3),
        lambda: accounting.schedule_epsilon(0.1, [1.0, -1]),
    ],
    "sampling_rate": [
        lambda: accounting.rdp(0, 1.0, 3),
        lambda: accounting.schedule_epsilon([0.1, 0.2], [1.0, 2.0]),
    ],
    "order": [
        lambda: accounting.rdp_derivative(0.1, 1.0, [2, 3]),
        lambda: RoundLeakage(TINY, 1),
    ],
    "orders": [
        lambda: accounting.to_dp([1.0, 1.0], [2.0, 1]),
        lambda: accounting.RenyiAccountant(5),
    ],
    "delta": [
        lambda: accounting.to_dp([1.0], [2.0], 0),
        lambda: PROBLEM.epsilon(W, delta="1e-5"),
    ],
    "leakage": [
        lambda: accounting.to_dp([1.0, -1.0], [2.0, 3.0]),
        lambda: accounting.compose([0.5, NAN]),
    ],
    "distance": [lambda: channel.cost_hata_path_loss(-1)],
    "num_devices": [lambda: channel.draw(0, 3, 0)],
    "num_rounds": [lambda: channel.draw(2, 2.0, 0)],
    "seed": [
        lambda each=each: channel.draw(2, 3, each)
        for each in (-1, 1.0, "7", None, [], [1, -2], True, [0.5])
    ],
    "gain": [
        lambda: TINY.min_gain([[1.0, 1.0], [0, 1.0]]),
        lambda: TINY.min_gain(np.ones(2)),
    ],
    "path_loss": [lambda: TINY.mean_gain([1.0, 0]), lambda: TINY.mean_gain(np.ones(3))],
    "min_gain": [
        lambda h=h: ReceiveScalingProblem(TINY, h, 0.1)
        for h in ([1.0, NAN], 1.0, np.empty((2, 0)))
    ],
    "budget": [lambda: ReceiveScalingProblem(TINY, [1.0, 1.0], [0.1, 0])],
    "w": [
        *(
            lambda each=each: getattr(PROBLEM, each)([1e-12, 1e-12, 0, 1e-12])
            for each in ("cost", "rdp", "epsilon")
        ),
        lambda: PROBLEM.cost(W[:3]),
    ],
    "noise_energy": [
        lambda: RoundLeakage(TINY)(0),
        lambda: RoundLeakage(TINY).slope([1.0, -1.0]),
    ],
    "penalty": [lambda: policies.AdaScale(0)],
    "problem": [lambda: policies.AdaScale([0.1, 0.2, 0.3]).schedule(PROBLEM)],
    "mean_gain": [
        lambda: policies.EstimFuture(np.ma.masked_array([1e-10] * 3, [1, 0, 0])),
        lambda: estimated_min_gain(1.0, "devices"),
    ],
    "min_noise_energy": [
        *(
            lambda each=each: water_level(each, 1.0)
            for each in (np.ma.masked_array([1.0, 2.0], [0, 1]), 1.0, [])
        ),
        lambda: adascale_energies(1.0, 1.0, 1.0, RoundLeakage(MIXED)),
    ],
    "initial_queue": [lambda: policies.AdaScale(0.1, [1.0, -1.0])],
    "guess": [lambda: tuning.match_budget(policies.AdaScale, PROBLEM, guess=0.0)],
    "tolerance": [
        lambda: tuning.match_budget(policies.AdaScale, PROBLEM, tolerance=[1, 2])
    ],
    "statistics": [lambda: tuning.match_budget(policies.EstimFuture, PROBLEM, ["x"])],
}


@pytest.mark.parametrize("argument", ENTRIES)
def test_every_entry_names_its_argument(argument):
    for call in ENTRIES[argument]:
        assert argument in refused(call, argument)


POWERED = {"privacy_budget": 1.0, "mean_gain": [1e-10, 1e-10]}
EVENT = 0.1, 1.0, 10
TAKE_NUMBERS = {  # what makes or computes something of a number, in place of which a boolean is given
    **{
        name: lambda x, name=name: replace(TINY, **{name: x})
        for name in CONSTANTS
        if name != "name"
    },
    "events": lambda x: [
        accounting.epsilon([(*EVENT[:i], x, *EVENT[i + 1 :])], 1e-5) for i in range(3)
    ],
    "delta": lambda x: accounting.epsilon([EVENT], x),
    "epsilon": lambda x: accounting.delta([EVENT], x),
    "alpha": lambda x: accounting.beta([EVENT], x),
    "orders": lambda x: accounting.RenyiAccountant((2.0, x)),
    "loss": lambda x: accounting.from_pmf([x, -1.0], [0.5, 0.5]),
    "threshold": lambda x: policies.Truncated(x).start(TINY),
    "number": lambda x: policies.Best(x, 1.0).start(TINY),
    "level": lambda x: policies.Best(1, x).start(TINY),
    "penalty": lambda x: policies.AdaScale(x),
    "contraction": lambda x: policies.PowerControl(**POWERED, contraction=x),
    "hold": lambda x: policies.Learn(hold=x),
    "seed": lambda x: channel.draw(2, 3, [0, x]),
    "distance_range": lambda x: channel.Rayleigh(distance_range=(0.5, x)),
    "budget": lambda x: ReceiveScalingProblem(TINY, GAIN, x),
    "min_gain": lambda x: ReceiveScalingProblem(TINY, [1e-10, x, 1.0, 1.0], 0.1),
}


@pytest.mark.parametrize("argument", TAKE_NUMBERS)
def test_a_boolean_is_no_number_anywhere(argument):
    for value in (True, np.True_):
        assert argument in refused(
            lambda value=value: TAKE_NUMBERS[argument](value), argument
        )


@pytest.mark.parametrize("value", [1, 0, "yes", None, np.True_])
def test_a_number_is_no_boolean(value):
    assert "subtract" in refused(
        lambda: policies.PowerControl(**POWERED, subtract=value), "subtract"
    )


@pytest.mark.parametrize(
    "argument", ["num_rounds", "num_parameters", "num_devices", "clip_norm", "events"]
)
@pytest.mark.parametrize(
    "value", [10**800, 10**5000], ids=["800 digits", "5000 digits"]
)
def test_a_number_of_many_digits_is_refused_in_a_short_line(argument, value):
    message = refused(lambda: TAKE_NUMBERS[argument](value), argument)
    assert len(message) < 300
    assert "0" * 100 not in message  # the number itself is not printed


def test_every_constant_of_a_scenario_is_named():
    for name, values in CONSTANTS.items():
        for value in values:
            with pytest.raises(errors.InvalidInput, match=rf"\b{name}\b[^\n]{{,280}}$"):
                replace(TINY, **{name: value})


# Shapes of several arguments, and what has no argument: a ValueError with these words
UNFIT = [
    (lambda: accounting.rdp([0.1, 0.2], [1.0, 2.0, 3.0], 3), r"\(2,\).*\(3,\)"),
    (lambda: accounting.to_dp([1.0, 2.0, 3.0], [2.0, 3.0]), r"2 orders.*\(3,\)"),
    (
        lambda: ReceiveScalingProblem(TINY, np.ones((3, 4)), [0.1, 0.2]),
        r"budget \(2,\).*min_gain \(3,\)",
    ),
    (lambda: THREE.cost(np.ones((2, 4))), r"w \(2, 4\).*\(3, 4\)"),
    (lambda: policies.AdaScale([0.1, 0.2]).schedule(THREE), "shape mismatch"),
    (
        lambda: adascale_energies(
            [[1.0], [2.0]], 1.0, 1.0, RoundLeakage(TINY), np.zeros(3)
        ),
        "shape",
    ),
    (lambda: accounting.find("numpy:ndarray"), "numpy:ndarray"),
    *(
        (lambda d=d: channel.cost_hata_path_loss(d), "path loss of these distances")
        for d in (1e-300, 1e300)
    ),
    (
        lambda: optimal_cvxpy.OptimalCvxpy().schedule(
            make(replace(MIXED, order=2.5), 0.1)
        ),
        "order.*integer.*2.5",
    ),
]


@pytest.mark.parametrize(("call", "said"), UNFIT, ids=range(len(UNFIT)))
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(ValueError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_policy_without_its_methods_says_which():
    class Nothing(policies.OnlinePolicy):
        """A policy that defines nothing."""

    calls = (
        (Nothing().start, (MIXED, np.ones(1))),
        (Nothing().decide, (None, np.ones(1))),
    )
    calls = *calls, (CompiledPolicy().decide_rounds, (None, np.ones(1)))
    for call, arguments in (*calls, (policies.Policy().schedule, (make(MIXED, 1.0),))):
        with pytest.raises(NotImplementedError, match=f"has no {call.__name__}"):
            call(*arguments)


def test_an_unknown_or_missing_key_is_the_argument():
    assert "batchsize" in refused(
        lambda: from_mapping(Scenario, {"batchsize": 3}), "batchsize"
    )
    assert "batch_size" in refused(
        lambda: from_mapping(Scenario, {"order": 3}), "batch_size"
    )


def test_errors_carry_their_argument_or_file_also_after_pickling():
    with pytest.raises(errors.InvalidInput) as caught:
        accounting.rdp(0.1, -1.0, 3)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.argument == caught.value.argument == "noise_multiplier"
    assert str(copy) == str(caught.value)
    with pytest.raises(errors.InvalidFile) as caught:
        read_table(
            b"a\n1\n1,5\n", "table.csv", lambda names: dict.fromkeys(names, float)
        )
    assert (caught.value.path, caught.value.line) == ("table.csv", 3)
