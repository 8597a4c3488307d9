"""Measured traces that the tests of their readers share."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.io import savemat

from adascale import Scenario
from adascale.channel import GainLines, Reading, read_gains
from adascale.errors import InvalidFile

TWO = Scenario("two", 2, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)
SITE = replace(TWO, num_devices=4, num_rounds=60)
NAMES = ["ue1", "ue2", "ue3", "ue10"]
SENT = 23.0
FAR = {"unit": "dbm", "transmit_power": SENT}


def read(tmp_path, content, scenario=TWO, **options):
    path = tmp_path / "trace"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_gains(path, scenario, **options)


def gains_of(tmp_path, content, **how):
    """The gains of the four devices of SITE."""
    return read(tmp_path, content, SITE, unit=Reading(**FAR | how)).gain.tolist()


def by_line(text, scenario=TWO, **options):
    """The traces of the lines that are read, the numbers of rounds, and the lines that are refused."""
    lines = GainLines("here", scenario, **options)
    traces, numbers, refused = [], [], []
    for line in text.removesuffix("\n").encode().split(b"\n"):
        try:
            trace = lines.trace(line)
        except InvalidFile as error:
            refused.append(error.line)
            if not lines.columns:
                break
            continue
        if trace:
            traces.append(trace)
            numbers.append(lines.place.get("round"))
    return traces, numbers, refused


def saved(array):
    """An array as the content of a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def matlab(**arrays):
    """Arrays as the content of a file of MATLAB."""
    file = io.BytesIO()
    savemat(file, arrays)
    return file.getvalue()


def aligned(rounds=60, lost=()):
    """Received powers in dBm, a row a round, with NaN where one is lost."""
    rng = np.random.default_rng(0)
    value = rng.normal([-80, -90, -85, -100], 6, (rounds, 4)).round(2)
    for t, m in lost:
        value[t, m] = np.nan
    return value


def wide_form(value, when, name="time"):
    """A row a round."""
    frame = pd.DataFrame(value, pd.Index(when, name=name), NAMES)
    return frame.to_csv()


def long_frame(value, when, name):
    """A row a value that is there; ``when`` has the time of each value, or of each round."""
    when = np.broadcast_to(np.reshape(when, (len(value), -1)), value.shape)
    columns = {
        name: when.ravel(),
        "link": NAMES * len(value),
        "value": value.ravel(),
    }
    return pd.DataFrame(columns).dropna()


def long_form(value, when, name="time"):
    return long_frame(value, when, name).to_csv(index=False)


def outer_join(value, when):
    """The long form, pivoted: a row a time, in which one link has a value."""
    frame = long_frame(value, when, "time")
    return frame.pivot(index="time", columns="link", values="value").to_csv()
