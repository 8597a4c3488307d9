"""Policies that choose who sends, an epsilon known in advance, and parameters of policies, in the commands."""

import csv
import json

import numpy as np
import pytest

from adascale import Scenario
from adascale.accounting import ExactAccountant, RenyiAccountant
from adascale.channel import read_gains
from adascale.policies import Best, EqualAlloc, Truncated
from adascale.streaming import Stream

from ..command import run
from .streams import GAINS, PAST, SMALL, WHOLE

TRUNCATED, BEST = "adascale.policies:Truncated", "adascale.policies:Best"
SELECTED = "round,eta,noise_energy,epsilon,epsilon_max,senders"
PARAMETERS = {
    "threshold": ([f"{TRUNCATED}:threshold=1e-12"], Truncated(1e-12)),
    "epsilon": ([TRUNCATED, "--epsilon", 2], Truncated(epsilon=2.0)),
    "delta": ([TRUNCATED, "--epsilon", 2, "--delta", 1e-6], Truncated(epsilon=2.0, delta=1e-6)),
    "level": ([f"{BEST}:number=1,level=0.5"], Best(1, 0.5)),
}


def schedule(capsys, *arguments):
    assert run("schedule", "--scenario", "my.toml", "--gains", "gains.csv", "--json", *arguments) == 0
    return json.loads(capsys.readouterr().out)


def senders_of(text):
    return [int(each) for each in text.split()]


@pytest.mark.parametrize("kind", PARAMETERS)
def test_schedule_says_who_sends_in_each_round(place, capsys, kind):
    (name, *more), policy = PARAMETERS[kind]
    totals = schedule(capsys, "--policy", name, *more, "--accountant", "exact", "--out", "who.csv")
    expected = policy.select(SMALL, GAINS.T)
    with open("who.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_array_equal([float(row["eta"]) for row in rows], expected.eta)
    sent = [np.flatnonzero(each) + 1 for each in expected.senders.T]
    assert [senders_of(row["senders"]) for row in rows] == [each.tolist() for each in sent]
    assert [int(row["number"]) for row in rows] == [each.size for each in sent]
    assert [row["senders"] for row in totals["schedule"]] == [row["senders"] for row in rows]
    epsilon = expected.epsilon(ExactAccountant(), policy.delta if kind == "delta" else 1e-5)
    assert (totals["epsilon"], totals["epsilon_max"]) == pytest.approx((epsilon.mean(), epsilon.max()))
    assert totals["participation_min"] == expected.participation.min()


@pytest.mark.parametrize(("policy", "known"), [(TRUNCATED, "threshold"), (f"{BEST}:number=1", "level")])
def test_total_of_the_past_is_nu_above_its_floor(place, capsys, policy, known):
    nu = 9.0
    totals = schedule(capsys, "--policy", policy, "--nu", nu, *PAST)
    gain = read_gains("past.csv", SMALL).gain[:, -12:]
    made = type(PARAMETERS[known][1]).of_total
    total = nu + float((SMALL.noise_scale / (SMALL.x_max * SMALL.min_gain(gain))).mean())
    found = made(SMALL, gain, total, *([1] if known == "level" else []))
    assert totals[known] == getattr(found, known)
    assert found.select(SMALL, gain).total == pytest.approx(total)
    assert schedule(capsys, "--policy", policy, "--nu", nu, "--hindsight")["cost"] == pytest.approx(nu)


@pytest.mark.parametrize(("epsilon", "nu"), [(1, 0.190), (2, 0.105), (8, 0.0424)])
def test_epsilon_gives_the_budget_of_equalalloc_before_any_gain(tmp_path, capsys, monkeypatch, epsilon, nu):
    monkeypatch.chdir(tmp_path)
    np.savetxt("good.csv", np.full(500, 0.9), header="min_gain", comments="")  # the noise is hardly above nu
    arguments = ["schedule", "--scenario", "mnist", "--gains", "good.csv", "--epsilon", epsilon, "--json"]
    assert run(*arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["nu"] == float(f"{found['nu']:.5e}") >= EqualAlloc.budget_for(Scenario.mnist(), epsilon)
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
        code, out, _ = stream("".join([sent[0], *part]), "--policy", name, *more, nu=None)
        assert (code, out[0]) == (0, SELECTED)
        answered += [line.split(",") for line in out[1:]]
    del answered[3]
    delta = policy.delta if kind == "delta" else 1e-5
    for t, (number, eta, _, epsilon, largest, senders) in enumerate(answered):
        assert (int(number), float(eta)) == (t + (t > 2), found.eta[t])
        assert senders_of(senders) == (np.flatnonzero(found.senders[:, t]) + 1).tolist()
        part = found._replace(eta=found.eta[: t + 1], senders=found.senders[:, : t + 1])
        assert (float(epsilon), float(largest)) == pytest.approx(
            part.device_epsilons(RenyiAccountant(), delta), rel=1e-9
        )


class Own(Best):
    factor, other = 0.01, False

    def rounds(self, state, gain):
        state, eta, senders = super().rounds(state, gain)
        return state, self.factor * eta, senders ^ self.other


def test_choice_beyond_the_power_limit_or_changed_since_is_refused(tmp_path, monkeypatch):
    policy, path = Own(1), tmp_path / "s"
    with Stream(policy, SMALL, None, path) as found:
        assert found.answer([2e-12, 3e-12]).senders == (2,)
        monkeypatch.setattr(Own, "factor", 1.01)
        with pytest.raises(ValueError, match=r"Own returned eta = .* in round 1, expected 0 < eta <= "):
            found.answer([2e-12, 3e-12])
    monkeypatch.undo()
    monkeypatch.setattr(Own, "other", True)
    with pytest.raises(ValueError, match=r"round 0 was sent by the devices \(2,\), and the policy chooses"):
        Stream(policy, SMALL, None, path)
