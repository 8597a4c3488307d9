"""The table of known epsilons, with the peers that are installed."""

import re

import pytest

from adascale.accounting import CertifiedInterval, selfcheck


def test_known_epsilons_lie_in_the_certified_intervals(capsys, monkeypatch):
    pytest.importorskip("opacus")
    pytest.importorskip("dp_accounting")
    peers = ("opacus rdp", "opacus prv", "dp_accounting pld")
    # the last one takes ten seconds for a large epsilon
    chosen = {
        name: (name == "opacus rdp", selfcheck.PEERS[name][1]) for name in peers
    } | {"nothing x": None}
    monkeypatch.setattr(selfcheck, "PEERS", chosen)
    assert selfcheck.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 4 * 4
    rare = {
        name: next(line for line in lines if line.startswith("rare") and name in line)
        for name in peers
    }
    assert (
        "below the lower bound" in rare["dp_accounting pld"]
    )  # at its default discretisation
    one = float(re.search(r"one phase +opacus prv +(\S+)", "\n".join(lines))[1])
    assert one == pytest.approx(selfcheck.CASES["one phase"][2], rel=0.01)
    assert sum("not run" in line for line in lines) == 2


def test_a_missed_epsilon_and_a_failing_peer_are_reported(monkeypatch, capsys):
    pytest.importorskip("opacus")
    wrong = CertifiedInterval(1.0, 1.001, ("a", "b"), "add", 1.0, 1.001)
    monkeypatch.setattr(selfcheck, "epsilon", lambda *_: wrong)
    monkeypatch.setattr(selfcheck, "PEERS", {"opacus rdp": (True, lambda *_: 1 / 0)})
    assert selfcheck.main() == 1
    printed = capsys.readouterr().out
    assert "MISSED" in printed
    assert "ZeroDivisionError: division by zero" in printed
