"""What the tests of networks and of data sets share: code of one's own, by its name."""

import sys
import types

import pytest


@pytest.fixture
def own(monkeypatch):
    """Make a function or class an attribute of a module, and return its name."""

    def name_of(value):
        module = types.ModuleType("tests_own")
        module.value = value
        monkeypatch.setitem(sys.modules, "tests_own", module)
        return "tests_own:value"

    return name_of
