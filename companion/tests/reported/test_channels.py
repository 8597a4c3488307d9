"""What chapters 14 and 15 say in words of the committed tables, and that their numbers are read off as they say."""

from pathlib import Path

import pandas as pd
import pytest

from adascale.channel import BlockFading, Rayleigh, TappedDelayLine
from adascale.statistics import interval
from companion.causal import measured_links as links
from companion.causal import worlds as channels
from companion.causal.fresh import HINDSIGHT
from companion.causal.link_data import COMMIT, SOURCE
from companion.reported import channels as other
from companion.theory.rounds_inside import ONE_GAIN, inside_table
from companion.training import estimates

RESULTS = Path(__file__).parents[3] / "results"
CHAPTERS = Path(__file__).parents[3] / "notebooks"


@pytest.fixture(scope="module")
def worlds():
    return channels.read(RESULTS / "channels/table.csv")


@pytest.fixture(scope="module")
def middle(worlds):
    kept = channels.kept(worlds)
    return kept[kept.nu == channels.MIDDLE].set_index(["world", "policy"])


@pytest.fixture(scope="module")
def measured():
    return links.read(RESULTS / "links/leakage.csv")


@pytest.fixture(scope="module")
def found(measured):
    return links.summary(measured).set_index(["trace", "policy"])


def test_where_the_law_is_known_nothing_is_to_be_gained(middle):
    for world in channels.KNOWN:
        for policy in other.KNOWING:
            assert middle.rdp[world, policy] < 1.03
            assert abs(middle.cost[world, policy] - 1) < 0.01


def test_where_the_law_is_wrong_learning_keeps_nu_and_leaks_less(worlds, middle):
    hard = channels.against(worlds, "Learn, hard", "ReSolve, coherent, hard").set_index(["world", "nu"])
    for world in other.WRONG:
        assert abs(middle.cost[world, "Learn"] - 1) < 0.005
        assert hard.high[world, channels.MIDDLE] < 1


def test_a_warm_queue_is_ahead_in_slow_fading_and_motion(worlds, middle):
    def low(above, below):
        return channels.against(worlds, above, below).set_index(["nu", "world"]).low[channels.MIDDLE]

    assert (low("AdaScale", "AdaScale, warm") > 1).all()
    assert (low("Learn", "AdaScale, warm")[[other.SLOW, other.MOVING, "Jakes, 0.1 Hz"]] > 1).all()
    assert low("ConstantLevel", "AdaScale, warm")[other.MOVING] > 1
    assert low("ReSolve, hard", "ReSolve, coherent, hard")[other.SLOW] > 1
    assert middle.rdp[other.SLOW, "ConstantLevel"] < middle.rdp[other.SLOW, "AdaScale, warm"]
    assert middle.spread[other.SLOW, "ConstantLevel"] > 3 * middle.spread[other.SLOW, "AdaScale, warm"]
    assert middle.rdp[other.SLOW, "Learn, coherent, hard"] > middle.rdp[other.SLOW, "EqualAlloc"]


def test_two_blocks_double_the_floor_and_a_narrow_band_does_nothing():
    cases = {
        ("MNIST", ONE_GAIN): Rayleigh(),
        ("MNIST", "2 blocks, energy anywhere"): BlockFading(blocks=2),
        ("MNIST", "16 subcarriers over 100 kHz, even"): TappedDelayLine(subcarriers=16),
    }
    floor = inside_table(0.04, range(30), cases).floor["MNIST"]
    assert abs(floor["2 blocks, energy anywhere"] / floor[ONE_GAIN] - 2) < 0.1  # thirty realisations
    assert abs(floor["16 subcarriers over 100 kHz, even"] / floor[ONE_GAIN] - 1) < 0.05


def test_estimates_cost_accuracy_with_ten_pilots_at_the_smallest_nu_alone():
    table = estimates.read(RESULTS / "channels/estimates.csv")
    digits = estimates.compared(table, "digits")
    compared = digits[digits.kind == "mmse"].dropna(subset=["lost"])
    clear = compared[(compared.low > 0) | (compared.high < 0)]
    assert [*zip(clear.error, clear.nu, strict=True)] == [("10 pilots", 0.01)]


def test_in_hindsight_liu_and_simeone_lead_unless_a_count_is_a_decibel_or_floors_are_higher(measured, found):
    ada, power = "AdaScale" + HINDSIGHT, "PowerControl" + HINDSIGHT
    lead = other.leads(measured, ada, power)
    for trace in other.REAL:
        assert found.epsilon[trace, power] < found.epsilon[trace, ada]
        assert interval(lead[trace].groupby("group").mean().to_numpy()).low > 0
    assert found.epsilon[other.COUNTED, power] > found.epsilon[other.COUNTED, ada]
    scaled = pd.read_csv(RESULTS / "links/scales.csv").set_index(["scale", "policy"]).epsilon[10.0]
    assert scaled[ada] < scaled[power]
    look = pd.read_csv(RESULTS / "links/first_look.csv")
    sixth = look[(look.sampling == 6) & (look.unit == "CC1000")][["AdaScale", "PowerControl"]].max()
    assert sixth.PowerControl < sixth.AdaScale


def test_re_solving_runs_dry_where_floors_have_fallen(measured):
    statistics = pd.read_csv(RESULTS / "links/statistics.csv")
    dry = other.ran_dry(measured, statistics)
    assert len(dry) > 0
    assert (dry.drift_db < -1).all()


def test_the_chapter_fetches_the_commit_that_the_tables_were_made_from():
    text = (CHAPTERS / "15_measured_links.md").read_text()
    assert f"https://github.com/sensorlab/link-quality-estimation links && git -C links checkout {COMMIT[:7]}" in text
    assert SOURCE.endswith("sensorlab/link-quality-estimation")
    evidence = pd.read_csv(RESULTS / "links/evidence.csv", index_col="what").value
    assert evidence.until > 5 * evidence.since > 0


def test_the_commands_for_links_of_one_s_own_are_those_that_the_page_has_run():
    text = (CHAPTERS / "15_measured_links.md").read_text()
    ran = text.split('COMMANDS = r"""\n')[1].split('"""')[0]
    assert f"```sh\n{ran}```" in text
    assert ran.count("\n") == 3
