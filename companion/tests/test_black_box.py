"""Black-box audits: mislabelled samples and what the final model shows of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.audit.canaries import unit
from adascale.learning import FedSGD, Training, data
from companion.privacy.black_box import SampleCanaries, audit_samples

SCENARIO = replace(Scenario.digits(), num_rounds=20)


@cache
def digits():
    return data.load("digits")


def test_a_mislabelled_scan_has_another_class_and_a_clipped_gradient():
    canaries = SampleCanaries.mislabelled(digits(), Training.preset("digits"), 280, seed=0)
    at = [int((digits().test_images == each).flatten(1).all(1).nonzero()[0]) for each in canaries.images[:40]]
    assert (digits().test_labels[at] != canaries.labels[:40]).all()
    parameters = FedSGD(SCENARIO, Training.preset("digits"), digits(), 0).start().parameters
    one = canaries.signal(SCENARIO, np.array([5]), parameters)
    both = canaries.signal(SCENARIO, np.array([5, 9]), parameters)
    other = canaries.signal(SCENARIO, np.array([9]), parameters)
    assert 0 < float(one.norm()) <= unit(SCENARIO) * (1 + 1e-6)
    torch.testing.assert_close(both, one + other, rtol=1e-4, atol=1e-8)
    assert not canaries.signal(SCENARIO, np.array([], dtype=int), parameters).any()


def test_the_final_model_tells_little():
    gain = channel.draw(SCENARIO.num_devices, 20, seed=0).gain
    problem = ReceiveScalingProblem(SCENARIO, SCENARIO.min_gain(gain), 2.56)
    given = problem, policies.Optimal().schedule(problem), Training.preset("digits"), digits(), 0
    found = audit_samples(*given, 280)
    assert (found.kind, found.guesses, found.rates, found.scaled) == ("samples", 140, None, None)
    assert found.one_run < 0.3 < found.accounted
    assert found.refuted == {}
