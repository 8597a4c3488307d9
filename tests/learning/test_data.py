"""Data sets, partitions and Poisson batches."""

import gzip
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import channel
from adascale.learning import data
from adascale.learning.seeding import BATCH, NOISE, poisson_batch, stream


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("ADASCALE_DATA", str(tmp_path))
    return tmp_path


def test_the_digits_need_no_file_and_are_split_once(nowhere):
    digits = data.load("digits", "unit")
    assert digits.images.shape == (1500, 1, 8, 8)
    assert digits.test_images.shape == (297, 1, 8, 8)
    assert digits.images.dtype == torch.float32
    assert (float(digits.images.min()), float(digits.images.max())) == (0, 1)
    assert digits.images.is_contiguous(memory_format=torch.channels_last)
    assert set(digits.labels.tolist()) == set(digits.test_labels.tolist()) == set(range(10))
    together = torch.cat([digits.images, digits.test_images]).flatten(1)
    assert torch.unique(together, dim=0).shape[0] == 1797  # no scan is in both parts
    assert torch.equal(data.load("digits", "unit").images, digits.images)


def test_standard_scaling_gives_pixels_mean_zero_and_deviation_one():
    images = data.load("digits").images
    # 2e-2: the constants have four digits, and the mean of 1,500 scans is theirs to about 1 %
    assert float(images.mean()) == pytest.approx(0, abs=2e-2)
    assert float(images.std()) == pytest.approx(1, abs=2e-2)


def local(name):
    """The data set where the reader has it; otherwise the test does not run."""
    if not (data.root() / data.FOLDERS[name]).is_dir():
        pytest.skip(f"{name} is not on this machine: set ADASCALE_DATA to a folder that holds it")
    return data.load(name)


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("mnist", (60000, 1, 28, 28), (10000, 1, 28, 28)),
        pytest.param("cifar10", (50000, 3, 32, 32), (10000, 3, 32, 32), marks=pytest.mark.slow),
    ],
)
def test_the_public_data_sets_are_read_from_their_folder(name, train, test):
    loaded = local(name)
    assert (tuple(loaded.images.shape), tuple(loaded.test_images.shape)) == (train, test)
    assert loaded.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.bincount(loaded.test_labels).sum() == 10000
    for colour in range(train[1]):  # 1e-3: the usual constants have four digits
        assert float(loaded.images[:, colour].double().mean()) == pytest.approx(0, abs=1e-3)
        assert float(loaded.images[:, colour].double().std()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_missing_data_set_says_what_to_do(nowhere, name):
    with pytest.raises(FileNotFoundError, match=rf"run 'adascale download {name}' once, or let ADASCALE_DATA") as said:
        data.load(name)
    assert str(nowhere) in str(said.value)
    assert list(nowhere.iterdir()) == []  # nothing was downloaded


@pytest.mark.parametrize("name", data.FILES)
def test_a_changed_file_is_not_read(nowhere, name):
    folder = nowhere / data.FOLDERS[name]
    folder.mkdir(parents=True)
    for file in data.FILES[name]:
        (folder / file).write_bytes(b"other digits")
    with pytest.raises(FileNotFoundError, match=f"{next(iter(data.FILES[name]))} has another checksum"):
        data.load(name)


def test_a_mirror_that_fails_says_what_to_do(nowhere, monkeypatch, capfd):
    from torchvision.datasets import CIFAR10, MNIST

    monkeypatch.setattr(MNIST, "mirrors", [(nowhere / "no-mirror").as_uri() + "/"])
    monkeypatch.setattr(CIFAR10, "url", (nowhere / "no-mirror.tar.gz").as_uri())
    for name in ("mnist", "cifar10"):
        with pytest.raises(OSError, match=rf"could not download {name} \(.+\); mirrors fail .* put the files"):
            data.download(name)


@pytest.fixture
def mirror(tmp_path_factory):
    """A folder, and the address under which a server on this machine offers it."""
    folder = tmp_path_factory.mktemp("mirror")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_a_download_with_a_wrong_checksum_is_refused(nowhere, monkeypatch, mirror, capfd):
    from torchvision.datasets import MNIST

    folder, address = mirror
    for file in data.FILES["mnist"]:
        with gzip.open(folder / f"{file}.gz", "wb") as packed:
            packed.write(b"other digits")
    monkeypatch.setattr(MNIST, "mirrors", [address])
    with pytest.raises(OSError, match="could not download mnist"):
        data.download("mnist")
    with pytest.raises(FileNotFoundError):
        data.load("mnist")


def test_the_root_is_chosen_or_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ADASCALE_DATA", "/chosen")
    assert data.root() == Path("/chosen")
    monkeypatch.delenv("ADASCALE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.root() == tmp_path / "adascale"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data.root() == Path.home() / ".cache" / "adascale"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.load("imagenet"), "dataset 'imagenet' is unknown; expected one of cifar10, digits, mnist"),
        (lambda: data.load("digits", "none"), "input_scaling must be 'unit' or 'standard', got 'none'"),
        (lambda: data.download("digits"), "dataset 'digits' is not downloaded"),
        (lambda: data.partition([0, 1], 2, "random", 0), "partition must be 'iid' or 'two-classes', got 'random'"),
        (lambda: data.partition([0, 1, 2] * 4, 2, "two-classes", 0), "got 2 devices and 3 classes"),
        (lambda: data.partition([0, 1], 0, "iid", 0), "num_devices must be a whole number >= 1, got 0"),
        (lambda: stream(-1, NOISE), "seed must be a whole number >= 0, got -1"),
        (lambda: poisson_batch(0, 0, 0, 5, float("nan")), r"rate must be in \(0, 1\], got nan"),
        (lambda: poisson_batch(0, 0, 0, 5, 1.5), r"rate must be in \(0, 1\], got 1.5"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Partitions ----------------------------------------------------------------------------------------------------------


@given(size=st.integers(3, 200), devices=st.integers(1, 12), seed=st.integers(0, 9))
def test_iid_parts_are_equal_disjoint_and_cover_everything(size, devices, seed):
    parts = data.partition(np.zeros(size), devices, "iid", seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(size))
    assert max(part.size for part in parts) - min(part.size for part in parts) <= 1


@given(per_class=st.integers(2, 12), classes=st.integers(3, 10), seed=st.integers(0, 99))
def test_two_classes_a_device_and_each_class_on_two_devices(per_class, classes, seed):
    labels = np.tile(np.arange(classes), per_class)
    parts = data.partition(labels, classes, "two-classes", seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(labels.size))
    held = [set(labels[part].tolist()) for part in parts]
    assert all(len(each) == 2 for each in held)
    assert all(sum(label in each for each in held) == 2 for label in range(classes))
    assert max(part.size for part in parts) - min(part.size for part in parts) <= per_class % 2


def test_another_seed_deals_another_partition():
    labels = np.tile(np.arange(10), 20)
    for kind in ("iid", "two-classes"):
        first, again, other = (data.partition(labels, 10, kind, seed)[0].tolist() for seed in (0, 0, 1))
        assert first == again != other


# Streams -------------------------------------------------------------------------------------------------------------


def test_streams_of_all_purposes_devices_and_rounds_differ_also_from_the_channels():
    firsts = [stream(5, purpose, m, t).random() for purpose in range(4) for m in range(5) for t in range(5)]
    firsts += [np.random.default_rng(each).random() for each in np.random.SeedSequence(5).spawn(20)]
    assert len(set(firsts)) == len(firsts)
    # channel.draw takes its streams from the same seed, by keys of length one
    drawn = channel.draw(1, 1, 5).distance[0]
    assert drawn == np.random.default_rng(np.random.SeedSequence(5).spawn(1)[0]).uniform(10, 200)


def test_a_batch_depends_on_seed_device_and_round_alone():
    batch = poisson_batch(3, 2, 7, 500, 0.1)
    assert batch.tolist() == poisson_batch(3, 2, 7, 500, 0.1).tolist()
    others = [poisson_batch(4, 2, 7, 500, 0.1), poisson_batch(3, 1, 7, 500, 0.1), poisson_batch(3, 2, 8, 500, 0.1)]
    assert all(batch.tolist() != other.tolist() for other in others)
    assert set(batch) <= set(poisson_batch(3, 2, 7, 500, 0.2))  # one draw a sample, compared with the rate


@given(
    places=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 999)), min_size=2, max_size=6, unique=True),
    seed=st.integers(0, 2**64),
    order=st.randoms(use_true_random=False),
)
def test_streams_do_not_depend_on_the_order_in_which_they_are_drawn(places, seed, order):
    first = {place: poisson_batch(seed, *place, 50, 0.5).tolist() for place in places}
    order.shuffle(places)
    assert {place: poisson_batch(seed, *place, 50, 0.5).tolist() for place in places} == first
    assert len({tuple(each) for each in first.values()}) == len(first)  # 2^-50 a pair


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
    assert stats.chi2.sf(((entered - rounds * rate) ** 2).sum() / (rounds * rate * (1 - rate)), size) > 1e-3
    # a fixed batch size, the usual shortcut, would not pass
    assert stats.chisquare(np.where(np.arange(seen.size) == 6, rounds, 0), wanted).pvalue < 1e-3


def test_empty_batches_occur_at_their_rate():
    empty = sum(poisson_batch(1, 0, t, 10, 0.1).size == 0 for t in range(2000))
    low, high = stats.binom.interval(0.999, 2000, 0.9**10)
    assert low <= empty <= high


def test_streams_name_their_purposes():
    assert stream(0, BATCH).random() != stream(0, NOISE).random()


def test_the_public_files_are_the_originals(tmp_path, monkeypatch):
    folder = data.root() / "MNIST" / "raw"
    if not folder.is_dir():
        pytest.skip("mnist is not on this machine: set ADASCALE_DATA to a folder that holds it")
    copied = tmp_path / "MNIST" / "raw"
    copied.mkdir(parents=True)
    for file in data.FILES["mnist"]:
        shutil.copyfile(folder / file, copied / file)
    with open(copied / "t10k-labels-idx1-ubyte", "r+b") as file:  # one bit of one label
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 1]))
    monkeypatch.setenv("ADASCALE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte has another checksum"):
        data.load("mnist")


def own_data(tmp_path, monkeypatch, text):
    (tmp_path / "own_data.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_data", raising=False)


def test_a_reader_of_ones_own_is_scaled_like_the_others(tmp_path, monkeypatch):
    own_data(
        tmp_path,
        monkeypatch,
        """
import numpy as np
from adascale.learning.data import RawDataset
def read():
    return RawDataset(np.full((3, 2, 4, 1), 0.5), [0, 1, 0], np.ones((1, 2, 4, 1)), [1], mean=(0.25,), deviation=(0.5,))
""",
    )
    found = data.load("own_data:read")
    assert found.images.shape == (3, 1, 2, 4)
    assert (found.images == 0.5).all()
    assert (data.load("own_data:read", "unit").images == 0.5).all()
    assert (found.test_images == 1.5).all()
    assert found.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("3", "must be read as a RawDataset, got int"),
        ("raw(y=[0, 1])", r"images must have a label each, got shapes \(3, 1, 2, 2\) and \(2,\)"),
        ("raw(ty=[[1]])", r"test_images must have a label each, got shapes \(1, 1, 2, 2\) and \(1, 1\)"),
        (
            "raw(x=np.where(np.arange(12) == 5, np.nan, 1).reshape(3, 2, 2, 1))",
            "images must be .* got another .* sample 1",
        ),
        ("raw(tx=np.full((1, 2, 2, 1), np.inf))", "test_images must be finite numbers, got another one in sample 0"),
        ("raw(x=np.ma.masked_equal(np.eye(12)[:3].reshape(3, 2, 2, 3), 1))", "images must be .*, none of them masked"),
        ("raw(x=np.full((3, 2, 2, 1), 255, np.uint8))", "images must be in .0, 1., got whole numbers from 255 to 255"),
        ("raw(x=np.full((3, 2, 2, 1), 255.0))", "images must be in .0, 1. or of order 1, got pixels from 255 to 255"),
        (
            "raw(tx=np.full((1, 2, 2, 1), -4.0))",
            "test_images must be in .0, 1. or of order 1, got pixels from -4 to -4",
        ),
        ("raw(x=np.ones((3, 2, 2, 1)), deviation=(1 / 255,))", "got pixels from 255 to 255 after mean and deviation"),
        ("raw(x=[[1, 2], [3]])", "images must be an array of numbers"),
        ("raw(x=['a', 'b', 'c'])", "images must be an array of numbers"),
        ("raw(x=np.ones((3, 2, 2, 1)) * 1j)", "images must be an array of numbers, .*, got ndarray of complex128"),
        ("raw(x=np.ones(3))", r"images must be samples, shape \(n, ...\), none of them empty, got \(3,\)"),
        ("raw(x=np.ones((3, 0)))", r"images must be samples, .* got \(3, 0\)"),
        ("raw(x=np.ones((0, 2, 2, 1)), y=[])", r"images must be samples, .* got \(0, 1, 2, 2\)"),
        ("raw(tx=np.ones((0, 2, 2, 1)), ty=[])", r"test_images must be samples, .* got \(0, 1, 2, 2\)"),
        ("raw(tx=np.ones((1, 2, 3, 1)))", r"of one shape, got \(1, 2, 2\) and \(1, 2, 3\)"),
        ("raw(y=[0, 1.5, 1])", "labels must be whole numbers, got 1.5"),
        ("raw(y=[0, np.nan, 1])", "labels must be whole numbers, got nan"),
        ("raw(y=['a', 'b', 'c'])", "labels must be an array of numbers"),
        ("raw(y=[0, -1, 1])", "images must have labels >= 0, got -1"),
        ("raw(ty=[2])", "test_labels must be classes of the training set, got 2"),
        ("raw(mean=(0.1, 0.2, 0.3))", r"mean must have one number, or one for each colour of images, .* got 3"),
        (
            "raw(x=np.ones((3, 4)), tx=np.ones((1, 4)), deviation=(1.0,) * 4)",
            "deviation must have one number, or one for",
        ),
        ("raw(deviation=(0.0,))", "deviation must be finite and > 0, got 0.0"),
        ("raw(mean=(np.nan,))", "mean and deviation must be finite numbers"),
        ("[][0]", "failed: read in own_data.py, line 6: IndexError: list index out of range"),
        (
            "read('x')",
            r"failed: read in own_data.py, line 6: TypeError: read\(\) takes 0 positional arguments but 1 was given",
        ),
    ],
)
def test_what_is_no_data_set_is_refused(tmp_path, monkeypatch, returned, said):
    source = """import numpy as np
from adascale.learning.data import RawDataset
def raw(x=np.ones((3, 2, 2, 1)), y=(0, 1, 0), tx=np.ones((1, 2, 2, 1)), ty=(1,), **scaling):
    return RawDataset(x, y, tx, ty, **scaling)
"""
    own_data(tmp_path, monkeypatch, f"{source}def read():\n    return {returned}\n")
    with pytest.raises(ValueError, match=said) as raised:
        data.load("own_data:read")
    assert "dataset 'own_data:read'" in str(raised.value)


def test_pixels_up_to_255_need_mean_and_deviation(tmp_path, monkeypatch):
    source = """import numpy as np
from adascale.learning.data import RawDataset
def read():
    images = np.arange(256.0).reshape(4, 8, 8, 1)
    return RawDataset(images, [0, 1, 0, 1], images, [0, 1, 0, 1], mean=(127.5,), deviation=(73.9,))
"""
    own_data(tmp_path, monkeypatch, source)
    assert float(data.load("own_data:read").images.std()) == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match="or of order 1, got pixels from 0 to 255"):
        data.load("own_data:read", "unit")


def test_a_class_may_be_missing_in_the_test_set_and_labels_may_be_of_any_whole_type(tmp_path, monkeypatch):
    source = """import numpy as np
from adascale.learning.data import RawDataset
def read():
    return RawDataset(np.ones((3, 5), bool), np.array([0.0, 1.0, 2.0]), np.ones((1, 5)), np.array([1], np.uint8))
thing = 3
def missing():
    return open("nowhere.npy")
"""
    own_data(tmp_path, monkeypatch, source)
    found = data.load("own_data:read")
    assert found.images.dtype == torch.float32
    assert found.labels.dtype == found.test_labels.dtype == torch.int64
    assert found.labels.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"dataset 'own_data:thing' must be a function without .*, got int"):
        data.load("own_data:thing")
    with pytest.raises(FileNotFoundError, match=r"dataset 'own_data:missing': .* 'nowhere.npy'"):
        data.load("own_data:missing")
