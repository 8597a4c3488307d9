"""``adascale stream``: an answer a round, one line for what is wrong, rounds that are skipped or sent again."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, policies
from adascale.accounting import RenyiAccountant, order_grid
from adascale.channel import EmpiricalFloors, read_gains
from adascale.streaming import Answer

from .streams import GAINS, HEADER, NEW, NU, PAST, POLICIES, SMALL, WHOLE, lines, rows


@pytest.mark.parametrize("kind", ["the default", "learn with a past", "estimfuture"])
def test_answers_are_the_decisions_of_the_policy(stream, kind):
    """The choice of the policy is that of ``adascale schedule``, and ``test_schedule.py`` has the others."""
    arguments, policy = POLICIES[kind]
    code, answered, said = stream(WHOLE, *arguments)
    assert (code, said) == (0, [NEW, "note: all 12 rounds are answered"])
    found = rows(answered)
    past = read_gains("past.csv", SMALL)
    problem = ReceiveScalingProblem(SMALL, read_gains("gains.csv", SMALL).min_gain, NU)
    w = policy(EmpiricalFloors.of(SMALL, past.min_gain), past.mean_gain).schedule(
        problem
    )
    assert [each.round for each in found] == list(range(12))
    # 1e-12: the compiled horizon against its rounds one by one
    np.testing.assert_allclose([each.eta for each in found], problem.eta(w), rtol=1e-12)
    np.testing.assert_allclose([each.noise_energy for each in found], w, rtol=1e-12)
    left = 12 * NU - np.cumsum(problem.spend(w))
    np.testing.assert_allclose(
        [each.budget_left for each in found], left, rtol=0, atol=1e-12
    )


@pytest.mark.filterwarnings(
    "ignore::adascale.accounting.OrdersTooFew"
)  # of a few rounds
@pytest.mark.parametrize(
    "given", ["", "--delta 1e-3 --orders 1.05,200", "--interference -6"]
)
def test_epsilon_is_that_of_the_rounds_so_far(stream, given):
    found = rows(stream(WHOLE, *given.split())[1])
    how = (
        (RenyiAccountant(order_grid(200, 1.05)), 1e-3)
        if "--orders" in given
        else (RenyiAccountant(), 1e-5)
    )
    scenario = replace(
        SMALL,
        privacy_noise_power=SMALL.noise_power * 10 ** -(0.6 if "-6" in given else 0.0),
    )
    for n in range(1, 13):
        problem = ReceiveScalingProblem(
            scenario, read_gains("gains.csv", SMALL).min_gain[:n], NU
        )
        expected = problem.epsilons(
            np.array([each.noise_energy for each in found[:n]]), *how
        )
        assert found[n - 1].epsilon == pytest.approx(expected.max(), rel=1e-9)
        assert found[n - 1].epsilon_mean == pytest.approx(expected.mean(), rel=1e-9)


@pytest.mark.parametrize("gaps", ["hold", "floor"])
def test_missing_received_power_is_replaced_and_noted(stream, gaps):
    """Refused before there is one to hold; a state with another power is refused."""
    dbm = (20 + 10 * np.log10(GAINS)).tolist()
    sent, whole = (
        [["near", "far"], *([*map(repr, row)] for row in dbm)] for _ in range(2)
    )
    sent[4][1], sent[5][1] = "", "nan"
    whole[4][1] = whole[5][1] = repr(dbm[2][1]) if gaps == "hold" else "-130.5"
    sent, whole = (
        "".join(",".join(row) + "\n" for row in rows) for rows in (sent, whole)
    )
    how = ["--unit", "dbm", "--transmit-power", 20]
    filled = [
        *how,
        "--gaps",
        gaps,
        *(["--sensitivity", -130.5] if gaps == "floor" else []),
    ]
    code, answered, said = stream(sent, *filled)
    assert (code, answered) == (0, stream(whole, *how, state="whole")[1])
    assert (
        said[1]
        == f"note: standard input, line 5: '' in far: 1 of 2 values are missing, and replaced: {gaps}"
    )
    code, answered, said = stream("near,far\n,-90\n", *filled, state="new")
    assert (code, len(answered)) == ((1, 2) if gaps == "hold" else (0, 2))
    assert (
        "line 2: expected a value, got '' in near; there is no earlier one"
        in "".join(said)
    ) == (gaps == "hold")
    code, _, said = stream(sent, *filled, "--transmit-power", 21)
    assert code == 2
    assert (
        "unit of gains is dbm of 20.0 sent there, and dbm of 21.0 sent here" in said[0]
    )


def test_round_time_of_lines_is_refused(stream):
    code, _, said = stream(WHOLE, "--round-time", 1)
    assert code == 2
    assert "a line of a stream is a round" in said[0]


BAD = [
    b"high,1e-12",
    b"1e-12",
    b"",
    b"nan,1e-12",
    b"\xff,1e-12",
    b'"\xc3\xa9 ""x""",1',
]  # others: test_gains.py


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
    assert answered[4:6] == [
        line for line in answered if line not in good
    ]  # each in its line's place
    assert "".join(answered).isascii()
    for number, line, (word, again, reason) in zip(
        (5, 6), said[1:3], errors, strict=True
    ):
        assert reason.startswith(f"standard input, line {number}: ")
        assert (word, again) == ("error", "3")
        ascii_line = line.encode("ascii", "backslashreplace").decode()
        assert (
            ascii_line
            == f"adascale stream: error: {reason}; round 3 is to be sent again"
        )


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
    assert "too good; round 2 is to be sent again" in said[1]
    assert split(answered)[0] == stream(WHOLE, "--policy", "mine:Own", state="plain")[1]
    code, answered, said = stream(
        "\n".join(sent[:2]), "--policy", "mine:Wrong", state="wrong"
    )
    assert (code, split(answered)[0]) == (1, [HEADER])
    assert "Wrong returned " in said[0]


@pytest.mark.parametrize(
    "arguments", [[], ["--policy", "estimfuture", *PAST], ["--policy", "mine:Own"]]
)
def test_a_skipped_round_has_eta_0_and_counts(stream, arguments):
    sent = WHOLE.splitlines()
    sent[3:3] = ["skip", " SKIP "]
    code, answered, said = stream("\n".join(sent), *arguments)
    found = rows(answered)
    assert (code, len(found), said) == (
        0,
        12,
        [NEW, "note: all 12 rounds are answered"],
    )
    assert found[2] == Answer(2, 0.0, np.inf, *found[1][3:])
    assert found[3] == found[2]._replace(round=3)
    if not arguments:  # the policy's own skip
        policy, etas = policies.Learn(), []
        state = policy.start(SMALL, NU)
        for gain in SMALL.min_gain(GAINS.T)[:10]:
            state = policy.skip(policy.skip(state)) if len(etas) == 2 else state
            state, energy = policy.decide(state, SMALL.floor(gain))
            etas.append(float(SMALL.noise_scale / energy))
        assert [each.eta for each in found[:2] + found[4:]] == pytest.approx(
            etas, rel=1e-15 * 4
        )  # two roundings


def test_the_last_round_with_its_number_is_answered_again(stream):
    numbered = ["round,h2_1,h2_2\n", *lines(GAINS, 1)]
    first = stream("".join([*numbered[:4], numbered[3]]))[1]
    assert first[-1] == first[-2]
    code, answered, said = stream("".join([numbered[0], *numbered[3:]]))
    assert (code, len(said)) == (0, 2)
    assert answered[1] == first[3]
    assert [HEADER, *first[1:4], *answered[2:]] == stream(
        "".join(numbered), state="plain"
    )[1]


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
        code, answered, said = stream(
            f"round,h2_1,h2_2\n{number},1e-12,1e-12\n", state=state
        )
        assert (code, len(answered)) == (int(number > 1), 2)
        assert (
            f"expected round 0 or 1, got {number}; round 0 is to be sent again"
            in "".join(said)
        ) == (number > 1)
