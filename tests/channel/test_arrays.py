"""Array files and tables of other tools: each is read by one call, and several gains per round become one."""

import io
from dataclasses import replace

import numpy as np
import pytest

from adascale import Problem
from adascale.channel import Reading
from adascale.errors import InvalidFile, InvalidInput

from .traces import FAR, TWO, gains_of, matlab, read, saved

DEVICES, ROUNDS = TWO.num_devices, TWO.num_rounds


def coefficients(*shape):
    rng = np.random.default_rng(1)
    return 1e-5 * (rng.normal(size=shape) + 1j * rng.normal(size=shape))


def zipped(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def hdf5(as_matlab):
    """A complex array (T, M) as MATLAB 7.3 or as h5py writes it."""
    h5py = pytest.importorskip("h5py")
    value = coefficients(ROUNDS, DEVICES)
    if as_matlab:
        kind = [("real", float), ("imag", float)]
        value = np.rec.fromarrays([value.real, value.imag], dtype=kind).T
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512 * as_matlab) as table:
        table["H"] = value
    content = file.getvalue()
    return b"MATLAB 7.3 MAT-file" + content[19:] if as_matlab else content


FILES = {
    "npy": lambda h: saved(h),
    "transposed": lambda h: saved(h.T),
    "npz": lambda h: zipped(H=h, rate=1e6),
    "MATLAB": lambda h: matlab(H=h, note="roof", rate=1e6),
    "MATLAB's structure": lambda h: matlab(site={"radio": {"H": h, "rate": 1e6}}),
    "MATLAB 7.3": lambda _: hdf5(as_matlab=True),
    "HDF5": lambda _: hdf5(as_matlab=False),
}


@pytest.mark.parametrize("form", FILES)
def test_array_is_read_by_its_number_of_devices(tmp_path, form):
    value = coefficients(ROUNDS, DEVICES)
    trace = read(tmp_path, FILES[form](value), unit="csi")
    np.testing.assert_allclose(trace.gain, np.abs(value.T) ** 2, rtol=1e-12)


SQUARE = coefficients(DEVICES, DEVICES)
AMBIGUOUS = [
    (saved(SQUARE), {}, "--axes"),
    (saved(coefficients(5, DEVICES, 4)), {}, "--axes .*round, .*path"),
    (saved(SQUARE), {"axes": "device"}, "--axes"),
    (saved(coefficients(5, 3)), {"axes": "round,device"}, "3 devices"),
    (saved(np.ones((5, DEVICES, 4))), {"axes": "round,device,path"}, "complex"),
    (matlab(H=SQUARE), {"variable": "G"}, "--variable .*'H"),
    (matlab(s={"H": SQUARE, "G": SQUARE}), {}, "--variable .*s/G, s/H"),
    (zipped(text=np.array(["a", "b"])), {}, "--variable"),
    ("h_1,h_2\n1,1\n", {"columns": "h_1,h_3"}, "'h_3', got 0"),
]


@pytest.mark.parametrize(("content", "how", "named"), AMBIGUOUS)
def test_file_of_unclear_content_is_refused(tmp_path, content, how, named):
    with pytest.raises(InvalidFile, match=named):
        read(tmp_path, content, unit=Reading(**how))


@pytest.mark.parametrize(
    ("content", "name"),
    [("h_1\n1\n", "axes"), ("h_1\n1\n", "variable"), (saved(SQUARE), "columns")],
)
def test_an_option_of_another_kind_of_file_is_not_ignored(tmp_path, content, name):
    with pytest.raises(InvalidInput, match=f"^{name} is not for"):
        read(tmp_path, content, unit=Reading(**{name: "round"}))


@pytest.mark.parametrize("how", [{"axes": "time"}, {"resource_blocks": 50}])
def test_reading_of_no_meaning_is_refused(how):
    with pytest.raises(InvalidInput):
        Reading(**how)


AXES = "round,antenna,device,subcarrier,transmit,path,round"


@pytest.mark.parametrize("unit", ["csi", "db", "loss"])
def test_axes_of_a_round_become_one_gain(tmp_path, unit):
    scenario = replace(TWO, max_power=(0.2, 0.01), batch_size=(5, 40))
    h = coefficients(3, 4, DEVICES, 5, 2, 3 if unit == "csi" else 1, 2)
    decibels = 20 * np.log10(np.abs(h))
    stored = {"csi": h, "db": decibels, "loss": -decibels}[unit]
    how = Reading(unit, axes=AXES)
    trace = read(tmp_path, saved(stored), scenario, unit=how)
    weight = scenario.power_share / scenario.batch_second_moment
    # paths add up as waves, transmit antennas as powers; the weakest subcarrier counts
    gain = (np.abs(h.sum(axis=-2)) ** 2).sum(axis=-2).min(axis=-2)
    for t in range(6):
        antennas = gain[t // 2, ..., t % 2]
        best = max(antennas, key=lambda each: min(each * weight))
        np.testing.assert_allclose(trace.gain[:, t], best, rtol=1e-9)


@pytest.mark.parametrize("axis", ["subcarrier", "even-subcarrier"])
def test_gain_of_subcarriers_allows_the_largest_scaling(tmp_path, axis):
    r"""At eta_t of the floor the device of the largest power sends P: any more eta, and one exceeds it.

    The gradient lies where it costs most (one subcarrier), or evenly on all, k_m^2 ||u||^2 = k_m^2 G^2 / M^2 in all.
    """
    h = coefficients(ROUNDS, DEVICES, 8)
    how = Reading("csi", axes=f"round,device,{axis}")
    trace = read(tmp_path, saved(h), unit=how)
    problem = Problem(TWO, trace.min_gain, 1.0)
    eta = problem.eta(problem.min_noise_energy)[:, None, None]
    energy = TWO.batch_second_moment * (TWO.clip_norm / DEVICES) ** 2
    per_subcarrier = eta * energy / np.abs(h) ** 2 / TWO.num_parameters
    power = (np.max if axis == "subcarrier" else np.mean)(per_subcarrier, axis=-1)
    np.testing.assert_allclose(power.max(axis=-1), TWO.max_power, rtol=1e-12)


VALUES = np.random.default_rng(2).normal([-80, -90, -85, -100], 6, (60, 4)).round(1)
PHONES = "".join(
    f"2024.05.01_12.{t:02d}.{m:02d},-8.{t},51.9,UE{m},{value},-11,{m}\n"
    for t, row in enumerate(VALUES)
    for m, value in enumerate(row)
)
RUNS = "".join(
    f"{m},{t + 1},{-140},{value},IN-A\n"
    for m, column in enumerate(VALUES.T)
    for t, value in enumerate(column)
)
EXCEL = "sep=;\n" + "".join(
    f"{t};{';'.join(map(str, row))};good\n" for t, row in enumerate(VALUES)
)
TABLES = {
    "a phone's drive test": (
        f"Timestamp,Longitude,Latitude,Device,RSRP,RSRQ,CQI\n{PHONES}",
        {"columns": "time=Timestamp,link=Device,value=RSRP", "round_time": 60},
    ),
    "numbered runs": (
        f"run_num,seq_num,lte_rsrp,nr_ssRsrp,tower\n{RUNS}",
        {"columns": "link=run_num,round=seq_num,value=nr_ssRsrp"},
    ),
    "Excel": (
        EXCEL.replace("sep=;\n", "sep=;\nNo;AP1;AP2;AP3;AP4;remark\n"),
        {"columns": "round=No,AP1,AP2,AP3,AP4"},
    ),
}


@pytest.mark.parametrize("tool", TABLES)
def test_table_of_a_tool_is_read_by_one_call(tmp_path, tool):
    content, how = TABLES[tool]
    expected = 10 ** ((VALUES.T - FAR["transmit_power"]) / 10)
    np.testing.assert_allclose(gains_of(tmp_path, content, **how), expected)


def test_power_of_an_element_is_compared_with_its_share(tmp_path):
    content, how = TABLES["numbered runs"]
    elements = gains_of(tmp_path, content, **how, resource_blocks=50)
    band = np.array(gains_of(tmp_path, content, **how))
    np.testing.assert_allclose(elements, band * 600, rtol=1e-12)
