"""What the tests of networks and of data sets share: code of one's own, by its name."""

import sys
import types

import pytest


@pytest.fixture
def own(monkeypatch):
    """The name of what is made a module's."""

    def name_of(made):
        module = types.ModuleType("tests_own")
        module.made = made
        monkeypatch.setitem(sys.modules, "tests_own", module)
        return "tests_own:made"

    return name_of
