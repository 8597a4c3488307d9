"""``adascale schedule`` sees no later round unless it is told to, and says what it promises of nu."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.accounting import ExactAccountant, RenyiAccountant
from adascale.channel import EmpiricalFloors
from adascale.errors import FlatCost
from adascale.policies import Best, EqualAlloc, Truncated
from adascale.streaming import Stream
from companion.methods import METHODS

from ..command import overridden, run
from .streams import GAINS, NU, PAST, POLICIES, SMALL, WHOLE, measured

GIVEN = ["schedule", "--scenario", "my.toml", "--gains"]
CAUSAL = {kind: arguments for kind, (arguments, _) in POLICIES.items()} | {
    "resolve, hard": ["--policy", "resolve:budget_mode=hard", *PAST],
    "powercontrol": ["--policy", "powercontrol", *PAST],
    "lyapunovpowercontrol": ["--policy", "lyapunovpowercontrol", *PAST],
    "one's own": ["--policy", "mine:Constant", *PAST],
}


@pytest.fixture
def place(place):
    """Also the trace with another end."""
    other = GAINS * np.where(np.arange(12) < 6, 1, 3)[:, None]
    pd.DataFrame(other, columns=["h2_1", "h2_2"]).to_csv("other.csv", index=False)
    return place


def schedule(capsys, *arguments, gains="gains.csv", nu=("--nu", NU)):
    code = run(*overridden(*GIVEN, gains, "--json", *nu, *arguments))
    said = capsys.readouterr()
    assert code == 0, said.err
    totals = json.loads(said.out)
    return totals, np.array([each["eta"] for each in totals["schedule"]]), said.err


MODES = dict.fromkeys(CAUSAL, "nu is never exceeded") | {
    **dict.fromkeys(
        ("the default", "resolve", "learn with a past", "adascale", "constantlevel"),
        "nu on average",
    ),
    **dict.fromkeys(("powercontrol", "lyapunovpowercontrol", "one's own"), "none"),
    "adascale with V": "that of the policy",
}


@pytest.mark.parametrize("kind", CAUSAL)
def test_later_rounds_change_no_earlier_one_and_the_past_gives_the_policy(
    place, capsys, kind
):
    totals, eta, err = schedule(capsys, *CAUSAL[kind])
    _, other, _ = schedule(capsys, *CAUSAL[kind], gains="other.csv")
    np.testing.assert_array_equal(eta[:6], other[:6])
    assert (
        eta[6:] != other[6:]
    ).any()  # the control: the change is seen once it has come
    assert "whole trace" not in err
    assert totals["budget_mode"].startswith(MODES[kind])
    assert totals["cost"] <= NU * (1 + 1e-9) or "exceeded" not in MODES[kind]
    trace, past = (
        channel.read_gains(name, SMALL) for name in ("gains.csv", "past.csv")
    )
    if kind in POLICIES:
        policy = POLICIES[kind][1](
            EmpiricalFloors.of(SMALL, past.min_gain), past.mean_gain
        )
        problem = ReceiveScalingProblem(SMALL, trace.min_gain, NU)
        np.testing.assert_array_equal(eta, problem.eta(policy.schedule(problem)))
    if kind == "the default":
        assert totals["policy"] == "Learn"
        assert f"Learn spends {totals['cost'] / NU:.3g} times nu" in err
    if kind == "powercontrol":  # tuned on the last rounds of the past
        before = ReceiveScalingProblem(SMALL, past.min_gain[-12:], NU)
        spent = policies.PowerControl(
            past.mean_gain, totals["privacy_budget"]
        ).schedule(before)
        assert before.cost(spent) == pytest.approx(NU, rel=1e-6)


@pytest.mark.parametrize(
    "policy", [*map(str.lower, METHODS), "constantlevel", "mine:Constant"]
)
def test_hindsight_sees_later_rounds_spends_the_budget_and_notes_it(
    place, capsys, policy
):
    given = ["--policy", policy, "--hindsight", "--nu", 5]
    totals, eta, err = schedule(capsys, *given)
    _, other, _ = schedule(capsys, *given, gains="other.csv")
    assert ("whole trace" in err) == (policy != "equalalloc")
    assert "hindsight" in totals["budget_mode"] or policy in (
        "equalalloc",
        "estimfuture",
    )
    if policy not in (
        "equalalloc",
        "mine:Constant",
    ):  # whose extra energy is nu, whatever the gains
        assert (eta[:6] != other[:6]).any()
    assert totals["cost"] == pytest.approx(
        5, rel=1e-9 if policy in map(str.lower, METHODS) else 1e-6
    )


@pytest.mark.parametrize("policy", ["adascale", "estimfuture"])
def test_split_schedules_the_rest_as_with_a_past_in_every_form(place, capsys, policy):
    expected = schedule(capsys, "--policy", policy, *PAST)[1]
    whole = np.concatenate([measured(40, 1), GAINS])
    np.save("whole", whole.T)
    power = (
        pd.DataFrame(20 + 10 * np.log10(whole), columns=["b2", "b10"])
        .rename_axis("time")
        .reset_index()
    )
    power.melt("time", var_name="link").to_csv("long.csv", index=False)
    split = ["--policy", policy, "--split", 40 / 52, "--out", "eta.csv"]
    _, eta, err = schedule(capsys, *split, gains="whole.npy")
    np.testing.assert_array_equal(eta, expected)
    assert "the first 40 rounds of whole.npy are the past" in err
    _, eta, _ = schedule(
        capsys, *split, "--unit", "dbm", "--transmit-power", 20, gains="long.csv"
    )
    np.testing.assert_allclose(eta, expected, rtol=1e-9)  # of a decibel's digits
    assert (
        run(
            "plot",
            "eta.csv",
            "eta.svg",
            "--x",
            "round",
            "--y",
            "noise_energy",
            "--linear",
            "x",
        )
        == 0
    )


def test_clocks_that_differ_give_the_aligned_epsilon_or_an_error(place, capsys):
    """The long and the wide form of a trace, whose times differ by up to 80 ms between links."""
    value = pd.DataFrame(20 + 10 * np.log10(measured(40, 1)), columns=["b2", "b10"])
    value.iloc[3, 0] = value.iloc[20, 1] = np.nan
    value.rename_axis("round").to_csv("aligned.csv")
    rows = (
        value.rename_axis("time").reset_index().melt("time", var_name="link").dropna()
    )
    rows["time"] += np.random.default_rng(0).uniform(0, 0.08, len(rows))
    rows = rows.sort_values("time").assign(
        time=pd.Timestamp("2025-03-30") + pd.to_timedelta(rows["time"], "s")
    )
    rows.to_csv("jittered.csv", index=False)
    rows.pivot(index="time", columns="link", values="value").to_csv("pivoted.csv")
    how = [
        "--unit",
        "dbm",
        "--transmit-power",
        20,
        "--gaps",
        "floor",
        "--sensitivity",
        -125,
    ]
    expected, eta, _ = schedule(capsys, *how, gains="aligned.csv")
    for name in ("jittered.csv", "pivoted.csv"):
        totals, other, _ = schedule(capsys, *how, "--round-time", 1, gains=name)
        assert totals["epsilon"] == expected["epsilon"]
        np.testing.assert_array_equal(other, eta)
        assert run(*GIVEN, name, "--nu", NU, *how) == 2
        assert (
            "in rounds of 1 (round_time) the times of one differ by 0.0"
            in capsys.readouterr().err
        )


STOPPING = """
import numpy as np
from adascale.policies import OnlinePolicy
class Stopping(OnlinePolicy):
    tuned = ("scale",)
    def __init__(self, scale): self.scale = scale
    def start(self, scenario, budget): return budget * scenario.num_rounds
    def decide(self, left, floor):
        extra = np.minimum(self.scale * floor, left)
        return left - extra, floor + extra
"""


def test_a_policy_that_the_budget_does_not_determine_is_noted(place, capsys):
    (place / "stop.py").write_text(STOPPING)
    with pytest.warns(
        FlatCost, match="the cost of Stopping is the budget for the parameters"
    ):  # printed as a note
        schedule(capsys, "--policy", "stop:Stopping", *PAST)


HARD = """
from adascale.policies import OnlinePolicy
class Spender(OnlinePolicy):
    budget_mode = "hard"
    def start(self, scenario, budget):
        return scenario, budget
    def decide(self, state, floor):
        return state, floor + FACTOR * state[1]
"""


@pytest.mark.parametrize(("factor", "code"), [(3, 1), (1, 0)])
def test_exceeded_hard_budget_is_an_error(place, capsys, factor, code):
    (place / "spend.py").write_text(HARD.replace("FACTOR", str(factor)))
    assert (
        run(
            *GIVEN,
            "gains.csv",
            "--nu",
            NU,
            "--out",
            "eta.csv",
            "--policy",
            "spend:Spender",
        )
        == code
    )
    said = capsys.readouterr()
    assert (place / "eta.csv").exists() == bool(said.out) == (code == 0)
    assert (
        "Spender must not exceed nu = 0.002, but its cost is 0.006, 3 times nu"
        in said.err
    ) == (code == 1)


@pytest.mark.parametrize("option", ["--gains", "--past"])
def test_last_line_without_break_is_noted(place, capsys, option):
    (place / "cut.csv").write_text((place / "past.csv").read_text().rstrip())
    _, _, err = schedule(capsys, option, "cut.csv")
    assert "note: cut.csv, line 41: no line break at its end" in err


# Policies that choose who sends, and an epsilon known in advance ------------------------------------------------------

TRUNCATED, BEST = "adascale.policies:Truncated", "adascale.policies:Best"
SELECTED = "round,eta,noise_energy,epsilon,epsilon_mean,senders,made_with"
PARAMETERS = {
    "threshold": ([f"{TRUNCATED}:threshold=1e-12"], Truncated(1e-12)),
    "epsilon": ([TRUNCATED, "--epsilon", 2], Truncated(epsilon=2.0)),
    "delta": (
        [TRUNCATED, "--epsilon", 2, "--delta", 1e-6],
        Truncated(epsilon=2.0, delta=1e-6),
    ),
    "level": ([f"{BEST}:number=1,level=0.5"], Best(1, 0.5)),
}


def senders_of(text):
    return [int(each) for each in text.split()]


@pytest.mark.parametrize("kind", PARAMETERS)
def test_schedule_says_who_sends_in_each_round(place, capsys, kind):
    (name, *more), policy = PARAMETERS[kind]
    totals, eta, _ = schedule(
        capsys,
        "--policy",
        name,
        *more,
        "--accountant",
        "exact",
        "--out",
        "who.csv",
        nu=[],
    )
    expected = policy.select(SMALL, GAINS.T)
    with open("who.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_array_equal(
        [[float(row["eta"]) for row in rows], eta], [expected.eta] * 2
    )
    sent = [np.flatnonzero(each) + 1 for each in expected.senders.T]
    assert [senders_of(row["senders"]) for row in rows] == [
        each.tolist() for each in sent
    ]
    assert [int(row["number"]) for row in rows] == [each.size for each in sent]
    assert [row["senders"] for row in totals["schedule"]] == [
        row["senders"] for row in rows
    ]
    epsilon = expected.epsilons(
        ExactAccountant(), policy.delta if kind == "delta" else 1e-5
    )
    assert (totals["epsilon_mean"], totals["epsilon"]) == pytest.approx(
        (epsilon.mean(), epsilon.max())
    )
    assert totals["participation_min"] == expected.participation.min()


@pytest.mark.parametrize(
    ("policy", "known"), [(TRUNCATED, "threshold"), (f"{BEST}:number=1", "level")]
)
def test_total_of_the_past_is_nu_above_its_floor(place, capsys, policy, known):
    nu = 9.0
    totals, *_ = schedule(capsys, "--policy", policy, "--nu", nu, *PAST)
    gain = channel.read_gains("past.csv", SMALL).gain[:, -12:]
    made = type(PARAMETERS[known][1]).of_total
    total = nu + float(
        (SMALL.noise_scale / (SMALL.x_max * SMALL.min_gain(gain))).mean()
    )
    found = made(SMALL, gain, total, *([1] if known == "level" else []))
    assert totals[known] == getattr(found, known)
    assert found.select(SMALL, gain).total == pytest.approx(total)
    assert schedule(capsys, "--policy", policy, "--nu", nu, "--hindsight")[0][
        "cost"
    ] == pytest.approx(nu)


@pytest.mark.parametrize(("epsilon", "nu"), [(1, 0.190), (2, 0.105), (8, 0.0424)])
def test_epsilon_gives_the_budget_of_equalalloc_before_any_gain(
    tmp_path, capsys, monkeypatch, epsilon, nu
):
    monkeypatch.chdir(tmp_path)
    np.savetxt(
        "good.csv", np.full(500, 0.9), header="min_gain", comments=""
    )  # the noise is hardly above nu
    arguments = [
        "schedule",
        "--scenario",
        "mnist",
        "--gains",
        "good.csv",
        "--epsilon",
        epsilon,
        "--json",
    ]
    assert run(*arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        found["nu"]
        == float(f"{found['nu']:.5e}")
        >= EqualAlloc.budget_for(Scenario.mnist(), epsilon)
    )
    assert found["nu"] == pytest.approx(nu, rel=5e-3)
    assert 0.998 * epsilon < found["epsilon"] <= epsilon


@pytest.mark.parametrize("kind", ["delta", "level"])
def test_stream_answers_who_sends_and_goes_on(stream, kind):
    """Killed after each round in turn, by the command's own state; the skipped round leaks nothing."""
    (name, *more), policy = PARAMETERS[kind]
    found = policy.select(SMALL, GAINS.T)
    sent = WHOLE.splitlines(keepends=True)
    answered = []
    for part in (sent[1:4], ["skip\n", *sent[4:5]], sent[5:12]):
        code, out, _ = stream(
            "".join([sent[0], *part]), "--policy", name, *more, nu=None
        )
        assert (code, out[0]) == (0, SELECTED)
        answered += [line.split(",") for line in out[1:]]
    del answered[3]
    delta = policy.delta if kind == "delta" else 1e-5
    for t, (number, eta, _, epsilon, mean, senders, _) in enumerate(answered):
        assert (int(number), float(eta)) == (t + (t > 2), found.eta[t])
        assert senders_of(senders) == (np.flatnonzero(found.senders[:, t]) + 1).tolist()
        part = found._replace(eta=found.eta[: t + 1], senders=found.senders[:, : t + 1])
        expected = part.epsilons(RenyiAccountant(), delta)
        assert (float(epsilon), float(mean)) == pytest.approx(
            (expected.max(), expected.mean()), rel=1e-9
        )


class Own(Best):
    factor, other = 0.01, False

    def decide(self, state, gain):
        state, eta, senders = super().decide(state, gain)
        return state, self.factor * eta, senders ^ self.other


def test_choice_beyond_the_power_limit_or_changed_since_is_refused(
    tmp_path, monkeypatch
):
    policy, path = Own(1), tmp_path / "s"
    with Stream(policy, SMALL, None, path) as found:
        assert found.answer([2e-12, 3e-12]).senders == (2,)
        monkeypatch.setattr(Own, "factor", 1.01)
        with pytest.raises(
            ValueError, match=r"Own returned eta = .* in round 1, expected 0 < eta <= "
        ):
            found.answer([2e-12, 3e-12])
    monkeypatch.undo()
    monkeypatch.setattr(Own, "other", True)
    with pytest.raises(
        ValueError,
        match=r"round 0 was sent by the devices \(2,\), and the policy chooses",
    ):
        Stream(policy, SMALL, None, path)
