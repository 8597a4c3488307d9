"""``adascale stream``, killed at any moment: no round is lost or counted twice."""

import os
import random
import signal
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from ..forks import Forks
from .streams import GAINS, HEADER, LONG, NEW, NU, lines, measured, write_inputs


@pytest.fixture(scope="module")
def forks():
    found = Forks("stream")
    yield found
    found.close()


ALWAYS = ["stream", "--nu", NU, "--scenario", "long.toml"]


KINDS = {
    "numberless": ["h2_1,h2_2\n", *lines(measured(LONG.num_rounds, 7))],
    "alike": ["round,h2_1,h2_2\n", *lines(np.full((LONG.num_rounds, 2), 2e-12), 1)],
}


def undisturbed(forks, folder, kind):
    """Lines, and what a run that nothing disturbs answers and leaves."""
    folder.mkdir(exist_ok=True)
    write_inputs(folder)
    assert (
        forks.wait(forks.start(folder, [*ALWAYS, "--state", "s"], "".join(KINDS[kind])))
        == 0
    )
    header, *rounds = KINDS[kind]
    answers, state = (
        (folder / "out").read_text().splitlines()[1:],
        (folder / "s").read_bytes(),
    )
    return SimpleNamespace(header=header, rounds=rounds, answers=answers, state=state)


@pytest.fixture(scope="module")
def unkilled(forks, tmp_path_factory):
    return undisturbed(forks, tmp_path_factory.mktemp("unkilled"), "numberless")


def stage(path, expected):
    """Where a kill has stopped a write, from what is in the state."""
    data = path.read_bytes() if path.exists() else b""
    if not data:
        return "no state"
    *whole, rest = data.split(b"\n")
    marks = [line[-9:-1] for line in whole[-2:]]
    if rest:
        return "in the line"
    if whole[-1].endswith(b"."):
        return "between rounds" if len(whole) > 1 else "heading alone"
    return (
        "marked"
        if data[:8] == marks[-1]
        else "line whole"
        if data[:8] == marks[0]
        else "in the mark"
    )


def kill_at_random(forks, sent, folder, kills, seed, **fault):
    """A client that sends each line without an answer again; where the kills came. No round is lost or spent twice."""
    folder.mkdir()
    write_inputs(folder)
    rng, joined, most, state = random.Random(seed), [], 0.05, folder / "s"
    stages = Counter()
    while stages.total() < kills or len(joined) < len(sent.rounds):
        again = "".join([sent.header, *sent.rounds[len(joined) :]])
        pid = forks.start(
            folder,
            [*ALWAYS, "--state", "s"],
            again,
            **(fault if stages.total() < kills else {}),
        )
        if stages.total() < kills:
            time.sleep(rng.uniform(0, most))
            os.kill(pid, signal.SIGKILL)
            if (code := forks.wait(pid)) != 0:  # else it has ended before
                assert code == -signal.SIGKILL
                stages[stage(state, sent.state)] += 1
        else:
            assert forks.wait(pid) == 0
        before = len(joined)
        joined += (folder / "out").read_text().splitlines()[1:]
        assert joined == sent.answers[: len(joined)]
        most *= (
            0.64 if len(joined) > before + 2 else 1.7
        )  # however fast this machine is
        held = state.read_bytes().split(b"\n")[1:-1] if state.exists() else []
        spent = len(
            {line[:-1] for line in held}
            & {line[:-1] for line in sent.state.splitlines()}
        )
        assert (
            len(joined) <= spent <= len(joined) + 1
        )  # one answer at most was lost with the process
        if len(joined) == len(sent.rounds):
            assert state.read_bytes() == sent.state
            if stages.total() < kills:  # another horizon
                state.unlink()
                joined = []
    return stages


HUNDRED = {"kills": 100, "seed": random.randrange(2**32)}
LONG_RUN = [pytest.mark.fuzz, pytest.mark.slow]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        *((kind, {}) for kind in KINDS),
        *(pytest.param(kind, HUNDRED, marks=LONG_RUN) for kind in KINDS),
    ],
)
def test_killed_at_random_no_round_is_lost_or_spent_twice(forks, tmp_path, kind, given):
    sent = undisturbed(forks, tmp_path / "one", kind)
    stages = kill_at_random(
        forks, sent, tmp_path / "many", **{"kills": 12, "seed": 3, "slow": 1} | given
    )
    print(f"\n{kind}, {given}: {stages.total()} kills: {dict(stages.most_common())}")
    assert len(stages) > 2  # the control
    assert given is not HUNDRED or {"in the line", "line whole", "between rounds"} <= {
        *stages
    }


LINE = [
    f"{when} the {what}"
    for what in ("line", "mark")
    for when in ("before", "in", "behind")
]
LINE += ["on the disk", "answered", "behind the answered"]
MOMENTS = [
    ("before the heading's place", 0),
    ("in its place", 0),
    *((each, n) for n in (1, 4) for each in LINE),
]


@pytest.mark.parametrize(("moment", "number"), MOMENTS)
def test_killed_at_each_moment_no_round_is_lost(
    forks, unkilled, tmp_path, moment, number
):
    write_inputs(tmp_path)
    arguments, count = [*ALWAYS, "--state", "s"], max(number, 1)
    text = [unkilled.header, *unkilled.rounds[:8]]
    assert (
        forks.wait(
            forks.start(tmp_path, arguments, "".join(text), dies=(moment, number))
        )
        == -signal.SIGKILL
    )
    before = (tmp_path / "out").read_text().splitlines()[1:]
    assert len(before) == (count if "answered" in moment else count - 1)
    whole = number > 0 and moment not in ("before the line", "in the line")
    assert (
        forks.wait(
            forks.start(
                tmp_path, arguments, "".join([text[0], *text[len(before) + 1 :]])
            )
        )
        == 0
    )
    assert (
        before + (tmp_path / "out").read_text().splitlines()[1:] == unkilled.answers[:8]
    )
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".half"]
    said = (tmp_path / "err").read_text()
    if (
        whole and moment != "behind the answered"
    ):  # an answer that may be lost is in the note; its line brings it back
        last = unkilled.answers[count - 1]
        assert (
            f"round {count}, or {count - 1} if its line comes again; the last answer was {last}\n"
            in said
        )
        assert (f"note: round {count - 1} was answered again" in said) == (
            "answered" not in moment
        )
    else:
        rounds = count if whole else count - 1
        assert (f"goes on with round {rounds};" in said) == (rounds > 0)
        is_heading = moment != "before the heading's place" and not rounds
        assert ("has a heading and nothing behind it" in said) == is_heading


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_it_says_how_to_go_on(forks, tmp_path, number):
    write_inputs(tmp_path)
    os.mkfifo(tmp_path / "in")
    held = os.open(tmp_path / "in", os.O_RDWR)
    pid = forks.start(tmp_path, [*ALWAYS, "--state", "s"])
    os.write(held, "".join(["h2_1,h2_2\n", *lines(GAINS[:2])]).encode())
    until = time.monotonic() + 20
    while (
        len((tmp_path / "out").read_text().splitlines()) < 3
        and time.monotonic() < until
    ):
        time.sleep(0.01)
    os.kill(pid, number)
    assert forks.wait(pid) == 128 + number
    os.close(held)
    assert (
        (tmp_path / "err")
        .read_text()
        .startswith(f"{NEW}\nadascale stream: stopped; the same command goes on")
    )


def test_a_disk_that_fills_up_under_way_ends_it_before_the_answer(
    forks, unkilled, tmp_path
):
    write_inputs(tmp_path)
    text = [unkilled.header, *unkilled.rounds[:8]]
    assert (
        forks.wait(
            forks.start(
                tmp_path, [*ALWAYS, "--state", "s"], "".join(text), largest=1000
            )
        )
        == 2
    )
    answered = (tmp_path / "out").read_text().splitlines()[1:]
    assert (tmp_path / "err").read_text().splitlines()[
        -1
    ] == "adascale stream: error: s: File too large"
    assert 0 < len(answered) < 8
    kept = (tmp_path / "s").read_bytes().splitlines(keepends=True)
    assert kept[1:] == unkilled.state.splitlines(keepends=True)[1 : len(answered) + 1]
    assert answered == unkilled.answers[: len(answered)]


def test_each_answer_is_there_before_the_next_line_is_sent(forks, tmp_path):
    """A driver that sends a line and waits for its answer."""
    write_inputs(tmp_path)
    (read, sends), (answers, write) = os.pipe(), os.pipe()
    with open(tmp_path / "err", "w") as err:
        pid = forks.begin(
            tmp_path, [*ALWAYS, "--state", "s"], [read, write, err.fileno()]
        )
    os.close(read)
    os.close(write)
    with open(sends, "w") as driver, open(answers) as found:
        assert found.readline() == f"{HEADER}\n"  # before anything is sent
        driver.write("h2_1,h2_2\n")
        for t, line in enumerate(lines(GAINS)):
            driver.write(line)
            driver.flush()
            assert found.readline().startswith(f"{t},")
    assert forks.wait(pid) == 0
