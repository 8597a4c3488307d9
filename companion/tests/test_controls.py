"""What a control takes away, and what it leaves."""

import numpy as np

from adascale import channel
from companion.training.controls import FadeLevelled


def test_the_deepest_fade_alone_is_taken_away_and_has_the_median_instead():
    plain, levelled = (model.draw(10, 301, [4, 5]) for model in (channel.Rayleigh(), FadeLevelled()))
    before, after = (drawn.gain.min(axis=-2) for drawn in (plain, levelled))
    changed = (plain.coefficient != levelled.coefficient).any(axis=-2)
    assert (changed.sum(axis=-1) == 1).all()
    assert (changed.argmax(axis=-1) == before.argmin(axis=-1)).all()
    assert np.array_equal(after[changed], np.median(before, axis=-1))
    assert np.array_equal(plain.path_loss, levelled.path_loss)
    one = FadeLevelled().draw(10, 301, 5)
    assert np.array_equal(one.coefficient, levelled.coefficient[1])


def test_it_can_be_named_in_a_sweep():
    made = channel.find("companion.training.controls:FadeLevelled:placement=area")
    assert channel.specification(made)["model"] == "companion.training.controls:FadeLevelled"
    assert made.placement == "area"
