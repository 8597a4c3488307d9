"""Measured channels in array files: which axis is what, and which single gain a device has in a round."""

import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adascale.channel.multi_gain import effective_gain
from adascale.channel.reading import AXES, DECIBELS, Reading
from adascale.checks import FloatArray
from adascale.scenario import Scenario
from adascale.tables import Table, error_at
from adascale.text import short

Array = NDArray[Any]

_MATLAB, _HDF5 = (b"MATLAB 5.0", b"MATLAB 7.3"), b"\x89HDF"
_STARTS = (*_MATLAB, _HDF5, b"\x93NUMPY", b"PK\x03\x04")


def is_array(data: bytes) -> bool:
    """Say whether the content of a file is that of NumPy, MATLAB or HDF5."""
    return data.startswith(_STARTS)


def read_array(data: bytes, path: str, scenario: Scenario, reading: Reading) -> Table:
    """Read the content of a ``.npy``, ``.npz``, ``.mat`` or ``.h5`` file as a table with a row per round."""
    try:
        array = _load(data)
        if isinstance(array, dict):
            array = _variable(array, reading.variable)
        kinds = {"linear": "iufc", "csi": "c"}.get(reading.unit, "iuf")
        if array.dtype.kind not in kinds or not array.size:
            raise ValueError(f"got {array.dtype} of shape {array.shape}")
        ordered = _in_order(array, reading.axes, scenario)
        values = _one_gain(ordered, scenario, reading)
    except Exception as error:  # each of the libraries raises many different errors
        reason = " ".join(str(error).split())
        message = f"cannot be read as numbers ({reading.unit}): {reason}"
        raise error_at(path, 0, message) from None
    links = [f"device {m + 1}" for m in range(scenario.num_devices)]
    return Table(values, links, path, np.zeros(len(values), dtype=int))


def _load(data: bytes) -> Array | dict[str, Array]:
    """Return the array of a file, or its arrays by their names."""
    stream = io.BytesIO(data)
    if data.startswith(_MATLAB[0]):
        from scipy.io import loadmat

        return dict(_flat(loadmat(stream)))
    if data.startswith((_MATLAB[1], _HDF5)):
        return _load_hdf5(stream, from_matlab=data.startswith(_MATLAB[1]))
    loaded = np.load(stream, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        return {name: loaded[name] for name in loaded.files if "/" not in name}
    if stream.read():
        raise ValueError("the file goes on after its first array")
    return loaded


def _flat(items: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a MATLAB file, and those of its structures as ``structure/field``."""
    for name, item in items.items():
        fields = getattr(getattr(item, "dtype", None), "names", None)
        if fields and item.size == 1:
            inner = {f"{name}/{field}": item[field].item() for field in fields}
            yield from _flat(inner)
        else:
            yield name, item


def _load_hdf5(stream: io.BytesIO, from_matlab: bool) -> dict[str, Array]:
    """Return the arrays of an HDF5 file; MATLAB stores their axes in reverse order."""
    try:
        import h5py
    except ImportError:
        raise ValueError("HDF5 files need the package h5py") from None
    arrays = dict[str, Array]()

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            array = item[()]
            if array.dtype.names == ("real", "imag"):
                array = array["real"] + 1j * array["imag"]
            arrays[name] = array.T if from_matlab else array

    with h5py.File(stream, "r") as file:
        file.visititems(add)
    return arrays


def _variable(arrays: dict[str, Array], name: str | None) -> Array:
    """Return the array of this name, or the only one that may hold gains."""
    numeric = [
        key
        for key, array in arrays.items()
        if getattr(array, "size", 0) > 1 and array.dtype.kind in "iufc"
    ]
    if name is None and len(numeric) == 1:
        return arrays[numeric[0]]
    if name not in arrays:
        listed = short(", ".join(sorted(numeric)))
        raise ValueError(f"--variable must name one of the arrays {listed}")
    return arrays[name]


def _in_order(array: Array, axes: str | None, scenario: Scenario) -> Array:
    """Return the array with the seven axes of :data:`AXES`, in this order.

    ``axes`` are their names, with commas.  Axes of the same name are joined, and an axis without one has the size 1.
    """
    devices, shape = scenario.num_devices, array.shape
    names = []
    if axes is not None:
        names = axes.split(",")
    elif shape.count(devices) == 1:
        names = ["device", "round"] if shape[0] == devices else ["round", "device"]
    if len(names) != array.ndim:
        expected = f"--axes must say what each axis is, of {', '.join(AXES)}"
        raise ValueError(f"got shape {shape} for {devices} devices; {expected}")
    # the axes of the array that become each axis of the result: none, one or more
    places = [[i for i, name in enumerate(names) if name == axis] for axis in AXES]
    sizes = [math.prod(shape[i] for i in place) for place in places]
    if sizes[1] != devices:
        raise ValueError(f"got {sizes[1]} devices, where the scenario has {devices}")
    return array.transpose([i for place in places for i in place]).reshape(sizes)


def _one_gain(array: Array, scenario: Scenario, reading: Reading) -> FloatArray:
    r"""Return one value per round and device, shape (T, M), in the unit of an array with the axes of :data:`AXES`.

    .. math:: |h_m|^2 = \min_n \sum_a \Big\lvert \sum_p h_{m,n,a,p} \Big\rvert^2

    over the paths p, the transmit antennas a, which the device weights by their conjugate coefficients, and the
    subcarriers n; or the harmonic mean over these (:func:`effective_gain`).  The server listens with the one receive
    antenna on which the weakest device is strongest.
    """
    is_complex = array.dtype.kind == "c"
    if array.shape[-1] > 1 and not is_complex:
        raise ValueError("got real numbers, but paths add up only as complex ones")
    decibels = reading.unit in DECIBELS and max(array.shape[2:]) > 1
    sign = -1 if reading.unit == "loss" else 1
    # each step removes the last axis: paths, transmit antennas, even-subcarriers, subcarriers, receive antennas
    amplitude = array.astype(complex).sum(axis=-1)
    with np.errstate(all="ignore"):
        power = amplitude.real
        if is_complex:
            power = amplitude.real**2 + amplitude.imag**2
        # sums need linear powers; a single value in decibels stays as it is
        power = 10 ** (sign * power / 10) if decibels else power
        power = power.sum(axis=-1)
        for energy in ("even", "anywhere"):
            several = power.shape[-1] > 1
            power = effective_gain(power, energy) if several else power[..., 0]
        weight = scenario.power_share / scenario.batch_second_moment
        scaled = (power.T * weight[..., None]).T
        # a missing value counts as 0
        best = np.nan_to_num(scaled).min(axis=1).argmax(axis=-1)
        power = np.take_along_axis(power, best[:, None, None], axis=-1)[..., 0]
        return sign * 10 * np.log10(power) if decibels else power
