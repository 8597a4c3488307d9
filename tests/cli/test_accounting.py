"""The commands of the accountant: files of rounds, schedules, events and logs of trainings."""

import json

import numpy as np
import pytest

from adascale import Scenario, accounting
from adascale.cli import marks

from ..command import run
from .streams import HEADER


@pytest.fixture
def written(tmp_path):
    """The path of a file with a text."""

    def write(text, name="rounds.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


TINY = Scenario("tiny", 2, 6, 100, 5, 50, 1.0, 1.0, 1e-9)
CAP = TINY.x_max * 1e-9
W = TINY.noise_scale / CAP
MADE = marks.mark(TINY, None, policy="learn")
FIRST = f"0,{CAP},{W},1,1,1,{MADE}\n"
SECOND = f"1,{CAP / 2},{2 * W},1,1,1,{MADE}\n"


@pytest.fixture
def of_stream(written, answer):
    """The answer to a file of scalings."""
    toml = written(TINY.to_toml(), "tiny.toml")
    return lambda text: answer("epsilon", "--scenario", toml, "--eta", written(text))


def test_eta_of_a_skipped_round_leaks_nothing(of_stream):
    skipped = of_stream(f"{HEADER}\n{FIRST}1,0.0,inf,1,1,1,{MADE}\n2{FIRST[1:]}")
    without = of_stream(f"eta\n{CAP}\n{CAP}\n")
    assert skipped == without | {"rounds": 3}
    assert of_stream("eta\n0\n")["epsilon"] == 0


def test_answers_of_all_starts_of_a_stream_are_read(of_stream):
    """Its errors, and the headers and answers that a later start wrote again, are no rounds."""
    error = 'error,1,"standard input, line 3: expected a number, got ""x"""\n'
    starts = [f"{FIRST}{error}{error}", f"{FIRST}{SECOND}{error}", SECOND + SECOND]
    text = "".join(f"{HEADER}\n{start}" for start in starts)
    totals = of_stream(text)
    assert totals == of_stream(f"{HEADER}\n{FIRST}{SECOND}")
    assert totals["rounds"] == 2
    assert of_stream(f"\ufeff{text}") == totals
    of_epsilon = text.replace("budget_left,", "").replace(",1,1,1,", ",1,1,")
    assert of_stream(of_epsilon) == totals


EVENTS = [(0.01, 1.0, 500), (0.02, 1.5, 1)]
GIVEN = ["--event", ".01,1.0,500", "--event", ".02,1.5"]
FIXED = ["--fixed", ".02,2,300"]
HELD = [(0.02, 2.0, 300)]
QUANTITIES = [
    ("epsilon", ["--delta", "1e-6"], lambda: accounting.epsilon(EVENTS, 1e-6)),
    ("delta", ["--epsilon", "0.5"], lambda: accounting.delta(EVENTS, 0.5)),
    ("beta", ["--alpha", "0.05"], lambda: accounting.beta(EVENTS, 0.05)),
    ("advantage", [], lambda: accounting.advantage(EVENTS)),
    (
        "calibrate",
        ["--epsilon", "1.5", *FIXED],
        lambda: accounting.calibrate(EVENTS, 1.5, 1e-5, HELD).epsilon,
    ),
    (
        "steps",
        ["--epsilon", "4", *FIXED],
        lambda: accounting.largest_count(EVENTS, 4.0, 1e-5, HELD).epsilon,
    ),
]


@pytest.mark.parametrize(("command", "more", "expected"), QUANTITIES)
def test_quantity_is_that_of_the_library(answer, command, more, expected):
    totals, interval = answer(command, *GIVEN, *more), expected()
    for name in ("lower", "upper", "estimate", "direction", "certified"):
        assert totals[name] == getattr(interval, name)
    safe = totals.get(command, totals.get("epsilon"))
    assert safe == interval.safe
    assert (totals["adjacency"], totals["sampling"]) == ("add or remove one", "Poisson")


@pytest.mark.parametrize("bounds", [(1.0000004, 1.0000014), (1.0000006, 1.0000016)])
@pytest.mark.parametrize("quantity", ["epsilon", "beta"])
def test_printed_bounds_enclose_those_of_the_library(
    monkeypatch, printed, quantity, bounds
):
    lower, upper = bounds
    safe = lower if quantity == "beta" else upper
    interval = accounting.CertifiedInterval(
        lower, upper, ("a", "b"), "add", lower, safe
    )
    monkeypatch.setattr(accounting, quantity, lambda *_: interval)
    more = ["--alpha", "0.05"] if quantity == "beta" else []
    totals = printed(quantity, *GIVEN, *more)
    assert (totals["lower"], totals["upper"]) == ("1", "1.00001")
    assert totals[quantity] == totals["lower" if quantity == "beta" else "upper"]


def test_printed_noise_multipliers_are_rounded_up(answer, printed):
    how = ["calibrate", *GIVEN, "--epsilon", "1.5"]
    exact, shown = answer(*how), printed(*how)
    assert exact["noise_multiplier"] == [exact["scale"], 1.5 * exact["scale"]]
    above = np.subtract(
        json.loads(shown["noise_multiplier"]), exact["noise_multiplier"]
    )
    above = [*above, float(shown["scale"]) - exact["scale"]]
    assert 0 <= min(above) <= max(above) < 1e-5


def test_a_report_is_that_of_the_library(answer, capsys):
    report = accounting.report(EVENTS, 1e-6)
    how = ["epsilon", *GIVEN, "--delta", "1e-6"]
    assert answer(*how, "--report") == report
    assert run(*how, "--report") == run(*how, "--report", "markdown") == 0
    texts = capsys.readouterr().out
    assert texts == f"{report}\n{report._repr_markdown_()}\n"


ROWS = "[[1.0, 0.01, 500], [1.5, 0.02, 1]]"
LOGS = {
    "state.json": f'{{"mechanism": "adascale", "history": {ROWS}}}',
    "rounds.csv": "sigma,rate,steps\n1.5,0.02,1\n1.0,0.01,500\n",
    "opacus.csv": "noise_multiplier,sample_rate,num_steps\n1.5,0.02,1\n1.0,0.01,500\n",
    "wide.csv": "q,noise,loss,n\n.02,1.5,3,1\n.01,1.0,2,500\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_log_of_a_training_has_the_same_epsilon(written, answer, name):
    path = written(LOGS[name], name)
    more = ["--columns", "rate=q,sigma=noise,count=n"] if name == "wide.csv" else []
    for command in ("epsilon", "advantage"):
        assert answer(command, path, *more) == answer(command, *GIVEN)


def test_a_rate_of_zero_for_all_rows_leaks_nothing(written, answer):
    path = written("sigma\n1.5\n1.0\n")
    assert answer("epsilon", path, "--columns", "rate=0,sigma=sigma")["epsilon"] == 0


def test_a_wide_interval_is_noted(written, capsys, monkeypatch):
    wide = accounting.CertifiedInterval(
        1.0, 2.0, ("threshold", "hits"), "add", 1.5, 2.0
    )
    monkeypatch.setattr(accounting, "epsilon", lambda *_: wide)
    assert run("epsilon", written("sigma,rate\n1,0.1\n")) == 0
    note = "not certified within one per cent: its proofs are threshold, hits"
    assert note in capsys.readouterr().err
