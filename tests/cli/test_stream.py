"""``adascale stream``: an answer a round, none without its state, and no round lost or counted twice by any kill."""

import contextlib
import io
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, Scenario, policies
from adascale.accounting import order_grid
from adascale.channel import EmpiricalFloors, read_gains
from adascale.streaming import Answer, Journal, RunningEpsilon, Stream

from ..command import run

SMALL = Scenario("small", 2, 12, 1000, (20, 30), (400, 500), 1.0, 0.2, 1e-12)
LONG = replace(SMALL, num_rounds=120)
HEADER = "round,eta,noise_energy,budget_left,epsilon"
NU = 0.002


def measured(rounds, seed):
    return np.random.default_rng(seed).exponential([2e-12, 5e-12], (rounds, 2)) + 1e-13


def lines(gains, first=None):
    """The lines of a trace without its header, with numbers from ``first`` on."""
    numbers = [""] * len(gains) if first is None else [f"{t}," for t in range(first, first + len(gains))]
    return [f"{number}{a!r},{b!r}\n" for number, (a, b) in zip(numbers, gains.tolist(), strict=True)]


GAINS = measured(12, 0)
WHOLE = "".join(["h2_1,h2_2\n", *lines(GAINS)])
OWN = """
from collections import namedtuple
State = namedtuple("State", "scenario rounds")
class Own:
    def start(self, scenario, budget): return State(scenario, 0)
    def step(self, state, min_gain_t):
        if min_gain_t > 1e-9:
            raise KeyError("too good")
        cap = state.scenario.x_max * min_gain_t
        return State(state.scenario, state.rounds + 1), cap / (2 + state.rounds)
    def skip(self, state): return State(state.scenario, state.rounds + 1)
class Wrong(Own):
    def step(self, state, min_gain_t): return state, 2 * state.scenario.x_max * min_gain_t
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with scenarios and traces, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


def write_inputs(folder):
    for scenario, name in ((SMALL, "my.toml"), (LONG, "long.toml"), (replace(SMALL, order=4), "other.toml")):
        (folder / name).write_text(scenario.to_toml())
    (folder / "mine.py").write_text(OWN)
    (folder / "gains.csv").write_text(WHOLE)
    (folder / "past.csv").write_text("".join(["h2_1,h2_2\n", *lines(measured(40, 1))]))


@pytest.fixture
def stream(place, monkeypatch, capsys):
    """The command with a text as its standard input: exit code, lines answered, lines said."""

    def call(text, *arguments, state="s", scenario="my.toml"):
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = run("stream", "--scenario", scenario, "--nu", NU, "--state", state, *arguments)
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err.splitlines()

    return call


def rows(answered):
    assert answered[0] == HEADER
    return [Answer(int(first), *map(float, rest)) for first, *rest in (line.split(",") for line in answered[1:])]


# What it answers -----------------------------------------------------------------------------------------------------

PAST = ["--past", "past.csv"]
POLICIES = {
    "the default": ([], lambda *_: policies.Learn()),
    "learn, hard": (["--policy", "learn", "--promise", "hard"], lambda *_: policies.Learn(promise="hard")),
    "learn with a past": (PAST, lambda law, _: policies.Learn(prior=law)),
    "resolve": (["--policy", "resolve", *PAST], lambda law, _: policies.ReSolve(law=law)),
    "constantlevel": (["--policy", "constantlevel", *PAST], lambda law, _: policies.ConstantLevel(law=law)),
    "adascale": (["--policy", "adascale", *PAST], lambda law, _: policies.AdaScale.from_law(SMALL, NU, law=law)),
    "adascale with V": (["--penalty", 0.5], lambda *_: policies.AdaScale(0.5)),
    "estimfuture": (["--policy", "estimfuture", *PAST], lambda _, mean: policies.EstimFuture(mean)),
    "equalalloc": (["--policy", "equalalloc"], lambda *_: policies.EqualAlloc()),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_it_answers_what_the_policy_decides_and_counts_what_it_costs_and_leaks(stream, kind):
    arguments, policy = POLICIES[kind]
    code, answered, said = stream(WHOLE, *arguments)
    assert (code, said) == (0, ["note: all 12 rounds are answered"])
    found = rows(answered)
    past = read_gains("past.csv", SMALL)
    problem = ReceiveScalingProblem(SMALL, read_gains("gains.csv", SMALL).min_gain, NU)
    eta = policy(EmpiricalFloors.of(SMALL, past.min_gain), past.mean_gain).schedule(problem)
    assert [each.round for each in found] == list(range(12))
    # 1e-12: the compiled horizon against its rounds one by one
    np.testing.assert_allclose([each.eta for each in found], eta, rtol=1e-12)
    np.testing.assert_allclose([each.noise_energy for each in found], problem.noise_energy(eta), rtol=1e-12)
    left = 12 * NU - np.cumsum(problem.spend(eta))
    np.testing.assert_allclose([each.budget_left for each in found], left, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")  # of a few rounds
@pytest.mark.parametrize(("arguments", "delta", "orders"), [([], 1e-5, None), (
    ["--delta", 1e-3, "--orders", "1.05,200"], 1e-3, order_grid(200, 1.05))])  # fmt: skip
def test_epsilon_is_that_of_the_rounds_so_far(stream, arguments, delta, orders):
    found = rows(stream(WHOLE, *arguments)[1])
    for n in range(1, 13):
        problem = ReceiveScalingProblem(SMALL, read_gains("gains.csv", SMALL).min_gain[:n], NU)
        eta = np.array([each.eta for each in found[:n]])
        expected = problem.dp_epsilon(eta, delta, **({} if orders is None else {"orders": orders}))
        assert found[n - 1].epsilon == pytest.approx(float(expected), rel=1e-9)


def test_epsilon_of_a_paper_s_scenario_is_that_of_the_whole_schedule():
    mnist, energy = Scenario.mnist(), np.random.default_rng(0).uniform(0.03, 0.3, 60)
    running = RunningEpsilon(mnist)
    moments = running.start()
    for each in energy:
        moments = running.add(moments, each)
    problem = ReceiveScalingProblem(mnist, np.full(60, 1e-9), 1)
    assert running.epsilon(moments) == pytest.approx(float(problem.dp_epsilon(mnist.noise_scale / energy)), rel=1e-9)
    assert not running.at_end(moments)
    assert running.at_end(running.add(running.start(), 1e3))


FORMS = {
    "decibels": (["--unit", "db"], [f"{10 * math.log10(a)},{10 * math.log10(b)}" for a, b in GAINS.tolist()],
                 "h2_1,h2_2"),
    "complex": ([], [f"{math.sqrt(a)}+0j,{math.sqrt(b)}i" for a, b in GAINS.tolist()], "h_1,h_2"),
    "the minimum": ([], [repr(each) for each in SMALL.min_gain(GAINS.T).tolist()], "min_gain"),
    "columns in another order": ([], [f"{b!r};{t};{a!r}" for t, (a, b) in enumerate(GAINS.tolist())],
                                 "h2_2;round;h2_1"),
    "carriage returns": ([], [f"{a!r},{b!r}\r" for a, b in GAINS.tolist()], "h2_1,h2_2\r"),
    "decimal commas": ([], [f"{a!r};{b!r}".replace(".", ",") for a, b in GAINS.tolist()], "h2_1;h2_2"),
    "comments": ([], [f"# here\n{a!r},{b!r}" for a, b in GAINS.tolist()], "# there\n\nh2_1,h2_2"),
    "rounds from one": ([], [f"{t},{a!r},{b!r}" for t, (a, b) in enumerate(GAINS.tolist(), 1)], "round,h2_1,h2_2"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_gains_come_in_the_forms_of_a_trace(stream, form):
    arguments, sent, header = FORMS[form]
    code, answered, _ = stream("\n".join([header, *sent]), *arguments)
    assert code == 0
    # 1e-9: of a decibel's or a root's digits, what the epsilon is worth
    np.testing.assert_allclose(rows(answered), rows(stream(WHOLE, state="plain")[1]), rtol=1e-9, atol=1e-12)


# What is wrong -------------------------------------------------------------------------------------------------------

BAD = {
    "a word": ("high,1e-12", "expected a number, got 'high' in h2_1"),
    "a field too few": ("1e-12", "expected 2 fields, got 1"),
    "nothing": ("", "blank"),
    "zero": ("0,1e-12", "expected a gain that is finite and > 0, got '0'"),
    "negative": ("1e-12,-1", "got '-1' in h2_2; a gain in dB needs the unit db"),
    "not a number": ("nan,1e-12", "got 'nan'"),
    "infinite": ("inf,1e-12", "got 'inf'"),
    "beyond floating point": ("1e-320,1e-320", "beyond floating point"),
    "another encoding": (b"\xff,1e-12", "no UTF-8 text"),
    "a zero byte": ("1e-12,\0", "expected a number"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_one_clear_error_and_the_round_can_be_sent_again(stream, kind):
    bad, expected = BAD[kind]
    sent = WHOLE.encode().splitlines()
    sent[4:4] = [bad if isinstance(bad, bytes) else bad.encode()] * 2
    code, answered, said = stream(b"\n".join(sent))
    assert code == 0
    assert len(said) == 3
    for number, line in zip((5, 6), said[:2], strict=True):
        assert line.startswith(f"adascale stream: error: standard input, line {number}: ")
        assert expected in line
        assert line.endswith("; round 3 is to be sent again")
    assert answered == stream(WHOLE, state="plain")[1]


def test_a_gain_above_one_is_answered_and_noted_once_with_its_line(stream):
    code, answered, said = stream("h2_1,h2_2\n1e-10,1e-10\n1e-10,98.5\n70,98.5\n")
    assert (code, len(rows(answered))) == (0, 3)
    noted = [line for line in said if "more power received than sent" in line]
    assert noted == [
        "note: standard input, line 3: '98.5' in h2_2: more power received than sent; gains in dB need --unit db"
    ]


def test_a_policy_that_fails_in_a_round_is_named_and_goes_on(stream):
    sent = WHOLE.splitlines()
    sent[3:3] = ["1,1"]
    code, answered, said = stream("\n".join(sent), "--policy", "mine:Own")
    assert (code, len(said)) == (0, 2)
    assert "Own.step in mine.py, line 8: KeyError: 'too good'; round 2 is to be sent again" in said[0]
    assert answered == stream(WHOLE, "--policy", "mine:Own", state="plain")[1]
    code, answered, said = stream("\n".join(sent[:2]), "--policy", "mine:Wrong", state="wrong")
    assert (code, answered) == (0, [HEADER])
    assert "Wrong returned eta = " in said[0]


REFUSED = {
    "no input": ("", [], "standard input is empty"),
    "a bad header": ("gain\n1\n", [], "line 1: got column 'gain'; expected min_gain"),
    "no header": ("1e-12,2e-12\n", [], "line 1: got column '1e-12'"),
    "skip for a header": ("skip\n", [], "line 1: got column 'skip'"),
    "a policy that sees all": (WHOLE, ["--policy", "optimal"], "Optimal sees all rounds at once"),
    "a policy without its law": (WHOLE, ["--policy", "resolve"], "give it as --past"),
    "hindsight": (WHOLE, ["--hindsight"], "unrecognized arguments: --hindsight"),
    "nu": (WHOLE, ["--nu", 0], "nu must be finite and > 0"),
    "delta": (WHOLE, ["--delta", 1], "delta must be"),
    "a folder for a state": (WHOLE, ["--state", "."], "it is a folder"),
    "the past for a state": (WHOLE, [*PAST, "--state", "past.csv"], "is the file of --past"),
    "the scenario for a state": (WHOLE, ["--state", "my.toml"], "is the file of --scenario"),
    "another file for a state": (WHOLE, ["--state", "mine.py"], "mine.py is no journal: line 1"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_begun_is_one_line_and_leaves_nothing(stream, place, kind):
    text, arguments, expected = REFUSED[kind]
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    code, answered, said = stream(text, *arguments)
    assert (code, len(said)) == (2, 1)
    assert expected in said[0]
    assert answered in ([], [HEADER])
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def test_a_closed_input_is_named(place, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert run("stream", "--scenario", "my.toml", "--nu", NU, "--state", "s") == 2
    assert "standard input is closed" in capsys.readouterr().err
    assert not (place / "s").exists()


# Rounds that are skipped, the end of the horizon, the last round sent again -----------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--policy", "estimfuture", *PAST], ["--policy", "mine:Own"]])
def test_a_round_that_is_skipped_has_eta_0_and_counts_towards_the_horizon(stream, arguments):
    sent = WHOLE.splitlines()
    sent[3:3] = ["skip", " SKIP "]
    code, answered, said = stream("\n".join(sent), *arguments)
    found = rows(answered)
    assert (code, len(found), said) == (0, 12, ["note: all 12 rounds are answered"])
    assert found[2] == Answer(2, 0.0, np.inf, found[1].budget_left, found[1].epsilon)
    assert found[3] == found[2]._replace(round=3)
    assert all(each.eta > 0 for each in found[:2] + found[4:])


def test_what_is_skipped_at_first_has_leaked_nothing(stream):
    assert rows(stream("min_gain\nskip\n")[1]) == [Answer(0, 0.0, np.inf, 12 * NU, 0.0)]


def test_the_policy_s_own_skip_is_used():
    with tempfile.TemporaryDirectory() as folder, Stream(policies.Learn(), SMALL, NU, Path(folder, "s")) as found:
        gains = SMALL.min_gain(GAINS.T)
        first, _, third = found.answer(gains[0]), found.skip(), found.answer(gains[1])
    state, eta = policies.Learn().step(policies.Learn().start(SMALL, NU), gains[0])
    assert first.eta == eta
    assert third.eta == policies.Learn().step(policies.Learn().skip(state), gains[1])[1]


def test_the_horizon_ends_and_every_later_start_says_so(stream):
    answered = stream(WHOLE + "more\n")[1]
    assert len(answered) == 13
    for _ in range(2):
        code, again, said = stream(WHOLE)
        assert (code, again) == (0, [HEADER])
        assert said == [f"note: s goes on with round 12; the last answer was {answered[-1]}",
                        "note: all 12 rounds are answered"]  # fmt: skip


def test_an_epsilon_that_more_orders_may_lower_is_noted_at_the_end(stream, place):
    (place / "short.toml").write_text(replace(SMALL, num_rounds=1).to_toml())
    text = "min_gain\n1e-15\n"
    assert "--orders" in stream(text, scenario="short.toml")[2][-1]
    assert len(stream(text, "--orders", "1.01,100000", scenario="short.toml", state="more")[2]) == 1


def test_the_last_round_sent_again_with_its_number_is_answered_again(stream):
    numbered = ["round,h2_1,h2_2\n", *lines(GAINS, 5)]
    first = stream("".join([*numbered[:4], numbered[3]]))[1]
    assert first[-1] == first[-2]
    code, answered, said = stream("".join([numbered[0], *numbered[3:]]))
    assert (code, len(said)) == (0, 2)
    assert answered[1] == first[3]
    assert [HEADER, *first[1:4], *answered[2:]] == stream("".join(numbered), state="plain")[1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [("7,1e-12,1e-12", "expected round 8, got 7"), ("9,1e-12,1e-12", "expected round 8, got 9"),
     ("x,1e-12,1e-12", "expected round a number"), ("7.5,1e-12,1e-12", "expected round 8, got 7.5")],
)  # fmt: skip
def test_a_number_out_of_order_is_refused_after_a_start_too(stream, line, expected):
    numbered = ["round,h2_1,h2_2\n", *lines(GAINS, 5)]
    stream("".join(numbered[:4]))
    for _ in range(2):
        code, answered, said = stream(f"{numbered[0]}{line}\n")
        assert (code, answered, len(said)) == (0, [HEADER], 2)
        assert expected in said[1]


# The state -----------------------------------------------------------------------------------------------------------

OTHER = {
    "scenario": ["--scenario", "other.toml"],
    "nu": ["--nu", 0.003],
    "delta": ["--delta", 1e-6],
    "orders": ["--orders", "64"],
    "policy": ["--policy", "equalalloc"],
    "promise": ["--promise", "hard"],
    "prior": PAST,
}


@pytest.mark.parametrize("what", OTHER)
def test_the_state_of_another_stream_is_refused(stream, place, what):
    stream("".join(WHOLE.splitlines(keepends=True)[:4]))
    before = (place / "s").read_bytes()
    code, answered, said = stream(WHOLE, *OTHER[what])
    assert (code, answered, len(said)) == (2, [], 1)
    assert f"s is the state of another stream: {what} is " in said[0]
    assert (place / "s").read_bytes() == before


def test_a_policy_that_decides_otherwise_now_is_refused(stream, place):
    stream("".join(WHOLE.splitlines(keepends=True)[:4]), "--policy", "mine:Own")
    sys.modules.pop("mine")
    shutil.rmtree(place / "__pycache__", ignore_errors=True)  # else taken for this file's: same second and size
    (place / "mine.py").write_text(OWN.replace("2 + state", "3 + state"))
    code, answered, said = stream(WHOLE, "--policy", "mine:Own")
    assert (code, answered, len(said)) == (2, [], 1)
    assert re.search("s: round 0 was answered eta = .*, and the policy decides .* now", said[0])


def kept(folder, rounds=4):
    """The state of a few rounds, and its answers."""
    path = Path(folder, "s")
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        return path, [found.answer(each) for each in SMALL.min_gain(GAINS.T)[:rounds]]


@contextlib.contextmanager
def without_waiting():
    """Where nothing is killed, nobody has to wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


def test_any_change_of_the_state_is_refused_with_its_line(tmp_path):
    path, _ = kept(tmp_path)
    good = path.read_bytes()
    ends = [i for i, byte in enumerate(good) if byte == ord("\n")]
    altered = [(good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :], good[:i].count(b"\n") + 1)
               for i in {*range(0, len(good) - 1, 3), *ends[:-1]}]  # fmt: skip
    whole = good.splitlines(keepends=True)
    for i in range(1, len(whole) - 1):
        altered += [(b"".join(whole[:i] + whole[i + 1 :]), i + 1), (b"".join([*whole[: i + 1], *whole[i:]]), i + 2)]
    for data, line in altered:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"s is (damaged|no journal): line {line} is not as it was written"):
            Stream(policies.Learn(), SMALL, NU, path)
        assert path.read_bytes() == data
    path.write_bytes(good)
    Stream(policies.Learn(), SMALL, NU, path).close()  # the control


def test_a_torn_last_line_is_dropped_and_the_round_comes_again(tmp_path):
    path, answers = kept(tmp_path)
    good = path.read_bytes()
    for cut in [*range(0, len(good), 11), good[:-1].rindex(b"\n"), len(good) - 1]:
        path.write_bytes(good[:cut])
        with Stream(policies.Learn(), SMALL, NU, path) as found:
            n = max(good[:cut].count(b"\n") - 1, 0) + (good[cut] == ord("\n"))
            assert (found.round, found.pending) == (n, good[cut] == ord("\n"))
            with without_waiting():
                assert [found.answer(each) for each in SMALL.min_gain(GAINS.T)[n:4]] == answers[n:]
                found.passed_on()
        assert path.read_bytes() == good


def test_two_at_once_do_not_share_a_state(stream, place):
    with Stream(policies.Learn(), SMALL, NU, "s") as held:
        code, answered, said = stream(WHOLE)
        assert (code, answered, said) == (2, [], ["adascale stream: error: s is in use by another process"])
        assert held.answer(1e-12).round == 0
    assert len(stream(WHOLE)[1]) == 12


@pytest.mark.parametrize("moment", ["at first", "later"])
def test_without_a_state_on_the_disk_there_is_no_answer(stream, place, monkeypatch, moment):
    begun = "".join(WHOLE.splitlines(keepends=True)[:4])
    if moment == "later":
        stream(begun)
    before = (place / "s").read_bytes() if moment == "later" else None

    def full(file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        code, answered, said = stream(begun)
    assert code == 2
    assert answered == ([HEADER] if moment == "later" else [])
    assert said[-1] == "adascale stream: error: s: No space left on device"
    assert before == ((place / "s").read_bytes() if (place / "s").exists() else None)
    rest = begun if moment == "at first" else "".join([begun.splitlines(keepends=True)[0], *lines(GAINS[3:6])])
    assert len(stream(rest)[1]) == 4


@pytest.mark.parametrize("what", ["removed", "replaced", "changed"])
def test_a_state_that_is_taken_away_under_way_is_no_state(tmp_path, what):
    path = tmp_path / "s"
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        found.answer(1e-12)
        data = path.read_bytes()
        if what == "changed":
            path.write_bytes(data + b"x")
        else:
            path.unlink()
            if what == "replaced":
                path.write_bytes(data)
        with pytest.raises(OSError, match=r"s was (removed or replaced|changed) by another process"):
            found.answer(1e-12)
        assert found.round == 1


def test_a_read_only_place_is_named(stream, place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as the system answers who is not root
    assert "--state 's' cannot be written: the folder" in stream(WHOLE)[2][0]


def test_what_a_server_in_python_was_answered_is_passed_on(tmp_path):
    path = tmp_path / "s"
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        first = [found.answer(1e-12) for _ in range(3)]  # one gain in all rounds
        assert [each.round for each in first] == [0, 1, 2]
    for ends in (True, False):
        found = Stream(policies.Learn(), SMALL, NU, path)
        assert (found.pending, found.round) == (not ends, 3 if ends else 4)
        assert found.answer(1e-12).round == 3
        found.close()  # without a word
    with contextlib.suppress(BrokenPipeError), Stream(policies.Learn(), SMALL, NU, path) as found:
        assert found.answer(2e-12).round == 4
        raise BrokenPipeError
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        assert found.pending


def test_after_a_lost_last_answer_another_line_only_ends_it(stream):
    with Stream(policies.Learn(), SMALL, NU, "s") as found:
        answers = [found.answer(each) for each in read_gains("gains.csv", SMALL).min_gain[:11]]
    found = Stream(policies.Learn(), SMALL, NU, "s")
    answers.append(found.answer(read_gains("gains.csv", SMALL).min_gain[11]))
    found.close()
    header, last = WHOLE.splitlines()[0], WHOLE.splitlines()[-1]
    assert len(stream(f"{header}\n")[1]) == 1
    assert stream(f"{header}\n{last}\n{last}\n")[1] == [HEADER, answers[-1].line()]
    assert stream(f"{header}\n{last}\n")[1] == [HEADER]


def test_a_journal_holds_lines_of_any_text(tmp_path):
    with Journal(tmp_path / "j", "a heading") as found:
        found.append("ü, and blanks ")
        found.append("")
    with Journal(tmp_path / "j", "another") as found:
        assert (found.heading, found.lines) == ("a heading", ["ü, and blanks ", ""])
    with Journal(tmp_path / "empty", "a heading"):
        pass
    assert not (tmp_path / "empty").exists()


EVENTS = st.lists(st.sampled_from(["gain", "same", "skip", "bad", "again", "start", "killed"]), max_size=16)


@given(EVENTS, st.integers(0, 2**32 - 1), st.sampled_from(sorted(POLICIES)))
def test_however_often_it_is_begun_anew_the_answers_are_those_of_one_stream(events, seed, kind):
    past = measured(40, 1)
    law, mean = EmpiricalFloors.of(SMALL, SMALL.min_gain(past.T)), SMALL.mean_gain(1 / past.mean(axis=0))
    policy = POLICIES[kind][1](law, mean)
    gains = iter(SMALL.min_gain(measured(20, seed).T).tolist())
    gain, number, told = 1e-12, None, True
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack, without_waiting():
        one, many = (Stream(policy, SMALL, NU, Path(folder, name)) for name in ("one", "many"))
        stack.callback(one.close)
        for event in events:
            if event in ("start", "killed"):
                if event == "start" and not many.pending:
                    many.passed_on()
                    told = True
                many.close()
                many = Stream(policy, SMALL, NU, Path(folder, "many"))
                assert many.pending == (not told)
                if many.pending:  # nobody had the answer, and the line comes again
                    assert (many.skip() if number is None else many.answer(gain)) == one.last
                    many.passed_on()
                    told = True
            elif event == "again" and number is not None:
                assert many.answer(gain, number) == one.last
            elif event in ("bad", "again") or one.finished:
                with pytest.raises(ValueError, match=r"rounds of small are answered|min_gain_t must be"):
                    many.answer(np.nan)
            elif event == "skip":
                assert many.skip() == one.skip()
                number, told = None, False
            else:
                gain, number = gain if event == "same" else next(gains), float(one.round + 3)
                assert many.answer(gain, number) == one.answer(gain, number)
                told = False
        assert many.last == one.last
        for each in (one, many):
            with each:
                pass
        if one.round:
            assert Path(folder, "one").read_bytes() == Path(folder, "many").read_bytes()


# Killed --------------------------------------------------------------------------------------------------------------


class Forks:
    """The process of ``forks.py``."""

    def __init__(self):
        self.here, there = socket.socketpair()
        script = Path(__file__).with_name("forks.py")
        self.process = subprocess.Popen([sys.executable, script, str(there.fileno())], pass_fds=[there.fileno()])
        there.close()
        assert self.here.recv(10) == b"ready"

    def start(self, folder, arguments, sent, **fault):
        """A run that reads these lines and writes ``out`` and ``err`` in the folder: its process id."""
        (folder / "in").write_text("".join(sent))
        with open(folder / "in") as read, open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            task = {"folder": str(folder), "arguments": [str(each) for each in arguments]} | fault
            socket.send_fds(self.here, [json.dumps(task).encode()], [each.fileno() for each in (read, out, err)])
        return int(self.here.recv(100))

    def wait(self, pid):
        self.here.send(json.dumps({"wait": pid}).encode())
        return int(self.here.recv(100))

    def close(self):
        self.here.close()
        self.process.wait()


@pytest.fixture(scope="module")
def forks():
    found = Forks()
    yield found
    found.close()


ALWAYS = ["stream", "--nu", NU, "--scenario", "long.toml"]


@pytest.fixture(scope="module")
def unkilled(forks, tmp_path_factory):
    """The lines that are sent, and what a run that nothing disturbed answers."""
    folder = tmp_path_factory.mktemp("unkilled")
    write_inputs(folder)
    sent = ["h2_1,h2_2\n", *lines(measured(LONG.num_rounds, 7))]
    assert forks.wait(forks.start(folder, [*ALWAYS, "--state", "s"], sent)) == 0
    return sent, (folder / "out").read_text().splitlines(), (folder / "s").read_bytes()


def test_killed_twenty_times_at_any_moment_the_joined_answers_are_those_of_one_run(forks, unkilled, tmp_path):
    sent, expected, state = unkilled
    write_inputs(tmp_path)
    rng, joined, kills, reached, most = random.Random(3), [HEADER], 0, {1}, 0.05
    while True:
        pid = forks.start(tmp_path, [*ALWAYS, "--state", "s"], [sent[0], *sent[len(joined) :]])
        if kills < 20:
            time.sleep(rng.uniform(0, most))
            os.kill(pid, signal.SIGKILL)
            assert forks.wait(pid) in (-signal.SIGKILL, 0)
            kills += 1
        else:
            assert forks.wait(pid) == 0
        joined += (tmp_path / "out").read_text().splitlines()[1:]
        most *= 0.8 if len(joined) > max(reached) else 1.3  # however fast this machine is
        reached.add(len(joined))
        if kills == 20 and len(joined) == len(expected):
            break
    assert joined == expected
    assert (tmp_path / "s").read_bytes() == state
    assert len(reached) > 3  # the control: the kills came at different rounds


MOMENTS = ["before the line", "in the line", "behind the line", "on the disk", "answered"]


@pytest.mark.parametrize(("moment", "number"), [(each, n) for n in (1, 2, 5) for each in MOMENTS[: 4 + (n > 1)]])
def test_killed_at_each_moment_of_a_write_no_round_is_lost_or_counted_twice(forks, unkilled, tmp_path, moment, number):
    sent, expected, _ = unkilled
    write_inputs(tmp_path)
    arguments = [*ALWAYS, "--state", "s"]
    assert forks.wait(forks.start(tmp_path, arguments, sent[:9], dies=(moment, number))) == -signal.SIGKILL
    before = (tmp_path / "out").read_text().splitlines() or [HEADER]
    if moment == "answered" and number > 1:
        assert len(before) == number
    else:
        assert len(before) == max(number - 1, 1)  # the first line written is the heading
    counted = moment in ("behind the line", "on the disk", "answered") and number > 1
    assert forks.wait(forks.start(tmp_path, arguments, [sent[0], *sent[len(before) : 9]])) == 0
    assert before + (tmp_path / "out").read_text().splitlines()[1:] == expected[:9]
    said = (tmp_path / "err").read_text()
    if counted:  # an answer that may have been lost is told, and its line brings it back
        assert said == (f"note: s goes on with round {number - 1}, or {number - 2} if its line comes again; "
                        f"the last answer was {expected[number - 1]}\n")  # fmt: skip
    else:
        assert (f"goes on with round {number - 2}" in said) == (number > 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_it_says_how_to_go_on(forks, tmp_path, number):
    write_inputs(tmp_path)
    os.mkfifo(tmp_path / "never")
    held = os.open(tmp_path / "never", os.O_RDWR)
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        task = {"folder": str(tmp_path), "arguments": [*map(str, ALWAYS), "--state", "s"]}
        socket.send_fds(forks.here, [json.dumps(task).encode()], [held, out.fileno(), err.fileno()])
    pid = int(forks.here.recv(100))
    os.write(held, "".join(["h2_1,h2_2\n", *lines(GAINS[:2])]).encode())
    until = time.monotonic() + 20
    while len((tmp_path / "out").read_text().splitlines()) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(pid, number)
    assert forks.wait(pid) == 128 + number
    os.close(held)
    assert (tmp_path / "err").read_text() == "adascale stream: stopped; the same command goes on from what s holds\n"


def test_a_disk_that_fills_up_under_way_ends_it_before_the_answer(forks, unkilled, tmp_path):
    sent, expected, state = unkilled
    write_inputs(tmp_path)
    arguments = [*ALWAYS, "--state", "s"]
    assert forks.wait(forks.start(tmp_path, arguments, sent[:9], largest=1000)) == 2
    answered = (tmp_path / "out").read_text().splitlines()
    assert (tmp_path / "err").read_text() == "adascale stream: error: s: File too large\n"
    assert 1 < len(answered) < 9
    assert (tmp_path / "s").read_bytes() == b"".join(state.splitlines(keepends=True)[: len(answered)])
    assert answered == expected[: len(answered)]


def test_each_answer_is_there_before_the_next_line_is_sent(place):
    """A driver that sends a line and waits for its answer, in a process of its own."""
    command = [sys.executable, "-m", "adascale", *map(str, ALWAYS), "--state", "s"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == f"{HEADER}\n"  # before anything is sent
        process.stdin.write("h2_1,h2_2\n")
        for t, line in enumerate(lines(GAINS)):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().startswith(f"{t},")
        process.stdin.close()
        assert process.wait() == 0
