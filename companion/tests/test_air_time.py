"""The floors of a round during which the channel changes."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

mpl.use("agg")
from companion import figures
from companion.theory.air_time import block_floors

SCALES = np.array([0.5, 0.3, 0.2])  # omega = 1


def uniform(floor, scale):
    """The p-value of a Fréchet law of shape 1 and this scale."""
    return stats.kstest(np.exp(-scale / floor), "uniform").pvalue


@pytest.mark.parametrize("blocks", [1, 2, 13])
def test_a_limit_in_every_block_multiplies_the_scale_by_the_blocks(blocks):
    floors = block_floors(np.random.default_rng(blocks), SCALES, blocks, 4000)
    assert uniform(floors.one, 1) > 0.01
    assert uniform(floors.limit_in_blocks, blocks) > 0.01
    if blocks > 1:
        assert uniform(floors.limit_in_blocks, 1) < 1e-6  # negative control


def test_the_other_rules_keep_the_tail_and_raise_the_bulk():
    floors = block_floors(np.random.default_rng(0), SCALES, 13, 100_000)
    for rule in (floors.one, floors.limit_on_energy, floors.own_scaling):
        assert abs(np.mean(rule > 100) - 0.01) < 0.002  # about six standard errors, and the tail's own second order
    assert np.mean(floors.limit_in_blocks > 100) > 0.1  # negative control: J omega / w
    medians = [np.median(rule) for rule in floors]
    assert medians[0] < medians[2] < medians[3] < medians[1]


def test_with_one_block_all_rules_are_the_paper_s_model():
    one, *others = block_floors(np.random.default_rng(1), SCALES, 1, 50)
    for rule in others:
        np.testing.assert_array_equal(rule, one)


def test_a_permutation_keeps_the_energy_limit_that_a_concentrated_gradient_breaks_without_it():
    rng, blocks, d = np.random.default_rng(2), 4, 64
    gain = rng.exponential(size=blocks)
    per_slot = np.repeat(1 / gain, d // blocks)
    gradient = np.zeros(d)
    gradient[: d // blocks] = np.sqrt(blocks / d)  # norm 1, all of it in the first block
    allowed = per_slot.mean()  # the mean energy of a permuted gradient of norm 1
    permuted = np.mean([per_slot @ gradient[rng.permutation(d)] ** 2 for _ in range(20_000)])
    assert abs(permuted / allowed - 1) < 0.02
    worst = np.roll(gradient, (d // blocks) * int(gain.argmin()))
    assert per_slot @ worst**2 > 1.2 * allowed  # negative control: not permuted


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("scales", ([1.0, -1.0], 2, 3)), ("num_blocks", ([1.0], 0, 3)), ("num_rounds", ([1.0], 2, 0))],
)
def test_what_is_no_scale_or_no_number_is_refused(name, arguments):
    with pytest.raises(ValueError, match=name):
        block_floors(np.random.default_rng(0), *arguments)


def test_the_diagram_of_a_round_marks_what_the_server_chooses():
    figure = figures.one_round()
    orange = [text.get_text() for text in figure.axes[0].texts if text.get_color() == "#D55E00"]
    assert len(orange) == 4
    assert all("eta_t" in text for text in orange)
