"""A policy is its parameters: nobody changes them underneath."""

import dataclasses

import pytest

from adascale import policies

CLASSES = [each for each in vars(policies).values() if dataclasses.is_dataclass(each) and isinstance(each, type)]


def test_there_are_policies_with_parameters():
    assert policies.AdaScale in CLASSES
    assert policies.LyapunovPowerControl in CLASSES


@pytest.mark.parametrize("policy", CLASSES, ids=lambda policy: policy.__name__)
def test_the_parameters_of_a_policy_stay_as_they_are(policy):
    assert policy.__dataclass_params__.frozen
