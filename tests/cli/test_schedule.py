"""``adascale schedule`` sees no later round unless it is told to, and says how it meets nu."""

import json

import numpy as np
import pandas as pd
import pytest

from adascale import Problem, channel, policies
from adascale.accounting import ExactAccountant
from adascale.channel import EmpiricalFloors
from adascale.policies import Best, Truncated
from companion.methods import METHODS

from ..command import overridden, run
from .streams import GAINS, NU, PAST, POLICIES, SMALL, WHOLE, measured

SCHEDULE = ["schedule", "--scenario", "my.toml", "--gains"]
CAUSAL = {kind: arguments for kind, (arguments, _) in POLICIES.items()} | {
    "resolve, hard": ["--policy", "resolve:budget_mode=hard", *PAST],
    "powercontrol": ["--policy", "powercontrol", *PAST],
    "lyapunovpowercontrol": ["--policy", "lyapunovpowercontrol", *PAST],
    "one's own": ["--policy", "mine:Constant", *PAST],
}
HARD = ("learn, hard", "resolve, hard", "estimfuture", "equalalloc")
TUNED = ("powercontrol", "lyapunovpowercontrol", "one's own")


@pytest.fixture
def schedule(place, capsys):
    """The totals, the scalings and the notes of a schedule."""
    later = np.where(np.arange(12) < 6, 1, 3)[:, None]
    other = pd.DataFrame(GAINS * later, columns=["h2_1", "h2_2"])
    other.to_csv("other.csv", index=False)

    def call(*arguments, gains="gains.csv", nu=f" --nu {NU}"):
        usual = f"{' '.join(SCHEDULE)} {gains}{nu} --json"
        assert run(*overridden(usual, *arguments)) == 0
        out, err = capsys.readouterr()
        totals = json.loads(out)
        return totals, np.array([row["eta"] for row in totals["schedule"]]), err

    return call


@pytest.mark.parametrize("kind", CAUSAL)
def test_later_rounds_change_no_earlier_one(schedule, kind):
    totals, eta, notes = schedule(*CAUSAL[kind])
    _, other, _ = schedule(*CAUSAL[kind], gains="other.csv")
    np.testing.assert_array_equal(eta[:6], other[:6])
    assert (eta[6:] != other[6:]).any()  # the control: the change is seen when it comes
    assert "whole trace" not in notes
    mode = totals["budget_mode"]
    assert (mode == "nu is never exceeded") == (kind in HARD)
    assert mode.startswith("none") == (kind in TUNED)
    assert kind not in HARD or totals["cost"] <= NU * (1 + 1e-9)


@pytest.mark.parametrize("kind", POLICIES)
def test_the_past_gives_the_policy(schedule, kind):
    _, eta, _ = schedule(*CAUSAL[kind])
    trace, past = (
        channel.read_gains(name, SMALL) for name in ("gains.csv", "past.csv")
    )
    law = EmpiricalFloors.of(SMALL, past.min_gain)
    policy = POLICIES[kind][1](law, past.mean_gain)
    problem = Problem(SMALL, trace.min_gain, NU)
    np.testing.assert_array_equal(eta, problem.eta(policy.schedule(problem)))


def test_a_parameter_is_tuned_on_the_last_rounds_of_the_past(schedule):
    totals, _, _ = schedule(*CAUSAL["powercontrol"])
    past = channel.read_gains("past.csv", SMALL)
    problem = Problem(SMALL, past.min_gain[-12:], NU)
    policy = policies.PowerControl(past.mean_gain, totals["privacy_budget"])
    assert problem.cost(policy.schedule(problem)) == pytest.approx(NU, rel=1e-6)


@pytest.mark.parametrize(
    "policy", [*map(str.lower, METHODS), "constantlevel", "mine:Constant"]
)
def test_hindsight_spends_the_budget_and_is_noted(schedule, policy):
    totals, _, notes = schedule("--policy", policy, "--hindsight", "--nu", 5)
    assert ("whole trace" in notes) == (policy != "equalalloc")
    is_hard = policy in ("equalalloc", "estimfuture")
    assert ("hindsight" in totals["budget_mode"]) != is_hard
    assert totals["cost"] == pytest.approx(5, rel=1e-6)


def test_split_schedules_the_rest_as_with_a_past(schedule):
    how = ["--policy", "adascale"]
    np.save("whole", np.concatenate([measured(40, 1), GAINS]).T)
    _, eta, notes = schedule(*how, "--split", 40 / 52, gains="whole.npy")
    np.testing.assert_array_equal(eta, schedule(*how, *PAST)[1])
    assert "the first 40 rounds of whole.npy are the past" in notes


SPENDER = """
from adascale.policies import OnlinePolicy
class Spender(OnlinePolicy):
    budget_mode = "hard"
    def start(self, scenario, budget):
        return budget
    def decide(self, budget, floor):
        return budget, floor + 3 * budget
"""


def test_exceeded_hard_budget_is_an_error(place, capsys):
    (place / "spend.py").write_text(SPENDER)
    how = ["--nu", NU, "--out", "eta.csv", "--policy", "spend:Spender"]
    assert run(*SCHEDULE, "gains.csv", *how) == 1
    assert not (place / "eta.csv").exists()
    message = "Spender must not exceed nu = 0.002, but its cost is 3 times nu"
    assert message in capsys.readouterr().err


TRUNCATED, BEST = "adascale.policies:Truncated", "adascale.policies:Best"
SENDERS = {
    "threshold": ([f"{TRUNCATED}:threshold=1e-12"], Truncated(1e-12)),
    "delta": (
        [TRUNCATED, "--epsilon", 2, "--delta", 1e-6],
        Truncated(epsilon=2.0, delta=1e-6),
    ),
    "level": ([f"{BEST}:number=1,level=0.5"], Best(1, 0.5)),
}


def assert_senders(texts, selection):
    for text, sends in zip(texts, selection.senders.T, strict=True):
        assert [int(m) - 1 for m in text.split()] == np.flatnonzero(sends).tolist()


@pytest.mark.parametrize("kind", SENDERS)
def test_schedule_says_who_sends_in_each_round(schedule, kind):
    arguments, policy = SENDERS[kind]
    how = ["--accountant", "exact", "--out", "who.csv"]
    totals, eta, _ = schedule("--policy", *arguments, *how, nu="")
    selection = policy.select(SMALL, GAINS.T)
    np.testing.assert_array_equal(eta, selection.eta)
    table = pd.read_csv("who.csv", keep_default_na=False, dtype=str)
    assert [row["senders"] for row in totals["schedule"]] == table.senders.tolist()
    assert_senders(table.senders, selection)
    delta = 1e-6 if kind == "delta" else 1e-5
    epsilon = selection.epsilons(ExactAccountant(), delta)
    assert totals["epsilon"] == pytest.approx(epsilon.max())
    assert totals["epsilon_mean"] == pytest.approx(epsilon.mean())
    assert totals["participation_min"] == selection.participation.min()


@pytest.mark.parametrize(
    ("more", "accountant"),
    [
        (["--nu", NU], "renyi"),
        (["--nu", NU, "--accountant", "exact"], "exact"),
        (["--epsilon", 2], "exact"),
        (["--epsilon", 2, "--orders", "1.1,63"], "renyi"),
    ],
)
def test_schedule_names_the_accountant_of_its_epsilon(schedule, more, accountant):
    totals, *_ = schedule(*more, nu="")
    assert totals["accountant"] == accountant


@pytest.mark.parametrize("more", [[], PAST], ids=["learning", "with a past"])
def test_epsilon_is_spent_and_not_exceeded(schedule, more):
    totals, *_ = schedule("--epsilon", 2, *more, nu="")
    assert 0.99 * 2 < totals["epsilon"] <= 2
    assert totals["nu"] is None


@pytest.mark.parametrize("kind", ["delta", "level"])
def test_stream_answers_who_sends(stream, kind):
    (name, *more), policy = SENDERS[kind]
    _, (_, *lines), _ = stream(WHOLE, "--policy", name, *more, nu=None)
    answers = [line.split(",") for line in lines]
    selection = policy.select(SMALL, GAINS.T)
    assert [float(fields[1]) for fields in answers] == selection.eta.tolist()
    assert_senders([fields[5] for fields in answers], selection)


def test_an_epsilon_that_full_power_keeps_is_noted(schedule):
    totals, _, notes = schedule("--epsilon", 1e4, nu="")
    assert totals["cost"] == 0
    assert "full power keeps epsilon = 10000: PrivacyBudget" in notes


def test_senders_take_the_total_that_is_nu_above_the_floor_of_the_past(schedule):
    totals, *_ = schedule("--policy", TRUNCATED, "--nu", 9.0, *PAST)
    gain = channel.read_gains("past.csv", SMALL).gain[:, -12:]
    total = 9.0 + float(SMALL.floor(SMALL.min_gain(gain)).mean())
    policy = Truncated.of_total(SMALL, gain, total)
    assert totals["threshold"] == pytest.approx(float(policy.threshold), rel=1e-12)
