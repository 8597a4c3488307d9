"""``adascale stream``: an answer a round, one line for what is wrong, rounds that are skipped or sent again."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from adascale import Problem, policies
from adascale.accounting import RenyiAccountant, order_grid
from adascale.channel import EmpiricalFloors, read_gains
from adascale.streaming import Answer

from .streams import GAINS, HEADER, NEW, NU, POLICIES, SMALL, WHOLE, lines, rows


@pytest.mark.parametrize("kind", ["the default", "learn with a past", "estimfuture"])
def test_answers_are_the_decisions_of_the_policy(stream, kind):
    """The choice of the policy is that of ``adascale schedule``, and ``test_schedule.py`` has the others."""
    arguments, build = POLICIES[kind]
    code, answered, messages = stream(WHOLE, *arguments)
    assert (code, messages) == (0, [NEW, "note: all 12 rounds are answered"])
    past = read_gains("past.csv", SMALL)
    policy = build(EmpiricalFloors.of(SMALL, past.min_gain), past.mean_gain)
    problem = Problem(SMALL, read_gains("gains.csv", SMALL).min_gain, NU)
    w = policy.schedule(problem)
    number, *found = list(zip(*rows(answered), strict=True))[:4]
    assert number == tuple(range(12))
    left = 12 * NU - np.cumsum(problem.spend(w))
    expected = [problem.eta(w), w, left + 1]
    found[2] = np.add(found[2], 1)  # what is left ends at zero
    # 1e-12: the compiled horizon against its rounds one by one
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
def test_epsilon_is_that_of_the_rounds_so_far(stream):
    how = ["--delta", 1e-3, "--orders", "1.05,200", "--interference", -6]
    answers = rows(stream(WHOLE, *how)[1])
    scenario = replace(SMALL, privacy_noise_power=SMALL.noise_power * 10**-0.6)
    min_gain = read_gains("gains.csv", SMALL).min_gain
    w = np.array([answer.noise_energy for answer in answers])
    for rounds, answer in enumerate(answers, 1):
        problem = Problem(scenario, min_gain[:rounds], NU)
        accountant = RenyiAccountant(order_grid(200, 1.05))
        expected = problem.epsilons(w[:rounds], accountant, 1e-3)
        assert answer.epsilon == pytest.approx(expected.max(), rel=1e-9)
        assert answer.epsilon_mean == pytest.approx(expected.mean(), rel=1e-9)


BAD = [b"", b"\xff,1e-12", b'"\xc3\xa9 ""x""",1']  # others: test_gains.py


def split(answered):
    """The lines of output that are answers, and the rows of those that are errors."""
    good = [line for line in answered if not line.startswith("error,")]
    return good, list(csv.reader(line for line in answered if line not in good))


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_is_one_error_and_its_round_can_be_sent_again(stream, bad):
    lines_sent = WHOLE.encode().splitlines(keepends=True)
    lines_sent[4:4] = [bad + b"\n"]
    code, answered, messages = stream(b"".join(lines_sent))
    good, [(word, number, reason)] = split(answered)
    assert (code, len(messages), messages[0]) == (0, 3, NEW)
    assert good == stream(WHOLE, state="plain")[1]
    assert answered[4].startswith("error,")  # in its line's place
    assert "".join(answered).isascii()
    assert reason.startswith("standard input, line 5: ")
    assert (word, number) == ("error", "3")
    message = messages[1].encode("ascii", "backslashreplace").decode()
    assert message == f"adascale stream: error: {reason}; round 3 is to be sent again"


UNANSWERED = {
    "the last line wrong": ("min_gain\n1e-12\nx\n", ["1"], 1),
    "a cut line": ("min_gain\n1e-12\n9.4e-1", ["1"], 1),
    "an error made good": ("min_gain\nx\n1e-12\n", ["0"], 0),
    "a comment without a break": ("min_gain\n1e-12\n# the en", [], 0),
}


@pytest.mark.parametrize("kind", UNANSWERED)
def test_a_stream_fails_if_its_last_line_has_no_answer(stream, kind):
    text, numbers, expected = UNANSWERED[kind]
    code, answered, messages = stream(text.encode())
    good, errors = split(answered)
    assert [error[1] for error in errors] == numbers
    assert code == expected
    assert ("has no answer" in "".join(messages)) == bool(expected)
    assert len(good) - 1 == text.count("1e-12") + ("skip\n" in text)


def test_a_policy_that_fails_in_a_round_is_named_and_goes_on(stream):
    lines_sent = WHOLE.splitlines()
    lines_sent[3:3] = ["1,1"]
    code, answered, messages = stream("\n".join(lines_sent), "--policy", "mine:Own")
    assert (code, len(messages)) == (0, 3)
    assert "too good; round 2 is to be sent again" in messages[1]
    undisturbed = stream(WHOLE, "--policy", "mine:Own", state="plain")[1]
    assert split(answered)[0] == undisturbed


NUMBERED = ["round,h2_1,h2_2\n", *lines(GAINS, 1)]


def test_the_last_round_with_its_number_is_answered_again(stream):
    first = stream("".join([*NUMBERED[:4], NUMBERED[3]]))[1]
    assert first[-1] == first[-2]
    code, answered, messages = stream("".join([NUMBERED[0], *NUMBERED[3:]]))
    assert (code, len(messages)) == (0, 2)
    assert answered[1] == first[3]
    undisturbed = stream("".join(NUMBERED), state="plain")[1]
    assert [HEADER, *first[1:4], *answered[2:]] == undisturbed


HOLD = ["--gaps", "hold"]
FLOOR = ["--gaps", "floor", "--sensitivity", -130.5]


@pytest.mark.parametrize(("gaps", "filler"), [(HOLD, "-97.5"), (FLOOR, "-130.5")])
def test_missing_received_power_is_replaced_and_noted(stream, gaps, filler):
    dbm = ["--unit", "dbm", "--transmit-power", 20]
    text = "near,far\n-90,-95\n-91.5,-97.5\n-90,{0}\n-92,{0}\n-93,-99\n"
    code, answered, messages = stream(text.format(""), *dbm, *gaps)
    assert (code, answered) == (0, stream(text.format(filler), *dbm, state="filled")[1])
    note = "no value in far: 1 of 2 values are missing, and "
    assert messages[1].startswith(f"note: standard input, line 4: {note}")


def test_a_skipped_round_has_eta_0_and_is_the_policy_s_own_skip(stream):
    lines_sent = WHOLE.splitlines()
    lines_sent[3:3] = ["skip", " SKIP "]
    code, answered, messages = stream("\n".join(lines_sent))
    answers = rows(answered)
    assert (code, messages) == (0, [NEW, "note: all 12 rounds are answered"])
    assert answers[2] == Answer(2, 0.0, np.inf, *answers[1][3:6])
    assert answers[3] == answers[2]._replace(round=3)
    policy = policies.Learn()
    first, second, third = SMALL.floor(SMALL.min_gain(GAINS.T[:, :3]))
    state, _ = policy.decide(policy.start(SMALL, NU), first)
    state = policy.skip(policy.skip(policy.decide(state, second)[0]))
    energy = float(policy.decide(state, third)[1])
    assert answers[4].noise_energy == pytest.approx(energy, rel=4e-15)
