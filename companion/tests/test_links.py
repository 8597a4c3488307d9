"""Measured links: how the public files become rounds, that no method looks ahead, and what the committed tables say."""

import itertools
import tomllib

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem
from companion.__main__ import RESULTS as MADE
from companion.__main__ import make
from companion.causal import link_data as data
from companion.causal import measured_links as links
from companion.causal.fresh import HINDSIGHT
from companion.results import folder, load

FOLDER = folder() / "links"
TABLES = [name.removesuffix(".csv") for name in MADE["links"].files.split()]
SAMPLES = 260


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder like the clone, of made-up links: its broadcasts are known, and so is what ORBIT lost."""
    folder, rng = tmp_path_factory.mktemp("clone"), np.random.default_rng(19)
    rows, times = [], []
    for _ in range(data.NODES):
        when = np.cumsum(rng.integers(3, 8, SAMPLES))
        when = when[when < SAMPLES]
        level = rng.integers(30, 120, (data.NODES - 1, 1))
        # +-1, so that all thirteen readings of a broadcast differ from those before
        sent = level + np.cumsum(
            rng.choice([-1, 1], (data.NODES - 1, when.size)), axis=1
        ).clip(-15, 15)
        block = np.zeros((data.NODES - 1, SAMPLES), dtype=int)
        for k, t in enumerate(when):
            block[:, t:] = sent[:, [k]]
        rows.append(block)
        times.append(when)
    path = folder / data.MICHIGAN
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in np.concatenate(rows)))
    for sender in range(12):
        path = folder / data.RUTGERS / f"Results_node{sender:02}" / "sdec1-2"
        path.parent.mkdir(parents=True)
        reading = rng.integers(18, 24, 300)
        lost = (
            {7, 8} if sender == 0 else set(range(0, 300, 5)) if sender == 1 else set()
        )
        path.write_text(
            "".join(
                f"{t} {255 if t == 9 else reading[t]}\n"
                for t in range(300)
                if t not in lost
            )
            + "300 1\n"
        )
        (path.parent / "sdec3-4").write_text("")
    return folder, np.concatenate(rows), times


@pytest.fixture(scope="module")
def few(clone):
    """One short realisation of each kind."""
    motes = data.michigan(clone[0])
    return [
        data.held(motes, 60)[0],
        data.heard(motes, 12, 10)[0],
        data.orbit(clone[0], 250)[0],
    ]


def test_a_count_is_a_voltage_that_falls_with_the_power():
    assert data.cc1000_dbm(np.array(0.0)) == -45.5
    for count in (13, 80, 180):
        volts = 3.0 * count / 1024
        assert data.cc1000_dbm(np.array(count)) == pytest.approx(
            -50.0 * volts - 45.5, rel=1e-15
        )
    weakest = data.cc1000_dbm(np.array(180.0))
    assert (
        -105 < weakest < -70
    )  # within what the radio can hear; the same count of eight bits is below thermal noise
    assert 4 * (weakest + 45.5) - 45.5 < -121


def test_the_motes_file_begins_where_each_has_been_heard_and_a_block_changes_where_its_mote_was(
    clone,
):
    folder, rows, times = clone
    gain, start = data.michigan(folder), max(when[0] for when in times)
    assert start > 0
    np.testing.assert_allclose(
        10 * np.log10(gain), data.cc1000_dbm(rows[:, start:].astype(float)), rtol=1e-12
    )
    raw = rows.reshape(data.NODES, data.NODES - 1, -1)
    for block, when, each in zip(data.broadcasts(gain), times, raw, strict=True):
        kept = [start, *when[when > start]]
        np.testing.assert_allclose(
            10 * np.log10(block),
            data.cc1000_dbm(each[:, kept].astype(float)),
            rtol=1e-12,
        )


def test_windows_follow_each_other_and_the_past_is_all_before(clone):
    motes = data.michigan(clone[0])
    for found in (data.held(motes, 60), data.heard(motes, 12, 10)):
        groups = {each.group for each in found}
        assert len(groups) in (5, data.NODES)
        for group in groups:
            windows = [each for each in found if each.group == group]
            assert [each.window for each in windows] == [*range(1, len(windows) + 1)]
            for before, after in itertools.pairwise(windows):
                np.testing.assert_array_equal(
                    after.past, np.concatenate([before.past, before.gain], axis=1)
                )


def test_of_orbit_only_senders_that_were_heard_are_taken_and_a_lost_packet_is_held(
    clone,
):
    (found,) = data.orbit(clone[0])
    assert (found.group, found.past.shape, found.gain.shape) == (
        "1-2",
        (10, 100),
        (10, 200),
    )
    folder = clone[0] / data.RUTGERS
    for link, sender in enumerate(
        [0, *range(2, 11)]
    ):  # 1 lost a fifth, and 11 is one too many
        lines = (
            (folder / f"Results_node{sender:02}" / "sdec1-2").read_text().split("\n")
        )
        sent = {int(line.split()[0]): int(line.split()[1]) for line in lines if line}
        last, wanted = None, []
        for t in range(300):
            last = sent[t] if sent.get(t, 255) < 128 else last
            wanted.append(last - 95 - 20)
        np.testing.assert_allclose(
            10 * np.log10(np.concatenate([found.past, found.gain], axis=1)[link]),
            wanted,
        )


def test_the_scale_is_the_median_floor_of_the_past(few):
    for each in few:
        problem, past = links.problem_of(each, 3.0)
        scenario = problem.scenario
        floor = scenario.noise_scale / (scenario.x_max * scenario.min_gain(past))
        assert np.median(floor) == pytest.approx(3 * links.reference_floor(), rel=1e-12)
        plain, _ = links.problem_of(each, np.nan)
        np.testing.assert_array_equal(plain.min_gain, scenario.min_gain(each.gain))
        ratio = problem.min_noise_energy / plain.min_noise_energy
        np.testing.assert_allclose(ratio, ratio[0])


def test_no_method_sees_a_round_before_it_comes(few):
    each = few[0]
    problem, past = links.problem_of(each)
    half = problem.num_rounds // 2
    other = problem.min_gain.copy()
    other[half:] = other[half:][::-1] / 3
    changed = ReceiveScalingProblem(problem.scenario, other, links.BUDGET)
    mean_gain = past.mean(axis=-1) / problem.scenario.batch_second_moment
    ahead = []
    for name, method in links.methods(problem.scenario, past).items():
        before, after = (
            method(one, mean_gain).schedule(one)[:half] for one in (problem, changed)
        )
        if (before != after).any():
            ahead.append(name)
    assert all(name == "Optimal" or name.endswith(HINDSIGHT) for name in ahead)
    assert {"Optimal", "AdaScale" + HINDSIGHT} <= {
        *ahead
    }  # those that are tuned on the future do change


def test_statistics_are_those_of_a_plain_loop(few):
    for each, row in zip(few, links.links_statistics(few).itertuples(), strict=True):
        weakest = [min(each.gain[:, t]) for t in range(each.gain.shape[1])]
        floor = [1 / one for one in weakest]
        mean = sum(floor) / len(floor)
        products = sum((a - mean) * (b - mean) for a, b in itertools.pairwise(floor))
        assert row.lag1 == pytest.approx(
            products / sum((a - mean) ** 2 for a in floor), rel=1e-9
        )
        assert row.floor_spread_db == pytest.approx(
            np.std([10 * np.log10(one) for one in weakest]), rel=1e-9
        )
        devices = [int(np.argmin(each.gain[:, t])) for t in range(each.gain.shape[1])]
        assert row.same == max(devices.count(one) for one in devices) / len(devices)


def test_the_summary_averages_windows_before_the_interval():
    table = pd.DataFrame(
        {
            "trace": "a",
            "group": ["1", "1", "2"],
            "window": [1, 2, 1],
            "scale": 1.0,
            "policy": "p",
        }
    )
    table["cost"], table["rdp"] = [1.0, 1.2, 0.8], [1.0, 3.0, 4.0]
    table["epsilon"], table["exact"] = [1.0, 1.0, 2.0], np.nan
    (row,) = links.summary(table).itertuples()
    assert (row.realisations, row.cost, row.over, row.most) == (3, 1.0, 1 / 3, 1.2)
    assert row.rdp == pytest.approx(8 / 3)
    assert (row.rdp_low + row.rdp_high) / 2 == pytest.approx(
        3.0
    )  # of the groups' 2 and 4
    assert row.epsilon_worst == 2


def test_the_command_makes_every_table_and_says_whose_data_it_was(
    clone, few, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        links, "EXACT", ("Optimal", "EqualAlloc")
    )  # the others take a second each
    monkeypatch.setattr(links, "SCALES", (10.0, np.nan))
    chosen = [few[0]._replace(trace=links.SCALED)]
    monkeypatch.setattr(links, "realisations", lambda source: chosen)
    make("links", tmp_path, source=clone[0])
    table = load(tmp_path / "leakage").astype(
        {"group": str}
    )  # here they are all numbers
    again = links.links_table(chosen)
    assert table.policy.nunique() == len(table) == again.cost.notna().sum()
    merged = table.merge(
        again, on=["trace", "group", "window", "policy"], suffixes=("", "_again")
    )
    for column in ("cost", "rdp", "epsilon", "exact"):
        np.testing.assert_allclose(merged[column], merged[f"{column}_again"], rtol=1e-5)
    assert merged.exact.notna().sum() == 2
    scaled = pd.read_csv(tmp_path / "scales.csv")
    assert {*scaled.scale.dropna()} == {1.0, 10.0}
    assert scaled.scale.isna().any()
    said = tomllib.loads((tmp_path / "links.provenance.toml").read_text())
    assert (said["source"], said["source_commit"]) == (data.SOURCE, data.COMMIT)
    assert sorted(said["tables"]) == sorted(f"{name}.csv" for name in TABLES)
    assert all((tmp_path / each).is_file() for each in said["tables"])


COMMITTED = load("links/leakage")


def test_no_measurement_is_kept():
    """Of the links only what is derived: of one of fourteen groups the extremes and the median, round by round."""
    said = tomllib.loads((FOLDER / "links.provenance.toml").read_text())
    assert (said["source_commit"], len(said["original"])) == (data.COMMIT, 2)
    assert "GPL-3.0" in said["licence"]
    assert {path.name for path in FOLDER.iterdir()} == {
        "links.provenance.toml",
        *(f"{name}.csv" for name in TABLES),
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


def test_the_optimum_leaks_least_of_those_that_spend_no_more():
    within = COMMITTED[COMMITTED.cost <= 1 + 1e-9]
    assert (within.rdp >= 1 - 1e-9).all()
    assert (COMMITTED.rdp < 1).any()  # those that spend more may leak less
