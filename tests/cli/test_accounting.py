"""`adascale accounting`: events on the command line, and logs of trainings."""

import json

import pytest

from adascale import accounting

from ..command import run

EVENTS = [(0.01, 1.0, 500), (0.02, 1.5, 1)]
GIVEN = ["--event", ".01,1.0,500", "--event", ".02,1.5"]


def answer(capsys, *arguments):
    assert run("accounting", *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("quantity", "more", "expected"),
    [
        ("epsilon", ["--delta", "1e-6"], lambda: accounting.epsilon(EVENTS, 1e-6)),
        ("delta", ["--epsilon", "0.5"], lambda: accounting.delta(EVENTS, 0.5)),
        ("beta", ["--alpha", "0.05"], lambda: accounting.beta(EVENTS, 0.05)),
        ("calibrate", ["--epsilon", "1.5"], lambda: accounting.calibrate(EVENTS, 1.5, 1e-5).epsilon),
    ],
)
def test_quantity_is_that_of_the_library(capsys, quantity, more, expected):
    found, interval = answer(capsys, quantity, *GIVEN, *more), expected()
    assert [found[name] for name in ("lower", "upper", "value", "safe")] == [
        interval.lower,
        interval.upper,
        interval.value,
        interval.safe,
    ]
    assert found["certified"] is True
    assert found["ends"] == list(interval.ends)
    if quantity == "calibrate":
        assert found["noise_multiplier"] == [found["scale"], 1.5 * found["scale"]]
    assert run("accounting", quantity, *GIVEN, *more) == 0
    assert "certified" in capsys.readouterr().out


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("quantity", ["epsilon", "beta"])
def test_printed_bounds_enclose_those_of_the_library(monkeypatch, capsys, quantity, direction):
    lower, upper = ((1.0000004, 1.0000014), (1.0000006, 1.0000016))[direction]  # the nearest six digits are inside
    safe = lower if quantity == "beta" else upper
    found = accounting.CertifiedInterval(lower, upper, ("a", "b"), "add", lower, safe)
    monkeypatch.setattr(accounting, quantity, lambda *_: found)
    assert run("accounting", quantity, *GIVEN, *(["--alpha", "0.05"] if quantity == "beta" else [])) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert [printed["lower"], printed["upper"]] == ["1", "1.00001"]
    assert printed["safe"] == printed["lower" if quantity == "beta" else "upper"]


def test_printed_noise_multipliers_are_rounded_up(capsys):
    exact = accounting.calibrate(EVENTS, 1.5, 1e-5)
    assert run("accounting", "calibrate", *GIVEN, "--epsilon", "1.5") == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert 0 <= float(printed["scale"]) - exact.scale < 1e-5
    shown = [float(each) for each in printed["noise_multiplier"].strip("()").split(",")]
    assert all(0 <= one - other < 1e-5 for one, other in zip(shown, exact.noise_multiplier, strict=True))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.json", "[[1.0, 0.01, 500], [1.5, 0.02, 1]]"),
        ("state.json", '{"mechanism": "adascale", "history": [[1.0, 0.01, 500], [1.5, 0.02, 1]]}'),
        ("log.csv", "sigma,rate,count\n1.0,0.01,500\n1.5,0.02,1\n"),
    ],
)
def test_log_of_a_training_has_the_same_epsilon(tmp_path, capsys, name, text):
    (tmp_path / name).write_text(text)
    assert answer(capsys, "epsilon", "--history", tmp_path / name) == answer(capsys, "epsilon", *GIVEN)
