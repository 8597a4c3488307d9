"""Events from tables and logs of trainings, in memory and in files."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from adascale.accounting import epsilon, read_events
from adascale.accounting.opacus import CertifiedAccountant
from adascale.errors import InvalidFile, InvalidInput

ROWS = np.array([[0.01, 1.0, 500], [0.02, 1.5, 1]])
HISTORY = [(1.0, 0.01, 500), (1.5, 0.02, 1)]
FRAME = pd.DataFrame(ROWS, columns=["sample_rate", "noise_multiplier", "num_steps"])
OURS = FRAME.set_axis(["rate", "sigma", "count"], axis=1)
STATE = {"history": HISTORY, "mechanism": "rdp"}
CHECKPOINT = {"module_state_dict": {}, "privacy_accountant_state_dict": STATE}


def accountant():
    made = CertifiedAccountant()
    made.history = [*HISTORY]
    return made


@pytest.mark.parametrize(
    "source",
    [
        FRAME,
        OURS,
        OURS.assign(round=[0, 1]),
        FRAME.to_dict("list"),
        FRAME.to_dict("records"),
        CHECKPOINT,
        accountant(),
    ],
)
def test_logs_in_memory_are_events(source):
    np.testing.assert_array_equal(read_events(source), ROWS)


def test_numbers_in_a_mapping_stand_for_every_row():
    one = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}
    assert read_events(one).tolist() == [[0.01, 1.0, 10.0]]
    many = read_events({"sigma": [1.0, 1.5], "rate": 0.01})
    assert many.tolist() == [[0.01, 1.0, 1.0], [0.01, 1.5, 1.0]]


FILES = {
    "ours.csv": OURS.to_csv(index=False),
    "records.json": FRAME.to_json(orient="records"),
    "columns.json": json.dumps(FRAME.to_dict("list")),
    "lines.jsonl": FRAME.to_json(orient="records", lines=True),
    "history.jsonl": "[1.0, 0.01, 500]\n[1.5, 0.02, 1]\n",
    "state.json": json.dumps(STATE, indent=1),
}


@pytest.mark.parametrize("name", FILES)
def test_logs_in_files_are_events(tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name])
    np.testing.assert_array_equal(read_events(path), ROWS)
    assert epsilon(str(path), 1e-5) == epsilon(ROWS, 1e-5)


def test_a_checkpoint_of_opacus_is_read_without_running_its_code(tmp_path):
    path = tmp_path / "run.pt"
    torch.save(CHECKPOINT, path)
    np.testing.assert_array_equal(read_events(path), ROWS)
    torch.save({"history": HISTORY, "code": accountant()}, path)
    with pytest.raises(InvalidFile, match=r"run\.pt is no checkpoint"):
        read_events(path)


WIDE = FRAME.set_axis(["q", "Noise", "num_steps"], axis=1).assign(step=1, loss=0.5)
NAMED = {"rate": "q", "sigma": "Noise"}


def test_named_columns_are_read_from_a_wider_table(tmp_path):
    path = tmp_path / "wide.csv"
    WIDE.to_csv(path, index=False)
    for source, error in ((WIDE, InvalidInput), (path, InvalidFile)):
        np.testing.assert_array_equal(read_events(source, NAMED), ROWS)
        found = read_events(source, {"sigma": "Noise", "rate": 0.3, "count": "step"})
        np.testing.assert_array_equal(found, [[0.3, 1.0, 1], [0.3, 1.5, 1]])
        with pytest.raises(error):
            read_events(source)  # nothing is left out unasked


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        (FRAME.assign(count=1), None),  # two columns of counts
        (FRAME, {"rate": 0.1}),  # a number and a column
        (FRAME, {"sigma": "noise"}),
        (FRAME[["sample_rate"]], None),
        ([{"rate": 0.1, "sigma": 1}, {"rate": 0.1}], None),
        ({"rate": ["0.1"], "sigma": [1.0]}, None),
        ({"history": [(1.0, 0.1)]}, None),
        ({"sigma": [1.0, 1.5], "rate": [0.01] * 3}, None),
    ],
)
def test_an_ambiguous_log_is_refused(source, columns):
    with pytest.raises(InvalidInput) as error:
        read_events(source, columns)
    assert error.value.argument


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("sigma,rate\n1,0.1\n0,0.1\n", r", line 3: .* got 0 in sigma"),
        ("sigma,rate,loss\n1,0.1,2\n", ", line 1: got the columns 'sigma,rate,loss'"),
        ('{"history": []}', " has no rows"),
        ('{"a": 1}\n{"a": 2\n', ", line 2 is not valid JSON"),
        ('[[1.0, "x", 3]]', ": history must be"),
        ("PK broken", " is no checkpoint"),
    ],
)
def test_a_bad_log_is_named_with_its_line(tmp_path, text, place):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(InvalidFile, match=f"log{place}"):
        read_events(path)
