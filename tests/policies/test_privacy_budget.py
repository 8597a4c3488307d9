"""How the budget of [19] and [28] depends on the constants: none of them is 1 here."""

from dataclasses import replace

import pytest

from adascale import policies

from ..problems import MIXED


@pytest.mark.parametrize(
    ("change", "factor"),
    [
        ({"clip_norm": 2 * MIXED.clip_norm}, 1 / 4),
        ({"noise_power": 3 * MIXED.noise_power}, 3),
        ({"batch_size": (40, 60, 40)}, 4),
    ],
)
def test_the_scaling_budget_is_in_units_of_noise_and_sensitivity(change, factor):
    other = policies.scaling_budget(replace(MIXED, **change), 2.0)
    assert other == pytest.approx(factor * policies.scaling_budget(MIXED, 2.0), rel=1e-12)
