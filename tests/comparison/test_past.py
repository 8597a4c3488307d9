"""Methods that learn from the earlier rounds of a trace."""

import numpy as np
import pytest

from adascale import Scenario, channel, policies
from adascale.channel import Trace
from adascale.comparison import TunedOnModel
from adascale.comparison.past import with_past

from ..problems import drawn

SMALL = Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)
FRESH, MEAN_GAIN = drawn(SMALL, np.array([[2e-3], [8e-3]]), [11, 12])


@pytest.mark.parametrize(
    "method",
    [
        TunedOnModel(policies.AdaScale, from_law=False),
        TunedOnModel(policies.PowerControl),
    ],
)
def test_a_parameter_is_tuned_on_floors_drawn_from_the_past(method):
    gain = channel.draw(SMALL.num_devices, SMALL.num_rounds, 5).gain
    past = Trace(SMALL.min_gain(gain), gain.mean(axis=-1))
    told = with_past(method, SMALL, past)
    assert (told.kind, told.knows) == ("causal", "law")
    cost = FRESH.cost(told(FRESH, MEAN_GAIN).schedule(FRESH)) / FRESH.budget
    assert (abs(cost - 1) > 1e-3).all()  # of rounds on which it was not tuned
