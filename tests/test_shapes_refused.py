"""Numbers where arrays are expected, arrays where numbers are, and classes without their methods: one error each."""

import numpy as np
import pytest

import adascale
from adascale import accounting, policies, tuning
from adascale.policies import adascale_energies, estimated_min_gain, water_level
from adascale.problem import RoundLeakage

from .problems import MIXED, make


class Nothing(policies.OnlinePolicy):
    """A policy that defines nothing."""


CALLS = {
    "floor must have a last axis of rounds, got 1.0": lambda: adascale_energies(1.0, 1.0, 1.0, RoundLeakage(MIXED)),
    "floor must have a last axis of rounds, got shape ()": lambda: water_level(1.0, 1.0),
    "floor must have a last axis of rounds, got shape (0,)": lambda: water_level([], 1.0),
    "mean_gain must have a last axis of devices, got 1.0": lambda: estimated_min_gain(1.0, "devices"),
    "tolerance must be one number": lambda: tuning.match_budget(policies.AdaScale, make(MIXED, 1.0), tolerance=[1, 2]),
    "orders must be a list of one or more numbers, got 5": lambda: make(MIXED, 1.0).dp_epsilon(1e-9, orders=5),
    "orders must be a list of one or more numbers, got 8.0": lambda: accounting.schedule_epsilon(0.1, 1.0, orders=8.0),
    "accountant 'numpy:ndarray' must be a class with a method epsilon": lambda: accounting.find("numpy:ndarray"),
}


@pytest.mark.parametrize("said", CALLS)
def test_what_has_not_the_shape_it_needs_is_named(said):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        CALLS[said]()
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("method", "arguments"), [("start", (MIXED, np.ones(1))), ("step", (None, np.ones(1)))], ids=["start", "step"]
)
def test_a_policy_without_a_method_says_which(method, arguments):
    with pytest.raises(NotImplementedError, match=f"Nothing has no {method}"):
        getattr(Nothing(), method)(*arguments)


def test_a_policy_without_a_schedule_says_so():
    with pytest.raises(NotImplementedError, match="Policy has no schedule"):
        policies.Policy().schedule(make(MIXED, 1.0))


def test_the_package_lists_what_it_offers():
    assert set(adascale.__all__) == set(dir(adascale))
