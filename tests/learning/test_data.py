"""Data sets, partitions and Poisson batches."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import channel
from adascale.learning import data
from adascale.learning.seeding import NOISE, poisson_batch, stream


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("ADASCALE_DATA", str(tmp_path))
    return tmp_path


def test_the_digits_need_no_file_and_are_split_once_and_scaled(nowhere):
    digits = data.load("digits", "unit")
    assert digits.images.shape == (1500, 1, 8, 8)
    assert digits.test_images.shape == (297, 1, 8, 8)
    assert digits.images.dtype == torch.float32
    assert (float(digits.images.min()), float(digits.images.max())) == (0, 1)
    assert digits.images.is_contiguous(memory_format=torch.channels_last)
    assert (
        set(digits.labels.tolist())
        == set(digits.test_labels.tolist())
        == set(range(10))
    )
    together = torch.cat([digits.images, digits.test_images]).flatten(1)
    assert torch.unique(together, dim=0).shape[0] == 1797  # no scan is in both parts
    assert torch.equal(data.load("digits", "unit").images, digits.images)
    images = data.load("digits").images
    # 2e-2: the constants have four digits, and the mean of 1,500 scans is theirs to about 1 %
    assert float(images.mean()) == pytest.approx(0, abs=2e-2)
    assert float(images.std()) == pytest.approx(1, abs=2e-2)


@pytest.mark.parametrize(
    "name", ["mnist", pytest.param("cifar10", marks=pytest.mark.slow)]
)
def test_public_data_sets_are_read_from_their_folder(name):
    count, image = {"mnist": (60000, (1, 28, 28)), "cifar10": (50000, (3, 32, 32))}[
        name
    ]
    if not (data.root() / data.FOLDERS[name]).is_dir():
        pytest.skip(
            f"{name} is not on this machine: set ADASCALE_DATA to a folder that holds it"
        )
    loaded = data.load(name)
    assert (loaded.images.shape, loaded.test_images.shape) == (
        (count, *image),
        (10000, *image),
    )
    assert loaded.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.bincount(loaded.test_labels).sum() == 10000
    for colour in range(image[0]):  # 1e-3: the usual constants have four digits
        deviation, mean = torch.std_mean(loaded.images[:, colour])
        assert (float(mean), float(deviation)) == (
            pytest.approx(0, abs=1e-3),
            pytest.approx(1, abs=1e-3),
        )


def test_samples_of_a_data_set_in_colour_are_scaled_by_255_with_the_colour_first(
    nowhere, monkeypatch
):
    pixels = np.arange(2 * 3 * 5 * 3, dtype=np.uint8).reshape(2, 3, 5, 3)
    read = SimpleNamespace(data=pixels, targets=[1, 0])
    monkeypatch.setattr("torchvision.datasets.CIFAR10", lambda *_, **__: read)
    monkeypatch.setitem(data.FILES, "cifar10", {})
    loaded = data.load("cifar10", "unit")
    torch.testing.assert_close(
        loaded.images, torch.as_tensor(pixels).movedim(3, 1) / 255
    )
    assert loaded.test_labels.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_missing_data_set_says_what_to_do_and_a_changed_file_is_not_read(
    nowhere, name
):
    with pytest.raises(
        FileNotFoundError,
        match=rf"import {name.upper()}; .*, download=True\)\", or let",
    ) as said:
        data.load(name)
    assert str(nowhere) in str(said.value)
    assert list(nowhere.iterdir()) == []  # nothing was downloaded
    folder = nowhere / data.FOLDERS[name]
    folder.mkdir(parents=True)
    for file in data.FILES[name]:
        (folder / file).write_bytes(b"other digits")
    with pytest.raises(FileNotFoundError, match="has another checksum"):
        data.load(name)


def test_the_root_is_chosen_or_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ADASCALE_DATA", "/chosen")
    assert data.root() == Path("/chosen")
    monkeypatch.delenv("ADASCALE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.root() == tmp_path / "adascale"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data.root() == Path.home() / ".cache" / "adascale"


def test_without_a_home_the_variable_is_named_that_gives_a_root(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("ADASCALE_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(data.Path, "home", no_home)
    with pytest.raises(FileNotFoundError, match="ADASCALE_DATA"):
        data.root()


def test_bad_input_is_named():
    for name, call in [
        ("dataset", lambda: data.load("imagenet")),
        ("input_scaling", lambda: data.load("digits", "none")),
        ("partition", lambda: data.partition([0, 1], 2, "random", 0)),
        ("two-classes", lambda: data.partition([0, 1, 2] * 4, 2, "two-classes", 0)),
        ("num_devices", lambda: data.partition([0, 1], 0, "iid", 0)),
        *(
            (
                "partition",
                lambda bad=bad: data.partition([0, 1], 2, f"dirichlet{bad}", 0),
            )
            for bad in ("", ":a=1")
        ),
        *(
            ("concentration", lambda bad=bad: dealt([0, 1], 2, bad))
            for bad in (0, -1, "nan", "few", 1e-4, "[1, 2]")
        ),
        (
            "partition: 1,000 draws left a device too few of 20 samples",
            lambda: dealt([0, 1] * 10, 2, 1, least=11),
        ),
        ("seed", lambda: stream(-1, NOISE)),
        ("rate", lambda: poisson_batch(0, 0, 0, 5, float("nan"))),
    ]:
        with pytest.raises(ValueError, match=f"^{name} "):
            call()


@given(size=st.integers(3, 200), devices=st.integers(1, 12), seed=st.integers(0, 9))
def test_iid_parts_are_equal_disjoint_and_cover_everything(size, devices, seed):
    parts = data.partition(np.zeros(size), devices, "iid", seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(size))
    assert max(part.size for part in parts) - min(part.size for part in parts) <= 1


@given(
    per_class=st.integers(2, 12), classes=st.integers(3, 10), seed=st.integers(0, 99)
)
def test_two_classes_a_device_and_each_class_on_two_devices(per_class, classes, seed):
    labels = np.tile(np.arange(classes), per_class)
    parts = data.partition(labels, classes, "two-classes", seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(labels.size))
    held = [set(labels[part].tolist()) for part in parts]
    assert all(len(each) == 2 for each in held)
    assert all(sum(label in each for each in held) == 2 for label in range(classes))
    assert (
        max(part.size for part in parts) - min(part.size for part in parts)
        <= per_class % 2
    )


def dealt(labels, devices, concentration, seed=0, least=1):
    return data.partition(
        labels, devices, f"dirichlet:concentration={concentration}", seed, least
    )


@given(
    labels=st.lists(st.integers(0, 5), min_size=60, max_size=200),
    least=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    concentration=st.floats(0.3, 1e6),
    seed=st.integers(0, 99),
)
def test_dirichlet_parts_hold_every_sample_once_and_enough_for_a_batch(
    labels, least, concentration, seed
):
    parts = dealt(labels, len(least), concentration, seed, least)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    assert all(
        part.size >= size and (np.diff(part) > 0).all()
        for part, size in zip(parts, least, strict=True)
    )


@pytest.mark.parametrize("concentration", [0.3, 30.0])
def test_shares_of_a_class_have_the_moments_of_the_dirichlet_law(concentration):
    shares = np.array(
        [
            [p.size / 500 for p in dealt(np.zeros(500), 4, concentration, s, 0)]
            for s in range(800)
        ]
    )
    law = stats.dirichlet([concentration] * 4)
    np.testing.assert_allclose(shares.mean(axis=0), law.mean(), atol=0.05)
    np.testing.assert_allclose(
        shares.var(axis=0), law.var(), rtol=0.2
    )  # 800 seeds; about 5 % of noise


def test_another_seed_deals_another_partition():
    labels = np.tile(np.arange(10), 20)
    for kind in ("iid", "two-classes", "dirichlet:concentration=1"):
        first, again, other = (
            data.partition(labels, 10, kind, seed)[0].tolist() for seed in (0, 0, 1)
        )
        assert first == again != other


def test_streams_of_all_purposes_devices_and_rounds_differ_also_from_the_channels():
    firsts = [
        stream(5, purpose, m, t).random()
        for purpose in range(4)
        for m in range(5)
        for t in range(5)
    ]
    firsts += [
        np.random.default_rng(each).random()
        for each in np.random.SeedSequence(5).spawn(20)
    ]
    assert len(set(firsts)) == len(firsts)
    # channel.draw takes its streams from the same seed, by keys of length one
    drawn = channel.draw(1, 1, 5).distance[0]
    assert drawn == np.random.default_rng(
        np.random.SeedSequence(5).spawn(1)[0]
    ).uniform(10, 200)


PLACES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 999)),
    min_size=2,
    max_size=6,
    unique=True,
)


@given(PLACES, st.integers(0, 2**64), st.randoms(use_true_random=False))
def test_streams_do_not_depend_on_the_order_in_which_they_are_drawn(
    places, seed, order
):
    first = {place: poisson_batch(seed, *place, 50, 0.5).tolist() for place in places}
    order.shuffle(places)
    assert {
        place: poisson_batch(seed, *place, 50, 0.5).tolist() for place in places
    } == first
    assert len({tuple(each) for each in first.values()}) == len(first)  # 2^-50 a pair
    for place, batch in first.items():  # one draw a sample, compared with the rate
        assert set(batch) <= set(poisson_batch(seed, *place, 50, 0.7).tolist())


def test_batch_sizes_are_binomial_and_samples_enter_equally_often():
    size, rate, rounds = 40, 0.15, 4000
    batches = [poisson_batch(0, 0, t, size, rate) for t in range(rounds)]
    # chi-square tests at a fixed seed; 1e-3: one seed in a thousand would miss it, and this one does not
    counts = np.bincount([batch.size for batch in batches], minlength=15)
    expected = rounds * stats.binom.pmf(np.arange(counts.size), size, rate)
    kept = expected > 5
    seen = np.append(counts[kept], counts[~kept].sum())
    wanted = np.append(expected[kept], rounds - expected[kept].sum())
    assert stats.chisquare(seen, wanted).pvalue > 1e-3
    entered = np.bincount(np.concatenate(batches), minlength=size)
    assert (
        stats.chi2.sf(
            ((entered - rounds * rate) ** 2).sum() / (rounds * rate * (1 - rate)), size
        )
        > 1e-3
    )
    # a fixed batch size, the usual shortcut, would not pass
    assert (
        stats.chisquare(np.where(np.arange(seen.size) == 6, rounds, 0), wanted).pvalue
        < 1e-3
    )


def raw(x=None, y=(0, 1, 0), tx=None, ty=(1,), **scaling):
    x = np.ones((3, 2, 2, 1)) if x is None else x
    tx = np.ones((1, 2, 2, 1)) if tx is None else tx
    return data.RawDataset(x, y, tx, ty, **scaling)


def test_a_reader_of_ones_own_is_scaled_like_the_others(own):
    halves, ones = np.full((3, 2, 4, 1), 0.5), np.ones((1, 2, 4, 1))
    name = own(lambda: raw(halves, tx=ones, mean=(0.25,), deviation=(0.5,)))
    found = data.load(name)
    assert found.images.shape == (3, 1, 2, 4)
    assert (found.images == 0.5).all()
    assert (data.load(name, "unit").images == 0.5).all()
    assert (found.test_images == 1.5).all()
    assert found.labels.tolist() == [0, 1, 0]
    seen = np.array(
        [1], np.uint8
    )  # labels of any whole type, of which the test set may lack one
    found = data.load(
        own(
            lambda: raw(
                np.ones((3, 5), bool), np.array([0.0, 1.0, 2.0]), np.ones((1, 5)), seen
            )
        )
    )
    assert found.images.dtype == torch.float32
    assert found.labels.dtype == found.test_labels.dtype == torch.int64
    assert found.labels.tolist() == [0, 1, 2]


REFUSED_SAMPLES = {
    "images": [
        {"x": np.ones(3)},
        {"x": np.ones((3, 0))},
        {"x": np.full((3, 2, 2, 1), 255, np.uint8)},
        {"y": [0, 1]},
    ]
    + [
        {"x": np.where(np.arange(12) == 5, np.nan, 1).reshape(3, 2, 2, 1)},
        {"x": np.full((3, 2, 2, 1), 255.0)},
    ]
    + [
        {"x": np.ma.masked_equal(np.eye(12)[:3].reshape(3, 2, 2, 3), 1)},
        {"x": [[1, 2], [3]]},
        {"y": [0, -1, 1]},
    ]
    + [
        {"x": np.ones((3, 2, 2, 1)) * 1j},
        {"x": np.ones((0, 2, 2, 1)), "y": []},
        {"deviation": (1 / 255,)},
    ],
    "test_images": [
        {"ty": [[1]]},
        {"tx": np.full((1, 2, 2, 1), np.inf)},
        {"tx": np.full((1, 2, 2, 1), -4.0)},
    ]
    + [{"tx": np.ones((0, 2, 2, 1)), "ty": []}, {"tx": np.ones((1, 2, 3, 1))}],
    "labels": [{"y": [0, 1.5, 1]}, {"y": [0, np.nan, 1]}, {"y": ["a", "b", "c"]}],
    "test_labels": [{"ty": [2]}],
    "mean": [{"mean": (0.1, 0.2, 0.3)}, {"mean": (np.nan,)}],
    "deviation": [
        {"x": np.ones((3, 4)), "tx": np.ones((1, 4)), "deviation": (1.0,) * 4},
        {"deviation": (0.0,)},
    ],
}


def test_what_is_no_data_set_is_refused(own):
    for argument, each in REFUSED_SAMPLES.items():
        for wrong in each:
            name = own(lambda wrong=wrong: raw(**wrong))
            with pytest.raises(ValueError, match=f"^dataset '{name}': {argument} "):
                data.load(name)
    for read, said in (
        (lambda: 3, "must be read as a RawDataset"),
        (3, "must be a function without .*, got int$"),
    ):
        with pytest.raises(ValueError, match=f"^dataset 'tests_own:made' {said}"):
            data.load(own(read))
    with pytest.raises(
        FileNotFoundError, match=r"nowhere.npy"
    ):  # an error of one's own code is left as it is
        data.load(own(lambda: np.load("nowhere.npy")))
