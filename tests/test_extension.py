"""Each kind of thing is added from outside the package, in at most 15 lines, and the command line runs on it."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale.learning import gradients

from .command import run as adascale

LONGEST = 15

CONTRIBUTING = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
POLICY = re.search(r"```python\n(.*?)```", CONTRIBUTING, re.DOTALL)[1]

CHANNEL = """
from dataclasses import dataclass
from adascale.channel import ChannelModel, Rayleigh

@dataclass(frozen=True)
class Rician(ChannelModel):
    K: float = 1.0

    def fading(self, rng, num_rounds):
        scattered = Rayleigh().fading(rng, num_rounds)
        return (self.K**0.5 + scattered) / (1 + self.K) ** 0.5
"""

ACCOUNTANT = """
from dataclasses import dataclass
from adascale.accounting import schedule_epsilon

@dataclass(frozen=True)
class Unsampled:
    margin: float = 0.0

    def epsilon(self, sampling_rate, noise_multiplier, delta):
        return schedule_epsilon(1.0, noise_multiplier, delta).epsilon + self.margin
"""

DATA = """
import numpy as np
from torch import nn
from adascale.learning.data import RawDataset

def squares():
    images = np.random.default_rng(0).random((120, 4, 4, 1)) - 0.5
    labels = (images[:, 0, 0, 0] > 0).astype(int)
    return RawDataset(images[:100], labels[:100], images[100:], labels[100:])

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
"""

PRESET = """
base = "digits"
scenario = { name = "squares", num_devices = 5, dataset_size = 20, batch_size = 10, num_rounds = 30 }
training = { dataset = "own:squares", model = "own:net" }
"""

RULE = """
import torch
from torch import nn
from adascale.learning.gradients import register

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x):
        return x * self.weight

@register(Scale)
def rule(layer, x, output_grad):
    return {layer.weight: output_grad * x}
"""
NETWORK = "\n\ndef net():\n    return nn.Sequential(nn.Flatten(), Scale(), nn.Linear(64, 10))\n"

SWEEP = """
runs = [{ reading = "own", dataset = "digits", rounds = 2, nu = 0.04, seed = 0, policy = ["own:Level", "AdaScale"] }]
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write ``own.py`` into an empty working directory; it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)

    def write(text, more=""):
        assert text.strip().count("\n") + 1 <= LONGEST, "an extension must stay short"
        (tmp_path / "own.py").write_text(text.lstrip() + more)
        sys.modules.pop("own", None)

    yield write
    sys.modules.pop("own", None)


@pytest.fixture
def said(capsys):
    """Run a command and read its JSON."""

    def said(*arguments):
        assert adascale(*arguments, "--nu", 0.04, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return said


TRAIN = ("train", "--rounds", 2)
LEAKAGE = ("leakage", "--realisations", 1, "--policy", "optimal")


def test_a_policy_joins_every_table_with_a_tuned_parameter_of_its_own_name(
    own, tmp_path
):
    own(POLICY)
    common = ("--policy", "own:Level", "--nu", 0.04)
    more = ("--policy", "adascale", "--policy", "optimal", "--realisations", 2)
    assert adascale("leakage", *common, *more, "--out", "leakage.csv") == 0
    rows = pd.read_csv("leakage.csv").set_index("policy")
    assert rows.level.loc[["AdaScale", "Optimal"]].isna().all()
    best = rows.loc["Optimal"].rdp.to_numpy()  # which is such a level
    np.testing.assert_allclose(rows.loc["Level"].rdp, best, rtol=1e-8)

    assert adascale(*TRAIN, *common, "--out", "run.csv") == 0
    (tmp_path / "two.toml").write_text(SWEEP)
    assert adascale("sweep", "two.toml", "--store", "store") == 0
    swept = pd.read_csv("two.csv")
    assert swept.level.notna().tolist() == [True, False]
    assert swept.penalty.notna().tolist() == [False, True]
    assert pd.read_csv("run.csv").level[0] == swept.level[0]


def test_a_channel_model_is_drawn_from_with_its_parameters(own, said):
    own(CHANNEL)
    names = ("own:Rician:K=0", "own:Rician:K=50", "rayleigh")
    scattered, direct, rayleigh = (
        said(*LEAKAGE, "--channel", name)[0]["floor_max"] for name in names
    )
    assert scattered == pytest.approx(
        rayleigh, rel=1e-12
    )  # no line of sight is Rayleigh
    assert direct < 0.1 * rayleigh  # and with one there are no deep fades
    runs = {said(*TRAIN, "--channel", f"own:Rician:K={K}")["run"] for K in (5, 6)}
    assert len(runs) == 2  # the law is in the address


def test_an_accountant_computes_epsilon(own, said):
    own(ACCOUNTANT)
    names = ("renyi", "own:Unsampled", "own:Unsampled:margin=1")
    renyi, unsampled, more = (
        said(*LEAKAGE, "--accountant", name)[0]["epsilon"] for name in names
    )
    assert unsampled > 2 * renyi  # sampling amplifies
    assert more == pytest.approx(unsampled + 1, abs=1e-9)
    assert (
        said(*TRAIN, "--accountant", "own:Unsampled")["epsilon"]
        > 1.5 * said(*TRAIN)["epsilon"]
    )


def test_a_data_set_with_its_network_is_trained_on(own, tmp_path, said):
    own(DATA)
    assert DATA.strip().count("\n") + PRESET.strip().count("\n") + 2 <= LONGEST
    (tmp_path / "squares.toml").write_text(PRESET.lstrip())
    trained = said("train", "--dataset", "squares.toml")
    assert (trained["model"], trained["rounds"]) == ("net", 30)
    assert trained["test_accuracy"] > 0.7  # it learns: half is chance
    assert said(*LEAKAGE, "--scenario", "squares.toml")


def test_a_rule_for_a_layer_gives_what_vmap_gives(own, tmp_path, said):
    own(RULE, NETWORK)
    (tmp_path / "scaled.toml").write_text(
        'base = "digits"\ntraining = { model = "own:net" }\n'
    )
    ruled = said(*TRAIN, "--dataset", "scaled.toml")
    assert gradients.has_rules(sys.modules["own"].net())
    own(RULE.replace("@register(Scale)\n", ""), NETWORK)
    general = said(*TRAIN, "--dataset", "scaled.toml")
    assert not gradients.has_rules(sys.modules["own"].net())
    assert general["test_loss"] == pytest.approx(
        ruled["test_loss"], rel=1e-5
    )  # single precision, other sums
    assert general["run"] != ruled["run"]  # another source, another address
