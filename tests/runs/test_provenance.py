"""What is written beside a table that is no sweep's."""

import tomllib

import numpy as np

from adascale import __version__
from adascale.runs.provenance import write_provenance


def test_the_provenance_of_a_table_lies_beside_it_with_its_command_and_versions(tmp_path):
    path = write_provenance(tmp_path / "table.csv", "make it", "numpy", threads=2, absent=None)
    assert path == tmp_path / "table.provenance.toml"
    written = tomllib.loads(path.read_text())
    assert written["command"] == "make it"
    assert written["threads"] == 2
    assert written["version"] == __version__
    assert written["numpy"] == np.__version__
    assert "absent" not in written
