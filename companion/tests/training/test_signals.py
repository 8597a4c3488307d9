"""The step on the channel and its equivalent form."""

import numpy as np

from adascale import Scenario, channel
from adascale.learning import Training, data
from companion.training.signals import OnChannel

DIGITS = data.load("digits")
TRAINING = Training.preset("digits")
SMALL = Scenario.digits()


def test_with_senders_signal_level_is_the_equivalent_form():
    """Of the senders alone; the power of each grows by the square of their share, as the mean has fewer members."""
    drawn = channel.draw(10, 1, 0)
    senders = np.arange(10) % 3 != 0
    server = OnChannel(SMALL, TRAINING, DIGITS, 0)
    start = server.start()
    h = drawn.coefficient[:, 0]
    eta = float(SMALL.x_max * SMALL.min_gain(drawn.gain).min())
    fast, _ = server.step(start, eta, senders_t=senders)
    signal, shown = server.step(start, eta, h, senders_t=senders)
    assert apart(start, fast, signal) < 1e-4  # single precision
    assert ((shown.power > 0) == senders).all()
    growth = shown.power[senders] / server.step(start, eta, h)[1].power[senders]
    np.testing.assert_allclose(growth, (10 / senders.sum()) ** 2, rtol=1e-4)


def apart(start, model, other):
    """The distance of two models, relative to the way that one went."""
    way = (model.parameters - start.parameters).norm()
    return float((model.parameters - other.parameters).norm() / way)
