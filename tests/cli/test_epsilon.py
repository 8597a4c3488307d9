"""`adascale epsilon`: noise multipliers in a file, or a schedule of this package."""

import json

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario, accounting, channel
from adascale.accounting import exact_epsilon

from ..command import run

ROUNDS = "# one row a round\nsigma, rate,note\n0.9,0.01,a\n1.1,0.02,b\n5,1,c\n3,0,d\n"


def written(folder, text, name="rounds.csv"):
    path = folder / name
    path.write_text(text)
    return path


def answer(capsys, *arguments):
    assert run("epsilon", *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_of_rounds_has_the_exact_epsilon_its_ends_and_the_renyi_value(tmp_path, capsys):
    found = answer(capsys, written(tmp_path, ROUNDS), "--delta", "1e-6")
    expected = exact_epsilon([0.01, 0.02, 1.0, 0.0], [0.9, 1.1, 5.0, 3.0], 1e-6)
    assert [found[name] for name in expected._fields] == list(expected)
    assert (found["rounds"], found["delta"]) == (4, 1e-6)
    orders = np.array(accounting.DEFAULT_ORDERS)
    curve = [
        sum(float(accounting.rdp(*pair, order)) for pair in ((0.01, 0.9), (0.02, 1.1), (1.0, 5.0))) for order in orders
    ]
    assert found["rdp"] == pytest.approx(float(accounting.to_dp(curve, orders, 1e-6).epsilon), rel=1e-12)
    assert found["rdp"] > found["upper"]


def test_the_order_of_rows_and_columns_does_not_matter(tmp_path, capsys):
    turned = written(tmp_path, "rate,sigma\n0,3\n1,5\n0.02,1.1\n0.01,0.9\n", "turned.csv")
    assert answer(capsys, turned) == answer(capsys, written(tmp_path, ROUNDS))


def test_one_rate_for_all_rounds_can_be_given(tmp_path, capsys):
    found = answer(capsys, written(tmp_path, "sigma\n1\n2\n"), "--rate", "0.1")
    assert found["epsilon"] == exact_epsilon(0.1, [1.0, 2.0]).epsilon
    assert found["rdp"] == float(accounting.schedule_epsilon(0.1, [1.0, 2.0]).epsilon)


def test_a_schedule_of_this_package_is_accounted_for_as_it_was_written(tmp_path, capsys):
    scenario = Scenario("small", 2, 12, 1000, (20, 40), 400, 1.0, 0.2, 1e-12)
    toml, gains, eta = written(tmp_path, scenario.to_toml(), "my.toml"), tmp_path / "gains.csv", tmp_path / "eta.csv"
    drawn = channel.draw(2, 12, 0).gain
    pd.DataFrame({"h2_1": drawn[0], "h2_2": drawn[1]}).to_csv(gains, index=False)
    common = ["--scenario", toml, "--gains", gains, "--nu", 1e-3, "--policy", "equalalloc"]
    assert run("schedule", *common, "--out", eta, "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    found = answer(capsys, "--scenario", toml, "--eta", eta)
    assert found["rdp"] == pytest.approx(planned["epsilon"], rel=1e-9)
    assert found["lower"] <= found["epsilon"] <= found["upper"] < found["rdp"]


def test_the_table_shows_what_the_json_holds(tmp_path, capsys):
    path = written(tmp_path, ROUNDS)
    found = answer(capsys, path)
    assert run("epsilon", path) == 0
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert set(shown) == set(found)
    assert float(shown["epsilon"]) == pytest.approx(found["epsilon"], rel=1e-5)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("sigma,rate\n1,0.1\n-1,0.1\n", (), "expected a sigma that is finite and > 0 in row 2, got '-1'"),
        ("sigma,rate\n1,1.5\n", (), "expected a rate that is in [0, 1] in row 1, got '1.5'"),
        ("sigma,rate\n1,\n", (), "expected a rate that is in [0, 1] in row 1, got ''"),
        ("sigma,rate\n", (), "expected a row a round below the header, got none"),
        ("noise,rate\n1,0.1\n", (), "expected one column sigma, got 'noise', 'rate'"),
        ("sigma\n1\n", (), "expected a column rate beside sigma, or --rate; got 'sigma'"),
        ("sigma,rate\n1,0.1\n", ("--rate", "0.1"), "has a column rate; leave out --rate"),
        ("sigma\n1\n", ("--rate", "2"), "--rate must be in [0, 1], got 2.0"),
        ("", (), "expected a table with a header"),
        ("sigma,rate\n1,0.1\n", ("--delta", "0"), "delta must be one number strictly between 0 and 1, got 0.0"),
        ("sigma,rate\n1,0.1\n", ("--eta", "eta.csv"), "give a FILE of noise multipliers, or --scenario and --eta"),
        ("sigma,rate\n1,0.1\n", ("--scenario", "mnist"), "--scenario goes with --eta"),
        ("sigma,rate\n" + 10_000 * "0.5,1e-6\n", ("--delta", "1e-12"), "cannot be certified"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, capsys, text, more, message):
    assert run("epsilon", written(tmp_path, text), *more) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_schedule_needs_its_scenario(tmp_path, capsys):
    assert run("epsilon", "--eta", tmp_path / "eta.csv") == 2
    assert "--eta needs --scenario" in capsys.readouterr().err
    assert run("epsilon", "--eta", tmp_path / "no.csv", "--scenario", "mnist") == 2
    assert "no.csv: No such file" in capsys.readouterr().err
