"""``adascale stream --state``: no answer without the state, and none to what does not belong to it."""

import contextlib
import itertools
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import policies
from adascale.channel import EmpiricalFloors
from adascale.errors import InvalidFile
from adascale.policies import Best, Truncated
from adascale.streaming import Journal, SelectedAnswer, Stream

from .streams import (
    GAINS,
    HEADER,
    NU,
    OWN,
    PAST,
    POLICIES,
    SMALL,
    WHOLE,
    measured,
    rows,
)

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
    shutil.rmtree(
        place / "__pycache__", ignore_errors=True
    )  # else taken for this file's: same second and size
    (place / "mine.py").write_text(OWN.replace("2 + state", "3 + state"))
    code, answered, said = stream(WHOLE, "--policy", "mine:Own")
    assert (code, answered, len(said)) == (2, [], 1)
    assert re.search(
        "s: round 0 was answered eta = .*, and the policy decides .* now", said[0]
    )


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
    altered = [
        (
            good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :],
            good[:i].count(b"\n") + 1 if i > 7 else 5,
        )
        for i in {0, 3, *range(8, len(good) - 1, 7)}
    ]
    whole = good.splitlines(keepends=True)
    for i in range(1, len(whole) - 1):
        altered += [
            (b"".join(whole[:i] + whole[i + 1 :]), i + 1),
            (b"".join([*whole[: i + 1], *whole[i:]]), i + 2),
        ]
    ends = [i for i, byte in enumerate(good) if byte == ord("\n")]
    cuts = {*range(0, len(good) - 1, 11), *ends, *(end + 1 for end in ends[:-1])}
    altered += [(good[:cut], max(good[:cut].count(b"\n"), 1)) for cut in cuts]
    for data, line in altered:
        path.write_bytes(data)
        with pytest.raises(InvalidFile) as error:
            Stream(policy, SMALL, NU, path)
        assert (error.value.path, error.value.line) == (str(path), line)
        assert path.read_bytes() == data
    path.write_bytes(good)
    with Stream(policy, SMALL, NU, path) as found:  # the control
        assert (found.pending, found.last) == (False, answers[-1])


def test_what_a_killed_append_leaves_is_dropped_or_whole(tmp_path):
    """At every byte of the line, and then of the mark at the file's start, which follows the line."""
    snapshots = []
    for rounds in range(1, 5):
        path, answers = kept(tmp_path, rounds)
        snapshots.append(path.read_bytes())
        path.unlink()
    for n, (before, after) in enumerate(itertools.pairwise(snapshots), start=1):
        line = after[len(before) : -2] + b"?\n"  # not passed on yet
        torn = [
            (before + line[:i], n) for i in [*range(0, len(line), 13), len(line) - 1]
        ] + [(before + line, n + 1)]
        torn += [(after[:i] + before[i:] + line, n + 1) for i in range(9)]
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
    assert not (
        place / "s"
    ).exists()  # a heading without rounds is taken back, from where the link leads
    assert (place / "link").is_symlink()
    with Stream(
        policies.Learn(), SMALL, NU, "moved"
    ):  # nor is another's in its place taken away
        (place / "moved").rename("elsewhere")
        (place / "moved").write_text("another's")
    assert (place / "moved").read_text() == "another's"
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        heading = (place / "s").read_bytes()
        found.answer(1e-12)
    (place / "s").write_bytes(heading)
    with pytest.warns(
        UserWarning, match=f"^{path} has a heading and nothing behind it"
    ):
        assert len(stream("min_gain\n1e-12\n", state=path)[1]) == 2


def test_two_at_once_do_not_share_a_state(stream, place):
    with Stream(policies.Learn(), SMALL, NU, "s") as held:
        code, answered, said = stream(WHOLE)
        assert (code, answered, len(said)) == (2, [], 1)
        assert "s is in use by another process or stream" in said[0]
        assert held.answer(1e-12).round == 0
        os.link("s", "t")  # by another name
        assert (
            "t is in use by another process or stream" in stream(WHOLE, state="t")[2][0]
        )
    assert len(stream(WHOLE)[1]) == 12


@pytest.mark.parametrize("rounds", [0, 3])
def test_without_a_state_on_the_disk_there_is_no_answer(
    stream, place, monkeypatch, rounds
):
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
        with pytest.raises(
            OSError, match=r"s was (removed or replaced|changed) by another process"
        ):
            found.answer(1e-12)
        assert found.round == 1


def test_what_a_server_in_python_was_answered_is_passed_on(tmp_path):
    path = tmp_path / "s"
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        assert [found.answer(1e-12).round for _ in range(3)] == [
            0,
            1,
            2,
        ]  # one gain in all rounds
    with (
        contextlib.suppress(BrokenPipeError),
        Stream(policies.Learn(), SMALL, NU, path) as found,
    ):
        assert not found.pending
        assert found.answer(2e-12).round == 3
        raise BrokenPipeError
    with Stream(policies.Learn(), SMALL, NU, path) as found:
        assert found.pending


def test_after_a_lost_answer_its_line_comes_again_and_a_new_one_needs_a_second(stream):
    """A state that is closed without passing an answer on is that of a killed process."""
    (header, *_, line), lost = (
        WHOLE.splitlines(),
        Stream(policies.Learn(), SMALL, NU, "first"),
    )
    lost.answer(1e-12)
    lost.close()
    _, answered, said = stream("min_gain\n1e-12\n1e-12\n", state="first")
    assert [each.round for each in rows(answered)] == [0, 1]
    assert (
        sum(
            "if this line was a new round with the same gains, send it once more"
            in each
            for each in said
        )
        == 1
    )
    lost = Stream(policies.Learn(), SMALL, NU, "s")
    last = [lost.answer(each) for each in SMALL.min_gain(GAINS.T)][-1].line()
    lost.close()
    assert len(stream(f"{header}\n")[1]) == 1
    (_, again) = stream(f"{header}\n{line}\n{line}\n")[1]  # another line only ends it
    assert again.startswith(f"{last},")
    for _ in range(2):  # the horizon has ended, and every later start says so
        code, answered, said = stream(f"{header}\n{line}\nmore\n")
        assert (code, answered) == (0, [HEADER])
        ended = "note: all 12 rounds are answered"
        assert said == [
            f"note: s goes on with round 12; the last answer was {again}",
            ended,
        ]


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


EVENTS = st.lists(
    st.sampled_from(["gain", "same", "skip", "bad", "again", "start", "killed"]),
    max_size=16,
)
SELECTING = [Truncated(1e-12), Best(1, 0.5)]


@given(
    EVENTS, st.integers(0, 2**32 - 1), st.sampled_from([*sorted(POLICIES), *SELECTING])
)
def test_restarts_change_no_answer(events, seed, kind):
    past, measured_gains, policy, budget, gain = (
        measured(40, 1),
        measured(20, seed),
        kind,
        None,
        [1e-12, 1e-12],
    )
    if kind in POLICIES:
        law, mean = (
            EmpiricalFloors.of(SMALL, SMALL.min_gain(past.T)),
            SMALL.mean_gain(1 / past.mean(axis=0)),
        )
        policy, measured_gains, budget, gain = (
            POLICIES[kind][1](law, mean),
            SMALL.min_gain(measured_gains.T),
            NU,
            1e-12,
        )
    gains, number, told = iter(measured_gains.tolist()), None, True
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as stack,
        without_waiting(),
    ):
        one, many = (
            Stream(policy, SMALL, budget, Path(folder, name))
            for name in ("one", "many")
        )
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
                    assert (
                        many.skip() if number is None else many.answer(gain)
                    ) == one.last
                    many.passed_on()
                    told = True
            elif event == "again" and number is not None:
                assert many.answer(gain, number) == one.last
            elif event in ("bad", "again") or one.finished:
                with pytest.raises(
                    ValueError,
                    match=r"rounds of small are answered|(min_)?gain(_t)? must (be|have)",
                ):
                    many.answer(np.nan)
            elif event == "skip":
                assert many.skip() == one.skip()
                number, told = None, False
            else:
                gain, number = (
                    gain if event == "same" else next(gains),
                    float(one.round + 1),
                )
                assert many.answer(gain, number) == one.answer(gain, number)
                told = False
        assert many.last == one.last
        for each in (one, many):
            with each:
                pass
        if one.round:
            assert isinstance(one.last, SelectedAnswer) == (policy in SELECTING)
            assert Path(folder, "one").read_bytes() == Path(folder, "many").read_bytes()
