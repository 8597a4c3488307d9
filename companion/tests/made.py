"""What lies beside a committed table."""

import tomllib


def assert_made_by(table, command, **what):
    """Its provenance has this command, these constants, and where and with what it ran."""
    made = tomllib.loads(table.with_suffix(".provenance.toml").read_text())
    assert {"command": command, **what}.items() <= made.items()
    assert {"version", "commit", "machine", "python", "numpy", "numba", "wall_seconds"} <= {*made}
