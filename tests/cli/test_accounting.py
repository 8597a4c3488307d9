"""`adascale epsilon` and `adascale accounting`: files of rounds, schedules, events and logs of trainings."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, accounting, channel
from adascale.accounting import exact_epsilon
from adascale.cli import marks

from ..command import run
from .streams import HEADER

ROUNDS = (
    "# one row per round\nsigma, rate,round\n0.9,0.01,1\n1.1,0.02,2\n5,1,3\n3,0,4\n"
)


def written(folder, text, name="rounds.csv"):
    path = folder / name
    path.write_text(text)
    return path


def answer(capsys, *arguments, command="epsilon"):
    assert run(command, *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


ALONE = """
import sys
from adascale.cli import main
for path in sys.argv[1:]:
    sys.argv[1:] = ["epsilon", path, "--json"]
    main()
    print(sys.modules.get("numba") is not None, end=";")
"""


def test_short_files_need_no_compiler_for_the_same_digits(tmp_path, capsys):
    """In a process of its own; where rates differ and where they are equal, and Numba for more distinct rounds."""
    many = "sigma,rate\n" + "\n".join(
        f"{sigma},0.01" for sigma in np.linspace(1, 2, 49)
    )
    for compiled, *texts in (
        (False, ROUNDS, "sigma,rate,count\n0.9,0.01,500\n1.1,0.01,300\n"),
        (True, many),
    ):
        paths = [
            written(tmp_path, text, f"{number}.csv")
            for number, text in enumerate(texts)
        ]
        done = subprocess.run(
            [sys.executable, "-c", ALONE, *paths],
            capture_output=True,
            text=True,
            check=True,
        )
        for path, shown in zip(paths, done.stdout.split(";"), strict=False):
            shown, numba = shown.rsplit("}", 1)
            assert numba.strip() == f"{compiled}"
            found, expected = json.loads(shown + "}"), answer(capsys, path)
            assert found.pop("rdp") == pytest.approx(expected.pop("rdp"), rel=1e-12)
            assert found == expected


def test_file_of_rounds_has_the_exact_and_the_renyi_epsilon(tmp_path, capsys):
    found = answer(capsys, written(tmp_path, ROUNDS), "--delta", "1e-6")
    expected = exact_epsilon([0.01, 0.02, 1.0, 0.0], [0.9, 1.1, 5.0, 3.0], 1e-6)
    assert [found[name] for name in expected._fields] == list(expected)
    assert (found["rounds"], found["delta"]) == (4, 1e-6)
    orders, pairs = (
        np.array(accounting.DEFAULT_ORDERS),
        ((0.01, 0.9), (0.02, 1.1), (1.0, 5.0)),
    )
    curve = [
        sum(float(accounting.rdp(*pair, order)) for pair in pairs) for order in orders
    ]
    assert found["rdp"] == pytest.approx(
        float(accounting.to_dp(curve, orders, 1e-6).epsilon), rel=1e-12
    )
    assert found["rdp"] > found["upper"]
    turned = written(
        tmp_path, "rate,sigma\n0,3\n1,5\n0.02,1.1\n0.01,0.9\n", "turned.csv"
    )  # rows and columns
    assert answer(capsys, turned, "--delta", "1e-6") == found
    found = answer(capsys, written(tmp_path, "sigma\n1\n2\n"), "--rate", "0.1")
    assert found["epsilon"] == exact_epsilon(0.1, [1.0, 2.0]).epsilon
    assert found["rdp"] == float(accounting.schedule_epsilon(0.1, [1.0, 2.0]).epsilon)
    assert run("epsilon", tmp_path / "rounds.csv", "--rate", "0.1") == 0  # as a table
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert set(shown) == set(found)
    assert float(shown["epsilon"]) == pytest.approx(found["epsilon"], rel=1e-5)


@pytest.mark.parametrize("share", [1.0, 10**-0.6])
def test_written_schedule_has_the_same_epsilon(tmp_path, capsys, share):
    scenario = Scenario("small", 2, 12, 1000, (20, 40), 400, 1.0, 0.2, 1e-12)
    toml, gains, eta = (
        written(tmp_path, scenario.to_toml(), "my.toml"),
        tmp_path / "gains.csv",
        tmp_path / "eta.csv",
    )
    pd.DataFrame(channel.draw(2, 12, 0).gain.T, columns=["h2_1", "h2_2"]).to_csv(
        gains, index=False
    )
    common = [
        "--scenario",
        toml,
        "--gains",
        gains,
        "--nu",
        1e-3,
        "--policy",
        "equalalloc",
    ]
    part = ["--interference", 10 * np.log10(share)] if share < 1 else []
    assert run("schedule", *common, *part, "--out", eta, "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    found = answer(capsys, "--scenario", toml, "--eta", eta, *part)
    assert [found["rdp_mean"], found["rdp"]] == pytest.approx(
        [planned["epsilon_mean"], planned["epsilon"]], rel=1e-9
    )
    assert (
        found["lower"]
        <= found["estimate"]
        <= found["epsilon"]
        == found["upper"]
        < found["rdp"]
    )
    assert (
        found["lower_mean"]
        <= found["estimate_mean"]
        <= found["epsilon_mean"]
        < found["rdp_mean"]
    )
    assert found["device"] == 1  # half the batch, so twice the weight of a sample
    problem = ReceiveScalingProblem(
        scenario, channel.read_gains(gains, scenario).min_gain, 1e-3
    )
    sigma = np.sqrt(share) * problem.noise_multiplier(
        problem.noise_energy(pd.read_csv(eta)["eta"])
    )
    each = [
        accounting.schedule_epsilon(q, s).epsilon
        for q, s in zip((0.05, 0.1), sigma, strict=True)
    ]
    assert [planned["epsilon"], planned["epsilon_mean"]] == pytest.approx(
        [max(each), np.mean(each)], rel=1e-9
    )


TINY = Scenario("tiny", 2, 6, 100, 5, 50, 1.0, 1.0, 1e-9)
CAP = TINY.x_max * 1e-9
W = TINY.noise_scale / CAP
MADE = marks.mark(TINY, None, policy="learn")


def test_eta_of_a_skipped_round_leaks_nothing(tmp_path, capsys):
    """The answers of a stream, and a schedule that a policy of one's own wrote."""
    toml = written(tmp_path, TINY.to_toml(), "t.toml")
    streamed = f"{HEADER}\n0,{CAP},{W},1,1,1,{MADE}\n1,0.0,inf,1,1,1,{MADE}\n2,{CAP},{W},1,1,1,{MADE}\n"
    skipped = answer(capsys, "--scenario", toml, "--eta", written(tmp_path, streamed))
    without = answer(
        capsys, "--scenario", toml, "--eta", written(tmp_path, f"eta\n{CAP}\n{CAP}\n")
    )
    assert (skipped["rounds"], without["rounds"]) == (3, 2)
    assert {**skipped, "rounds": 2} == without
    assert (
        answer(capsys, "--scenario", toml, "--eta", written(tmp_path, "eta\n0\n"))[
            "epsilon"
        ]
        == 0
    )


def test_answers_of_all_starts_of_a_stream_are_read(tmp_path, capsys):
    """Its errors, and the headers and answers that a later start wrote again, are no rounds."""
    toml, first, second = (
        written(tmp_path, TINY.to_toml(), "t.toml"),
        f"0,{CAP},{W},1,1,1,{MADE}\n",
        f"1,{CAP / 2},{2 * W},1,1,1,{MADE}\n",
    )
    plain = answer(
        capsys,
        "--scenario",
        toml,
        "--eta",
        written(tmp_path, f"{HEADER}\n{first}{second}"),
    )
    error = 'error,1,"standard input, line 3: expected a number, got ""x"""\n'
    again = f"{HEADER}\n{first}{error}{error}{HEADER}\n{first}{second}{error}{HEADER}\n{second}{second}"
    assert (
        answer(capsys, "--scenario", toml, "--eta", written(tmp_path, again)) == plain
    )
    assert plain["rounds"] == 2


def test_epsilon_notes_a_wide_interval_and_a_last_line_without_break(
    tmp_path, capsys, monkeypatch
):
    wide = accounting.CertifiedInterval(
        1.0, 2.0, ("threshold", "hits"), "add", 1.5, 2.0
    )
    monkeypatch.setattr(accounting, "epsilon", lambda *_: wide)
    assert run("epsilon", written(tmp_path, "sigma,rate\n1,0.1\n1,0.1")) == 0
    said = capsys.readouterr().err
    assert "not certified within one per cent: its proofs are threshold, hits" in said
    assert "line 3: no line break at its end" in said


EVENTS = [(0.01, 1.0, 500), (0.02, 1.5, 1)]
GIVEN = ["--event", ".01,1.0,500", "--event", ".02,1.5"]


@pytest.mark.parametrize(
    ("quantity", "more", "expected"),
    [
        ("epsilon", ["--delta", "1e-6"], lambda: accounting.epsilon(EVENTS, 1e-6)),
        ("delta", ["--epsilon", "0.5"], lambda: accounting.delta(EVENTS, 0.5)),
        ("beta", ["--alpha", "0.05"], lambda: accounting.beta(EVENTS, 0.05)),
        (
            "calibrate",
            ["--epsilon", "1.5"],
            lambda: accounting.calibrate(EVENTS, 1.5, 1e-5).epsilon,
        ),
    ],
)
def test_quantity_is_that_of_the_library(capsys, quantity, more, expected):
    found, interval = (
        answer(capsys, quantity, *GIVEN, *more, command="accounting"),
        expected(),
    )
    for name in ("lower", "upper", "estimate", "safe"):
        assert found[name] == getattr(interval, name)
    assert found["certified"] is True
    assert found["ends"] == list(interval.ends)
    if quantity == "calibrate":
        assert found["noise_multiplier"] == [found["scale"], 1.5 * found["scale"]]
    assert run("accounting", quantity, *GIVEN, *more) == 0
    assert "certified" in capsys.readouterr().out


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("quantity", ["epsilon", "beta"])
def test_printed_bounds_enclose_those_of_the_library(
    monkeypatch, capsys, quantity, direction
):
    lower, upper = ((1.0000004, 1.0000014), (1.0000006, 1.0000016))[
        direction
    ]  # the nearest six digits are inside
    safe = lower if quantity == "beta" else upper
    found = accounting.CertifiedInterval(lower, upper, ("a", "b"), "add", lower, safe)
    monkeypatch.setattr(accounting, quantity, lambda *_: found)
    assert (
        run(
            "accounting",
            quantity,
            *GIVEN,
            *(["--alpha", "0.05"] if quantity == "beta" else []),
        )
        == 0
    )
    printed = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert [printed["lower"], printed["upper"]] == ["1", "1.00001"]
    assert printed["safe"] == printed["lower" if quantity == "beta" else "upper"]


def test_printed_noise_multipliers_are_rounded_up(capsys):
    exact = accounting.calibrate(EVENTS, 1.5, 1e-5)
    assert run("accounting", "calibrate", *GIVEN, "--epsilon", "1.5") == 0
    printed = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert 0 <= float(printed["scale"]) - exact.scale < 1e-5
    shown = [float(each) for each in printed["noise_multiplier"].strip("()").split(",")]
    assert all(
        0 <= one - other < 1e-5
        for one, other in zip(shown, exact.noise_multiplier, strict=True)
    )


LOGS = [
    ("log.json", "[[1.0, 0.01, 500], [1.5, 0.02, 1]]"),
    ("log.csv", "sigma,rate,count\n1.0,0.01,500\n1.5,0.02,1\n"),
]
LOGS += [
    (
        "state.json",
        '{"mechanism": "adascale", "history": [[1.0, 0.01, 500], [1.5, 0.02, 1]]}',
    )
]
LOGS += [("rounds.csv", "sigma,rate,steps\n1.5,0.02,1\n1.0,0.01,500\n")]


@pytest.mark.parametrize(("name", "text"), LOGS)
def test_log_of_a_training_has_the_same_epsilon(tmp_path, capsys, name, text):
    (tmp_path / name).write_text(text)
    assert answer(
        capsys, "epsilon", "--history", tmp_path / name, command="accounting"
    ) == answer(capsys, "epsilon", *GIVEN, command="accounting")
