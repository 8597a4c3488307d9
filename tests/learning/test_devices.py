"""Every tensor of a training is on its device, by a stand-in for a GPU: no machine of the tests has one.

The stand-in calls itself the device ``meta`` and computes on the CPU.  It refuses an operation that mixes its tensors
with others, as CUDA does, and thereby shows where tensors are; it cannot show what kernels of CUDA compute.
"""

import pandas as pd
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.learning import FedSGD, Training, data, fedsgd, train

DIGITS = data.load("digits")
THERE = torch.device("meta")
COPIES = torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default


class Away(torch.Tensor):
    """A tensor of the stand-in, with the tensor of the CPU that has its numbers."""

    @staticmethod
    def __new__(cls, here):
        layout = {"strides": here.stride(), "storage_offset": here.storage_offset(), "dtype": here.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, here.shape, **layout, device=THERE)
        made.here = here
        return made

    def tolist(self):
        return self.here.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, given=(), named=None):
        raise AssertionError("the stand-in is switched off")


class StandIn(TorchDispatchMode):
    """Inside this context there is a second device."""

    def __torch_dispatch__(self, function, types, given=(), named=None):
        named, seen = dict(named or {}), {"away": 0, "here": 0}

        def count(tensor):
            away = isinstance(tensor, Away)
            assert away or tensor.device != THERE, "a tensor of the stand-in without numbers"
            seen["away" if away else "here"] += away or tensor.ndim > 0  # a CPU scalar may join, as with CUDA
            return tensor

        tree_map_only(torch.Tensor, count, (given, named))
        copied, wanted = function in COPIES, named.get("device")
        picked = function is torch.ops.aten.index.Tensor and isinstance(given[0], Away)  # CUDA moves the positions
        if seen["away"] and seen["here"] and not copied and not picked:
            raise RuntimeError(f"{function} mixes tensors of two devices")
        there = wanted == THERE if wanted is not None else isinstance(given[0], Away) if copied else seen["away"]
        if wanted is not None:
            named["device"] = torch.device("cpu")
        inner = tree_map_only(Away, lambda each: each.here, (given, named))
        result = function(*inner[0], **inner[1])
        if function._schema.is_mutable:  # in place, or into ``out``: what was given is what is returned
            return named.get("out", given[0])
        return tree_map_only(torch.Tensor, Away, result) if there else result


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(fedsgd, "find_device", torch.device)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)  # it knows no meta
    with StandIn():
        yield


def trained(device):
    scenario = Scenario.digits()
    drawn = channel.draw(scenario.num_devices, 3, 0)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), 0.5)
    eta = policies.EqualAlloc().schedule(problem)
    found = train(problem, eta, Training.preset("digits"), DIGITS, 0, device=device, every=2)
    return found, train(problem, eta, Training.preset("digits"), DIGITS, 0, device=device, every=2, resume=found)


def test_training_keeps_every_tensor_on_its_device_and_changes_no_number(stand_in):
    (away, resumed), (here, _) = trained("meta"), trained("cpu")
    assert isinstance(away.state.parameters, Away)
    assert torch.equal(away.state.parameters.cpu(), here.state.parameters)
    pd.testing.assert_frame_equal(away.history, here.history, check_exact=True)
    assert resumed.state.parameters.device == THERE


def test_stand_in_finds_a_tensor_that_stayed(stand_in):
    federation = FedSGD(Scenario.digits(), Training.preset("digits"), DIGITS, 0, "meta")
    federation._data = DIGITS
    with pytest.raises(RuntimeError, match="two devices"):
        federation.step(federation.start(), 1e-9)
