"""Measured links: how the public files become rounds, that no method looks ahead, and what the committed tables say."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from adascale import Problem
from companion.__main__ import RESULTS as MADE
from companion.__main__ import make
from companion.causal import link_data as data
from companion.causal import measured_links as links
from companion.causal.fresh import HINDSIGHT, TUNED
from companion.results import folder, load

FOLDER = folder() / "links"
TABLES = [name.removesuffix(".csv") for name in MADE["links"].files.split()]
SAMPLES = 260


# the packets that ORBIT has lost, by sender
LOST = {0: {7, 8}, 1: set(range(0, 300, 5))}


def broadcast_counts(rng):
    """Counts of made-up broadcasts, and when each mote sent; all thirteen readings of a broadcast are new."""
    rows = []
    times = []
    for _ in range(data.NODES):
        when = np.cumsum(rng.integers(3, 8, SAMPLES))
        when = when[when < SAMPLES]
        last = np.searchsorted(when, np.arange(SAMPLES), "right")  # 0: none so far
        counts = rng.integers(30, 60, (data.NODES - 1, 1)) + np.arange(when.size)
        rows.append(np.where(last > 0, counts[:, last - 1], 0))
        times.append(when)
    return rows, times


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder like the clone, of made-up links: its broadcasts are known, and so is what ORBIT lost."""
    folder = tmp_path_factory.mktemp("clone")
    rng = np.random.default_rng(19)
    rows, times = broadcast_counts(rng)
    path = folder / data.MICHIGAN
    path.parent.mkdir(parents=True)
    np.savetxt(path, np.concatenate(rows), "%d", delimiter=",")
    for sender in range(12):
        path = folder / data.RUTGERS / f"Results_node{sender:02}" / "sdec1-2"
        path.parent.mkdir(parents=True)
        reading = rng.integers(18, 24, 301)
        reading[9] = 255
        sent = [t for t in range(301) if t not in LOST.get(sender, ())]
        np.savetxt(path, np.stack([sent, reading[sent]], axis=1), "%d")
        (path.parent / "sdec3-4").write_text("")
    return folder, rows, times


@pytest.fixture(scope="module")
def few(clone):
    """One short realisation of each kind."""
    motes = data.michigan(clone[0])
    return [
        data.held_gains(motes, 60)[0],
        data.heard(motes, 12, 10)[0],
        data.orbit(clone[0], 250)[0],
    ]


def test_motes_are_read_from_the_first_full_sample(
    clone,
):
    folder, counts, times = clone
    gain = data.michigan(folder)
    start = max(when[0] for when in times)
    assert start > 0

    def power(counts):
        return data.cc1000_dbm(counts.astype(float))

    whole = np.concatenate(counts)[:, start:]
    np.testing.assert_allclose(10 * np.log10(gain), power(whole), rtol=1e-12)
    blocks = data.broadcasts(gain)
    for block, when, rows in zip(blocks, times, counts, strict=True):
        rounds = [start, *when[when > start]]
        expected = power(rows[:, rounds])
        np.testing.assert_allclose(10 * np.log10(block), expected, rtol=1e-12)


def test_orbit_takes_heard_senders_and_holds_lost_packets(
    clone,
):
    (realisation,) = data.orbit(clone[0])
    assert realisation.group == "1-2"
    gain = np.concatenate([realisation.past, realisation.gain], axis=1)
    assert (gain.shape, realisation.past.shape) == ((10, 300), (10, 100))
    # sender 1 lost a fifth, and 11 is one too many
    for link, sender in enumerate([0, *range(2, 11)]):
        path = clone[0] / data.RUTGERS / f"Results_node{sender:02}" / "sdec1-2"
        sent = dict(np.loadtxt(path))
        expected = []
        for t in range(300):
            heard = sent.get(t, 255) < 128
            expected.append(sent[t] - 95 - 20 if heard else expected[-1])
        np.testing.assert_allclose(10 * np.log10(gain[link]), expected)


def test_only_hindsight_sees_a_round_before_it_comes(few):
    problem, past = links.problem_of(few[0])
    gain = problem.min_gain.copy()
    gain[30:] /= 3
    changed = Problem(problem.scenario, gain, links.BUDGET)
    foresees = set()
    for name, method in links.methods(problem.scenario, past).items():
        before, after = (method(each).schedule(each) for each in (problem, changed))
        if (before != after)[:30].any():
            foresees.add(name)
    assert foresees == {"Optimal", *(name + HINDSIGHT for name in TUNED)}


def test_the_command_makes_every_table_and_says_whose_data_it_was(
    clone, few, tmp_path, monkeypatch
):
    # the exact epsilon of the others takes a second each
    monkeypatch.setattr(links, "EXACT", ("Optimal", "EqualAlloc"))
    monkeypatch.setattr(links, "SCALES", (10.0, np.nan))
    chosen = [few[0]._replace(trace=links.SCALED)]
    monkeypatch.setattr(links, "realisations", lambda source: chosen)
    make("links", tmp_path, source=clone[0])
    stored = load(tmp_path / "leakage").set_index("policy")
    again = links.links_table(chosen).set_index("policy").dropna(subset="cost")
    columns = ["cost", "rdp", "epsilon", "exact"]
    np.testing.assert_allclose(
        stored.loc[again.index, columns], again[columns], rtol=1e-5
    )
    assert stored.exact.notna().sum() == 2
    about = tomllib.loads((tmp_path / "leakage.provenance.toml").read_text())
    assert about["source"] == MADE["links"].states["source"]


COMMITTED = load("links/leakage")


def test_no_measurement_is_kept():
    """Of the links only what is derived: of one of fourteen groups the extremes and the median, round by round."""
    assert {path.name for path in FOLDER.iterdir()} == {
        *(f"{name}{end}" for name in TABLES for end in (".csv", ".provenance.toml")),
    }
    assert len(pd.read_csv(FOLDER / "example.csv")) == 75
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 150_000


def test_hard_budgets_are_kept_on_measured_links():
    hard = COMMITTED[COMMITTED.policy.str.contains(", hard")]
    assert len(hard) > 500
    assert (hard.cost <= 1 + 1e-9).all()
    assert (
        COMMITTED[COMMITTED.policy.str.endswith(HINDSIGHT)].cost.dropna() - 1
    ).abs().max() < 1e-5
