"""What the tests of hostile arguments and of hostile names in TOML files share: a scenario, gains, and what is said."""

import contextlib
import io
import sys

import pytest

from adascale import Scenario

from ..command import run

SMALL = Scenario("small", 2, 4, 1000, 20, 400, 1.0, 0.2, 1e-12).to_toml()
GAINS = "h2_1,h2_2\n1e-10,2e-10\n3e-11,4e-11\n"


def outcome(arguments):
    """The exit code of a command, what it printed, and the lines of standard error that are no notes."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GAINS.encode())))
        code = run(*arguments)
    return code, out.getvalue(), [line for line in err.getvalue().split("\n") if line and not line.startswith("note: ")]
