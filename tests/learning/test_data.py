"""Data sets, partitions and Poisson batches."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import channel
from adascale.learning import data
from adascale.learning.data import RawDataset, partition
from adascale.learning.seeding import poisson_batch, stream


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("ADASCALE_DATA", str(tmp_path))
    return tmp_path


def test_digits_need_no_file_and_are_split_once(nowhere):
    digits = data.load("digits", "unit")
    assert (len(digits.images), len(digits.test_images)) == (1500, 297)
    assert (digits.images.min(), digits.images.max()) == (0, 1)
    scans = torch.cat([digits.images, digits.test_images]).flatten(1)
    assert len(torch.unique(scans, dim=0)) == 1797  # no scan is in both parts
    assert torch.equal(data.load("digits", "unit").images, digits.images)


@pytest.mark.parametrize(
    ("name", "shape", "tolerance"),
    [
        # four digits of the constants; the digits' are of all scans, not of these 1,500
        ("digits", (1500, 1, 8, 8), 2e-2),
        ("mnist", (60000, 1, 28, 28), 1e-3),
        pytest.param("cifar10", (50000, 3, 32, 32), 1e-3, marks=pytest.mark.slow),
    ],
)
def test_data_sets_have_mean_0_and_deviation_1(name, shape, tolerance):
    try:
        images = data.load(name).images
    except FileNotFoundError:
        pytest.skip(f"{name} is not on this machine")
    assert images.shape == shape
    assert images.is_contiguous(memory_format=torch.channels_last)
    deviation, mean = torch.std_mean(images, dim=(0, 2, 3))
    assert mean.abs().max() < tolerance
    assert (deviation - 1).abs().max() < tolerance


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_missing_files_say_what_to_do(nowhere, name):
    advice = (
        rf"no usable {name} in {nowhere}; .* import {name.upper()}; .*download=True"
    )
    with pytest.raises(FileNotFoundError, match=advice):
        data.load(name)


# Partitions -----------------------------------------------------------------------------------------------------------


def assert_is_partition(parts, size):
    assert sorted(np.concatenate(parts).tolist()) == list(range(size))
    assert all((np.diff(part) > 0).all() for part in parts)


@given(size=st.integers(3, 200), devices=st.integers(1, 12), seed=st.integers(0, 9))
def test_iid_parts_are_equal_disjoint_and_cover_everything(size, devices, seed):
    parts = partition(np.zeros(size), devices, "iid", seed)
    assert_is_partition(parts, size)
    assert np.ptp([part.size for part in parts]) <= 1


@given(
    per_class=st.integers(2, 12), classes=st.integers(3, 10), seed=st.integers(0, 99)
)
def test_two_classes_per_device_and_two_devices_per_class(per_class, classes, seed):
    labels = np.tile(np.arange(classes), per_class)
    parts = partition(labels, classes, "two-classes", seed)
    assert_is_partition(parts, labels.size)
    has_class = np.array([np.isin(np.arange(classes), labels[part]) for part in parts])
    assert (has_class.sum(axis=0) == 2).all()
    assert (has_class.sum(axis=1) == 2).all()


@given(
    labels=st.lists(st.integers(0, 5), min_size=60, max_size=200),
    least=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    concentration=st.floats(0.3, 1e6),
    seed=st.integers(0, 99),
)
def test_dirichlet_parts_are_large_enough(labels, least, concentration, seed):
    kind = f"dirichlet:concentration={concentration}"
    parts = partition(labels, len(least), kind, seed, least)
    assert_is_partition(parts, len(labels))
    assert (np.array([part.size for part in parts]) >= least).all()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("random", "^partition must be"),
        ("dirichlet:a=1", "^partition must be"),
        ("dirichlet:concentration=0", "^concentration must be"),
        ("dirichlet:concentration=1", "1,000 draws left a device fewer than 7 of 12"),
        ("two-classes", "^two-classes needs as many devices as classes"),
    ],
)
def test_impossible_partitions_are_refused(kind, message):
    with pytest.raises(ValueError, match=message):
        partition([0, 1, 2] * 4, 2, kind, 0, least=7)


# Random streams -------------------------------------------------------------------------------------------------------


def test_streams_differ_from_each_other_and_from_those_of_the_channel():
    firsts = [stream(5, *place).random() for place in np.ndindex(4, 5, 5)]
    # those of the channel begin with the distances
    firsts += [(d - 10) / 190 for d in channel.draw(20, 1, 5).distance.tolist()]
    assert len({round(first, 9) for first in firsts}) == 4 * 5 * 5 + 20


@given(st.integers(0, 2**64), st.integers(0, 9), st.integers(0, 999))
def test_a_batch_depends_on_its_place_and_grows_with_the_rate(seed, device, t):
    batch = poisson_batch(seed, device, t, 50, 0.5).tolist()
    other = poisson_batch(seed, device, t + 1, 50, 0.5).tolist()
    assert batch != other  # 2^-50
    assert poisson_batch(seed, device, t, 50, 0.5).tolist() == batch
    # one draw a sample, compared with the rate
    assert {*batch} <= {*poisson_batch(seed, device, t, 50, 0.7).tolist()}


def test_batch_sizes_are_binomial_and_samples_enter_equally_often():
    batches = [poisson_batch(0, 0, t, 40, 0.15) for t in range(4000)]
    sizes = [batch.size for batch in batches]
    law = stats.binom(40, 0.15)
    # at a fixed seed; 1e-3: one seed in a thousand would miss it, and this one does not
    usual = np.arange(1, 13)
    counts, expected = np.bincount(sizes)[usual], 4000 * law.pmf(usual)
    terms = (counts - expected) ** 2 / expected
    assert stats.chi2.sf(terms.sum(), usual.size) > 1e-3
    shifted = (counts[1:] - expected[:-1]) ** 2 / expected[:-1]  # the control
    assert stats.chi2.sf(shifted.sum(), usual.size) < 1e-3
    entries = np.bincount(np.concatenate(batches), minlength=40)
    z = (entries - 4000 * 0.15) / np.sqrt(4000 * 0.15 * 0.85)
    assert stats.chi2.sf((z**2).sum(), 40) > 1e-3


# Your own data sets ---------------------------------------------------------------------------------------------------

IMAGES = np.ones((3, 2, 2, 1))
LABELS = (0, 1, 0)
RAW = RawDataset(IMAGES, LABELS, IMAGES[:1], (1,))


def test_own_images_are_scaled_and_stay_as_they_are(own):
    images = np.full((3, 2, 4, 1), 0.5, np.float32)
    raw = RawDataset(images, LABELS, 2 * images[:1], (1,), (0.25,), (0.5,))
    name = own(lambda: raw)
    dataset = data.load(name)
    assert torch.equal(dataset.images, torch.full((3, 1, 2, 4), 0.5))
    assert (dataset.test_images == 1.5).all()
    for same in data.load(name, "unit").images, images:
        assert (same == 0.5).all()


REFUSED = [
    ("images", {"images": np.where(np.eye(4)[:3], np.nan, 1)}),
    ("images", {"images": np.full((3, 2, 2, 1), 255, np.uint8)}),
    ("labels", {"labels": [0, 1]}),
    ("labels", {"labels": [0, 1.5, 1]}),
    ("test_labels", {"test_labels": [-1]}),
    ("images", {"mean": (0.1, 0.2, 0.3)}),
    ("images", {"deviation": (np.nan,)}),
]


@pytest.mark.parametrize(("argument", "change"), REFUSED)
def test_what_is_no_data_set_is_refused(own, argument, change):
    name = own(lambda: RAW._replace(**change))
    with pytest.raises(ValueError, match=f"^dataset '{name}': {argument} "):
        data.load(name)


def test_reader_must_return_a_raw_data_set(own):
    with pytest.raises(ValueError, match="must be read as a RawDataset, got int"):
        data.load(own(lambda: 3))
    with pytest.raises(ValueError, match=r"^input_scaling must be"):
        data.load("digits", "none")


@pytest.mark.parametrize("kind", ["iid", "two-classes", "dirichlet:concentration=1"])
def test_partition_depends_on_the_seed_alone(kind):
    labels = np.tile(np.arange(10), 20)
    first, again, other = (
        partition(labels, 10, kind, seed)[0].tolist() for seed in (0, 0, 1)
    )
    assert first == again != other
