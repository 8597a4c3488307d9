"""Checks of arguments: what is refused, and an InvalidInput in one short line that names the argument."""

import math
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from adascale import Problem, Scenario, errors, policies
from adascale import checks as check
from adascale.files import from_mapping
from adascale.problem import RoundLeakage
from adascale.statistics import interval

from .problems import MIXED

GAIN = np.array([1e-10, 2e-10, 1e-11, 5e-11])
PROBLEM = Problem(MIXED, GAIN, 0.1)


def refused(call, argument):
    """The one short line of the InvalidInput that names this argument."""
    with pytest.raises(errors.InvalidInput) as error:
        call()
    message = str(error.value)
    assert error.value.argument == argument
    assert message.startswith(argument)
    assert "\n" not in message
    assert len(message) < 300
    return message


NAN, INF = math.nan, math.inf
REFUSED = {
    check.positive: [0, NAN, INF, np.longdouble("1e4000"), [1.0, 0.0]],
    partial(check.at_least, least=1): [0.999, NAN, INF],
    partial(check.between, low=1, high=2): [0.999, 2.001, NAN],
    check.sampling_rate: [0, 1.0000001, NAN],
    check.order: [1, -3, NAN, INF, [2, 3]],
    check.fraction: [0, 1, NAN, [1e-5, 1e-6]],
    partial(check.number, low=1, high=2): [0.9, 2.1, NAN, [1.5]],
    check.whole: [0, 2.0, 1.5, NAN, [2]],
    partial(check.per_device, num_devices=2): [[1.0], [1.0, -1.0], 1.0],
}
NO_NUMBERS = ["3", 1j, None, [[1.0], [2.0, 3.0]], [True, None], np.True_, [True, False]]
MASKED = np.ma.masked_array([1.0, 2.0], [0, 1])


@pytest.mark.parametrize(
    ("function", "value"),
    [(f, value) for f, values in REFUSED.items() for value in [*values, *NO_NUMBERS]],
)
def test_validators_refuse_and_name_the_argument(function, value):
    assert refused(lambda: function("it", value=value), "it").startswith("it must ")


@pytest.mark.parametrize("value", [MASKED, 10**400, [1.5, 10**5000]])
def test_masked_entries_and_integers_beyond_float64_are_refused(value):
    refused(lambda: check.positive("it", value), "it")


def test_the_first_bad_entry_is_named():
    with pytest.raises(errors.InvalidInput, match=r"0.0 at index \(0, 1\)$"):
        check.positive("x", [[1.0, 0.0, -1.0]])


SCENARIO = {
    "name": ["", 3],
    "num_devices": [True, 10**12],
    "num_rounds": [1.5],
    "batch_size": [(1, 2), 1e-320],
    "dataset_size": [0],
    "clip_norm": [-1, (1.0, 1.0), 1e200],
    "max_power": [0],
    "noise_power": [INF, -90, 1e-320],
    "order": [0.9],
    "privacy_noise_power": [1.1e-12, [1e-13] * 3],
    "weights": [1.0, (1.0, 0.0, 1.0), "dataset_size"],
}
ENTRIES = [
    *(
        (name, partial(replace, MIXED, **{name: value}))
        for name, values in SCENARIO.items()
        for value in values
    ),
    ("batch_size / dataset_size", partial(replace, MIXED, batch_size=601)),
    ("order", partial(RoundLeakage, MIXED, 1)),
    ("gain", partial(MIXED.min_gain, [[1.0, 1.0], [0, 1.0]])),
    ("path_loss", partial(MIXED.mean_gain, np.ones(2))),
    ("min_gain", partial(Problem, MIXED, np.empty((2, 0)), 0.1)),
    ("min_gain", partial(Problem, MIXED, [1e-200], 0.1)),
    ("budget", partial(Problem, MIXED, [1.0], [0.1, 0])),
    ("budget", partial(Problem, MIXED, [1.0], 1e300)),
    ("w", partial(PROBLEM.rdp, [1e-12, 1e-12, 0, 1e-12])),
    ("penalty", partial(policies.AdaScale, 0)),
    ("initial_queue", partial(policies.AdaScale, 0.1, [1.0, -1.0])),
    ("values", partial(interval, [])),
    ("batchsize", partial(from_mapping, Scenario, {"batchsize": 3})),
]


@pytest.mark.parametrize(("argument", "call"), ENTRIES)
def test_every_entry_names_its_argument(argument, call):
    with pytest.raises(errors.InvalidInput) as error:
        call()
    assert error.value.argument == argument
    assert argument in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            partial(Problem, MIXED, np.ones((3, 4)), [0.1, 0.2]),
            r"budget \(2,\).*min_gain \(3,\)",
        ),
        (partial(PROBLEM.cost, np.ones((2, 3, 4)).T), "w must have 4 rounds"),
        (partial(check.entries, "it", 10**5, 10**5), "at most 100,000,000 entries"),
        (partial(check.finite, "it", [1.0, INF]), "beyond floating point: it"),
    ],
)
def test_what_does_not_fit_is_refused(call, expected):
    with pytest.raises(ValueError, match=expected):
        call()


def test_errors_keep_their_argument_and_place_when_pickled():
    error = pickle.loads(pickle.dumps(errors.InvalidInput("x is bad", "x")))
    assert (str(error), error.argument) == ("x is bad", "x")
    error = pickle.loads(pickle.dumps(errors.InvalidFile("bad", "table.csv", 3)))
    assert (str(error), error.path, error.line) == ("bad", "table.csv", 3)
