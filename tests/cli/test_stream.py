"""``adascale stream``: an answer a round, one line for what is wrong, rounds that are skipped or sent again."""

import contextlib
import csv
import itertools
import os
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, policies
from adascale.accounting import order_grid
from adascale.channel import EmpiricalFloors, read_gains
from adascale.errors import InvalidFile
from adascale.policies import Best, Truncated
from adascale.streaming import Answer, Journal, SelectedAnswer, Stream

from .streams import GAINS, HEADER, NEW, NU, OWN, PAST, POLICIES, SMALL, WHOLE, lines, measured, rows


@pytest.mark.parametrize("kind", ["the default", "learn with a past", "estimfuture"])
def test_answers_are_the_decisions_of_the_policy(stream, kind):
    """The choice of the policy is that of ``adascale schedule``, and ``test_schedule.py`` has the others."""
    arguments, policy = POLICIES[kind]
    code, answered, said = stream(WHOLE, *arguments)
    assert (code, said) == (0, [NEW, "note: all 12 rounds are answered"])
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
@pytest.mark.parametrize("given", ["", "--delta 1e-3 --orders 1.05,200", "--interference -6"])
def test_epsilon_is_that_of_the_rounds_so_far(stream, given):
    found = rows(stream(WHOLE, *given.split())[1])
    how = {"delta": 1e-3, "orders": order_grid(200, 1.05)} if "--orders" in given else {"delta": 1e-5}
    scenario = replace(SMALL, privacy_noise_power=SMALL.noise_power * 10 ** -(0.6 if "-6" in given else 0.0))
    for n in range(1, 13):
        problem = ReceiveScalingProblem(scenario, read_gains("gains.csv", SMALL).min_gain[:n], NU)
        expected = problem.dp_epsilon(np.array([each.eta for each in found[:n]]), **how)
        assert found[n - 1].epsilon == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("gaps", ["hold", "floor"])
def test_missing_received_power_is_replaced_and_noted(stream, gaps):
    """Refused before there is one to hold; a state with another power is refused."""
    dbm = (20 + 10 * np.log10(GAINS)).tolist()
    sent, whole = ([["near", "far"], *([*map(repr, row)] for row in dbm)] for _ in range(2))
    sent[4][1], sent[5][1] = "", "nan"
    whole[4][1] = whole[5][1] = repr(dbm[2][1]) if gaps == "hold" else "-130.5"
    sent, whole = ("".join(",".join(row) + "\n" for row in rows) for rows in (sent, whole))
    how = ["--unit", "dbm", "--transmit-power", 20]
    filled = [*how, "--gaps", gaps, *(["--sensitivity", -130.5] if gaps == "floor" else [])]
    code, answered, said = stream(sent, *filled)
    assert (code, answered) == (0, stream(whole, *how, state="whole")[1])
    assert said[1] == f"note: standard input, line 5: '' in far: 1 of 2 values are missing, and replaced: {gaps}"
    code, answered, said = stream("near,far\n,-90\n", *filled, state="new")
    assert (code, len(answered)) == ((1, 2) if gaps == "hold" else (0, 2))
    assert ("line 2: expected a value, got '' in near; there is no earlier one" in "".join(said)) == (gaps == "hold")
    code, _, said = stream(sent, *filled, "--transmit-power", 21)
    assert code == 2
    assert "unit of gains is dbm of 20.0 sent there, and dbm of 21.0 sent here" in said[0]


BAD = [b"high,1e-12", b"1e-12", b"", b"nan,1e-12", b"\xff,1e-12", b'"\xc3\xa9 ""x""",1']  # others: test_gains.py


def split(answered):
    """The lines of output that are answers, and the rows of those that are errors."""
    good = [line for line in answered if not line.startswith("error,")]
    return good, list(csv.reader(line for line in answered if line not in good))


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_is_one_error_and_its_round_can_be_sent_again(stream, bad):
    sent = WHOLE.encode().splitlines(keepends=True)
    sent[4:4] = [bad + b"\n"] * 2
    code, answered, said = stream(b"".join(sent))
    assert (code, len(said), said[0]) == (0, 4, NEW)
    good, errors = split(answered)
    assert good == stream(WHOLE, state="plain")[1]
    assert answered[4:6] == [line for line in answered if line not in good]  # each in its line's place
    assert "".join(answered).isascii()
    for number, line, (word, again, reason) in zip((5, 6), said[1:3], errors, strict=True):
        assert reason.startswith(f"standard input, line {number}: ")
        assert (word, again) == ("error", "3")
        ascii_line = line.encode("ascii", "backslashreplace").decode()
        assert ascii_line == f"adascale stream: error: {reason}; round 3 is to be sent again"


UNANSWERED = {
    "all lines wrong": ("min_gain\nx\n0\n", ["0", "0"]),
    "the last line wrong": ("min_gain\n1e-12\nx\n", ["1"]),
    "a cut line": ("min_gain\n1e-12\n9.4e-1", ["1"]),
    "a cut skip": ("min_gain\nskip\nskip", ["1"]),
    "no row": ("min_gain\n", []),
    "an error made good": ("min_gain\nx\n1e-12\n", ["0"]),
    "a comment without a break": ("min_gain\n1e-12\n# the en", []),
}


@pytest.mark.parametrize("kind", UNANSWERED)
def test_a_stream_fails_if_its_last_line_has_no_answer(stream, kind):
    text, again = UNANSWERED[kind]
    code, answered, said = stream(text.encode())
    good, errors = split(answered)
    assert [each[:2] for each in errors] == [["error", number] for number in again]
    fails = bool(again) and "good" not in kind
    assert code == int(fails)
    assert ("has no answer" in said[-1] if said else False) == fails
    assert len(good) - 1 == text.count("1e-12") + ("skip\n" in text)


def test_a_gain_above_one_is_answered_and_noted_once(stream):
    code, answered, said = stream("h2_1,h2_2\n1e-10,1e-10\n1e-10,98.5\n70,98.5\n")
    assert (code, len(rows(answered))) == (0, 3)
    noted = [line for line in said if "more power received than sent" in line]
    assert len(noted) == 1
    assert noted[0].startswith("note: standard input, line 3: '98.5' in h2_2: ")


def test_a_policy_that_fails_in_a_round_is_named_and_goes_on(stream):
    sent = WHOLE.splitlines()
    sent[3:3] = ["1,1"]
    code, answered, said = stream("\n".join(sent), "--policy", "mine:Own")
    assert (code, len(said)) == (0, 3)
    assert "Own.step in mine.py, line 8: KeyError: 'too good'; round 2 is to be sent again" in said[1]
    assert split(answered)[0] == stream(WHOLE, "--policy", "mine:Own", state="plain")[1]
    code, answered, said = stream("\n".join(sent[:2]), "--policy", "mine:Wrong", state="wrong")
    assert (code, split(answered)[0]) == (1, [HEADER])
    assert "Wrong returned eta = " in said[0]


@pytest.mark.parametrize("arguments", [[], ["--policy", "estimfuture", *PAST], ["--policy", "mine:Own"]])
def test_a_skipped_round_has_eta_0_and_counts(stream, arguments):
    sent = WHOLE.splitlines()
    sent[3:3] = ["skip", " SKIP "]
    code, answered, said = stream("\n".join(sent), *arguments)
    found = rows(answered)
    assert (code, len(found), said) == (0, 12, [NEW, "note: all 12 rounds are answered"])
    assert found[2] == Answer(2, 0.0, np.inf, found[1].budget_left, found[1].epsilon)
    assert found[3] == found[2]._replace(round=3)
    if not arguments:  # the policy's own skip
        policy, etas = policies.Learn(), []
        state = policy.start(SMALL, NU)
        for gain in SMALL.min_gain(GAINS.T)[:10]:
            state = policy.skip(policy.skip(state)) if len(etas) == 2 else state
            state, eta = policy.step(state, gain)
            etas.append(float(eta))
        assert [each.eta for each in found[:2] + found[4:]] == etas


def test_the_last_round_with_its_number_is_answered_again(stream):
    numbered = ["round,h2_1,h2_2\n", *lines(GAINS, 1)]
    first = stream("".join([*numbered[:4], numbered[3]]))[1]
    assert first[-1] == first[-2]
    code, answered, said = stream("".join([numbered[0], *numbered[3:]]))
    assert (code, len(said)) == (0, 2)
    assert answered[1] == first[3]
    assert [HEADER, *first[1:4], *answered[2:]] == stream("".join(numbered), state="plain")[1]


def test_a_number_out_of_order_is_refused_after_a_start_too(stream):
    numbered = ["round,h2_1,h2_2\n", *lines(GAINS, 1)]
    stream("".join(numbered[:4]))
    for number in ("3", "5", "x", "3.5"):
        code, answered, said = stream(f"{numbered[0]}{number},1e-12,1e-12\n")
        assert (code, split(answered)[0], len(said)) == (1, [HEADER], 3)
        assert f"expected round {'a number' if number == 'x' else 4}" in said[1]


def test_a_first_number_names_round_0_or_1(stream):
    """Later numbers would be those of a state that was lost, whose rounds would be spent again."""
    for number, state in ((0, "zero"), (1, "one"), (2, "two"), (250, "late")):
        code, answered, said = stream(f"round,h2_1,h2_2\n{number},1e-12,1e-12\n", state=state)
        assert (code, len(answered)) == (int(number > 1), 2)
        assert (f"expected round 0 or 1, got {number}; round 0 is to be sent again" in "".join(said)) == (number > 1)


# The state: no answer without it, and none to what does not belong to it ----------------------------------------------

OTHER = {
    "scenario": ["--scenario", "other.toml"],
    "nu": ["--nu", 0.003],
    "delta": ["--delta", 1e-6],
    "orders": ["--orders", "64"],
    "policy": ["--policy", "equalalloc"],
    "budget_mode": ["--policy", "learn:budget_mode=hard"],
    "prior": PAST,
    "unit of gains": ["--unit", "db"],
}


def test_the_state_of_another_stream_is_refused(stream, place):
    stream("".join(WHOLE.splitlines(keepends=True)[:4]))
    before = (place / "s").read_bytes()
    for what, arguments in OTHER.items():
        code, answered, said = stream(WHOLE, *arguments)
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
    path, answers = kept(tmp_path)
    good, policy = path.read_bytes(), policies.Learn()
    ends = [i for i, byte in enumerate(good) if byte == ord("\n")][:-1]
    altered = [
        (good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :], good[:i].count(b"\n") + 1 if i > 15 else 5)
        for i in {*range(0, 15, 7), *range(16, len(good) - 1, 7), *ends}  # 15: of this digest or the one before
    ]
    whole = good.splitlines(keepends=True)
    for i in range(1, len(whole) - 1):
        altered += [(b"".join(whole[:i] + whole[i + 1 :]), i + 1), (b"".join([*whole[: i + 1], *whole[i:]]), i + 2)]
    cuts = {*range(0, len(good) - 1, 11), *ends, *(end + 1 for end in ends)}
    altered += [(good[:cut], max(good[:cut].count(b"\n") + (cut in ends), 1)) for cut in cuts]
    for data, line in altered:
        path.write_bytes(data)
        with pytest.raises(InvalidFile) as error:
            Stream(policy, SMALL, NU, path)
        assert (error.value.path, error.value.line) == (str(path), line)
        assert path.read_bytes() == data
    path.write_bytes(good)
    Stream(policy, SMALL, NU, path).close()  # the control
    path.write_bytes(good[:-1])  # the last line is whole: it is not known whether its answer was passed on
    with Stream(policy, SMALL, NU, path) as found:
        assert (found.pending, found.last) == (True, answers[-1])


def test_what_a_killed_append_leaves_is_dropped_or_whole(tmp_path):
    """At every byte of the line, and then of the mark at the file's start, which follows the line."""
    snapshots = []
    for rounds in range(1, 5):
        path, answers = kept(tmp_path, rounds)
        snapshots.append(path.read_bytes())
        path.unlink()
    for n, (before, after) in enumerate(itertools.pairwise(snapshots), start=1):
        line = after[len(before) : -1]
        torn = [(before + line[:i], n) for i in range(0, len(line), 13)] + [(before + line, n + 1)]
        torn += [(after[:i] + before[i:] + line, n + 1) for i in range(17)]
        for data, rounds in torn:
            path.write_bytes(data)
            with without_waiting(), Stream(policies.Learn(), SMALL, NU, path) as found:
                assert (found.round, found.pending) == (rounds, rounds > n)
                assert found.answer(SMALL.min_gain(GAINS.T)[n]) == answers[n]
                found.passed_on()
            assert path.read_bytes() == after


@pytest.mark.parametrize("path", ["s", "link"])
def test_a_heading_alone_is_used_with_a_note(stream, place, path):
    (place / "link").symlink_to("s")
    assert stream("min_gain\n", state=path)[:2] == (0, [HEADER])
    assert not (place / "s").exists()  # a heading without rounds is taken back, from where the link leads
    assert (place / "link").is_symlink()
    with Stream(policies.Learn(), SMALL, NU, "moved"):  # nor is another's in its place taken away
        (place / "moved").rename("elsewhere")
        (place / "moved").write_text("another's")
    assert (place / "moved").read_text() == "another's"
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        heading = (place / "s").read_bytes()
        found.answer(1e-12)
    (place / "s").write_bytes(heading)
    with pytest.warns(UserWarning, match=f"^{path} has a heading and nothing behind it"):
        assert len(stream("min_gain\n1e-12\n", state=path)[1]) == 2


def test_a_state_of_0_2_goes_on_with_a_note(stream, place):
    sent = WHOLE.splitlines(keepends=True)
    expected = stream(WHOLE, state="plain")[1]
    shutil.copy(Path(__file__).with_name("state_0_2.txt"), place / "s")  # written by 0.2: four rounds
    for unit, rest in (("db", []), ("linear", sent[5:])):
        with pytest.warns(UserWarning, match=rf"^s is a state of adascale 0.2: it has no unit of gains \({unit} now\)"):
            code, answered, _ = stream("".join([sent[0], *rest]), "--unit", unit)
        assert (code, answered[1:]) == (0, expected[5:] if rest else [])


def test_two_at_once_do_not_share_a_state(stream, place):
    with Stream(policies.Learn(), SMALL, NU, "s") as held:
        code, answered, said = stream(WHOLE)
        assert (code, answered, said) == (2, [], ["adascale stream: error: s is in use by another process"])
        assert held.answer(1e-12).round == 0
        os.link("s", "t")  # by another name
        assert stream(WHOLE, state="t")[2] == ["adascale stream: error: t is in use by another process"]
    assert len(stream(WHOLE)[1]) == 12


@pytest.mark.parametrize("rounds", [0, 3])
def test_without_a_state_on_the_disk_there_is_no_answer(stream, place, monkeypatch, rounds):
    sent = WHOLE.splitlines(keepends=True)
    stream("".join(sent[: rounds + 1]))

    def full(file):
        raise OSError(28, "No space left on device")

    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        code, answered, said = stream("".join([sent[0], *sent[rounds + 1 :]]))
    assert (code, answered) == (2, [HEADER] if rounds else [])
    assert said[-1] == "adascale stream: error: s: No space left on device"
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert len(stream("".join([sent[0], *sent[rounds + 1 :]]))[1]) == 13 - rounds


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


def test_what_a_server_in_python_was_answered_is_passed_on(tmp_path):
    path = tmp_path / "s"
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        assert [found.answer(1e-12).round for _ in range(3)] == [0, 1, 2]  # one gain in all rounds
    with contextlib.suppress(BrokenPipeError), Stream(policies.Learn(), SMALL, NU, path) as found:
        assert not found.pending
        assert found.answer(2e-12).round == 3
        raise BrokenPipeError
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        assert found.pending


def test_after_a_lost_answer_its_line_comes_again_and_a_new_one_needs_a_second(stream):
    """A state that is closed without passing an answer on is that of a killed process."""
    (header, *_, line), lost = WHOLE.splitlines(), Stream(policies.Learn(), SMALL, NU, "first")
    lost.answer(1e-12)
    lost.close()
    _, answered, said = stream("min_gain\n1e-12\n1e-12\n", state="first")
    assert [each.round for each in rows(answered)] == [0, 1]
    assert sum("if this line was a new round with the same gains, send it once more" in each for each in said) == 1
    lost = Stream(policies.Learn(), SMALL, NU, "s")
    last = [lost.answer(each) for each in SMALL.min_gain(GAINS.T)][-1].line()
    lost.close()
    assert len(stream(f"{header}\n")[1]) == 1
    assert stream(f"{header}\n{line}\n{line}\n")[1] == [HEADER, last]  # another line only ends it
    for _ in range(2):  # the horizon has ended, and every later start says so
        code, answered, said = stream(f"{header}\n{line}\nmore\n")
        assert (code, answered) == (0, [HEADER])
        ended = "note: all 12 rounds are answered"
        assert said == [f"note: s goes on with round 12; the last answer was {last}", ended]


def test_a_journal_holds_lines_of_any_text(tmp_path):
    found = Journal(tmp_path / "j", "a heading")
    found.append("ü, and blanks ")
    found.append("")
    found.close()
    found = Journal(tmp_path / "j", "another")
    assert (found.heading, found.lines) == ("a heading", ["ü, and blanks ", ""])
    found.close()
    Journal(tmp_path / "empty", "a heading").close()
    assert not (tmp_path / "empty").exists()


EVENTS = st.lists(st.sampled_from(["gain", "same", "skip", "bad", "again", "start", "killed"]), max_size=16)
SELECTING = [Truncated(1e-12), Best(1, 0.5)]


@given(EVENTS, st.integers(0, 2**32 - 1), st.sampled_from([*sorted(POLICIES), *SELECTING]))
def test_restarts_change_no_answer(events, seed, kind):
    past, measured_gains, policy, budget, gain = measured(40, 1), measured(20, seed), kind, None, [1e-12, 1e-12]
    if kind in POLICIES:
        law, mean = EmpiricalFloors.of(SMALL, SMALL.min_gain(past.T)), SMALL.mean_gain(1 / past.mean(axis=0))
        policy, measured_gains, budget, gain = POLICIES[kind][1](law, mean), SMALL.min_gain(measured_gains.T), NU, 1e-12
    gains, number, told = iter(measured_gains.tolist()), None, True
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack, without_waiting():
        one, many = (Stream(policy, SMALL, budget, Path(folder, name)) for name in ("one", "many"))
        stack.callback(one.close)
        for event in events:
            if event in ("start", "killed"):
                if event == "start" and not many.pending:
                    many.passed_on()
                    told = True
                many.close()
                many = Stream(policy, SMALL, budget, Path(folder, "many"))
                assert many.pending == (not told)
                if many.pending:  # nobody had the answer, and the line comes again
                    assert (many.skip() if number is None else many.answer(gain)) == one.last
                    many.passed_on()
                    told = True
            elif event == "again" and number is not None:
                assert many.answer(gain, number) == one.last
            elif event in ("bad", "again") or one.finished:
                with pytest.raises(ValueError, match=r"rounds of small are answered|(min_)?gain(_t)? must (be|have)"):
                    many.answer(np.nan)
            elif event == "skip":
                assert many.skip() == one.skip()
                number, told = None, False
            else:
                gain, number = gain if event == "same" else next(gains), float(one.round + 1)
                assert many.answer(gain, number) == one.answer(gain, number)
                told = False
        assert many.last == one.last
        for each in (one, many):
            with each:
                pass
        if one.round:
            assert isinstance(one.last, SelectedAnswer) == (policy in SELECTING)
            assert Path(folder, "one").read_bytes() == Path(folder, "many").read_bytes()
