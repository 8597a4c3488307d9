"""Settings of every test: figures need no screen, and hypothesis draws the same few examples on every machine.

With several workers, one of them begins with the book; its pages are opened last, by whichever worker is free.

`pytest --fuzz` is the long run: thousands of examples, other ones each time, and the tests that are marked `fuzz`.
`pytest --partial` skips, by name, what needs a package that is not installed, such as PyTorch.
"""

import logging
import os
import re

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
# PyTorch here and in what tests start: they run side by side, and more threads than cores wait for each other
os.environ["OMP_NUM_THREADS"] = "1"
# unless a test says otherwise, approx is relative alone: with pytest's own 1e-12, a leak of 1e-13 would be any other
type(pytest.approx(1.0)).DEFAULT_ABSOLUTE_TOLERANCE = 0.0
# deadline: the first example of a compiled function includes its compilation
settings.register_profile("adascale", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("adascale")
# for make check
settings.register_profile("few", deadline=None, derandomize=True, max_examples=10)


# that something is compiled is said once a process: here by whichever test comes first, where nothing was compiled
logging.getLogger("adascale.compiled").disabled = True


def pytest_addoption(parser):
    group = parser.getgroup("adascale")
    group.addoption(
        "--fuzz",
        action="store_true",
        help="thousands of random examples, and the tests marked fuzz",
    )
    group.addoption(
        "--partial",
        action="store_true",
        help="skip what needs a package that is not installed",
    )
    group.addoption(
        "--fuzz-examples",
        type=int,
        default=2000,
        metavar="N",
        help="examples a property under --fuzz",
    )


def pytest_configure(config):
    if config.getoption("--fuzz"):
        examples = config.getoption("--fuzz-examples")
        settings.register_profile(
            "fuzz",
            deadline=None,
            derandomize=False,
            max_examples=examples,
            print_blob=True,
        )
        settings.load_profile("fuzz")


OPENED = (
    "tests/book/test_browser.py",
    "tests/book/test_explorer_page.py",
    "tests/book/test_opening.py",
)


def pytest_collection_modifyitems(config, items):
    items.sort(
        key=lambda item: (
            2 * item.nodeid.startswith(OPENED) - item.nodeid.startswith("tests/book/")
        )
    )
    if not config.getoption("--fuzz"):
        left = [item for item in items if item.get_closest_marker("fuzz")]
        items[:] = [item for item in items if not item.get_closest_marker("fuzz")]
        if left:
            config.hook.pytest_deselected(items=left)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """As --dist loadfile, with tests/book but OPENED taken for one file, and each half of the pages for another.

    (loadgroup does nothing under pytest 9.2.)
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneWorkerForTheBook(LoadFileScheduling):
        def _split_scope(self, nodeid):
            built = nodeid.startswith("tests/book/") and not nodeid.startswith(OPENED)
            half = re.search(r"no_page_has_this_fault\[.*(even|odd)", nodeid)
            return (
                "tests/book"
                if built
                else half[1]
                if half
                else super()._split_scope(nodeid)
            )

    return OneWorkerForTheBook(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return skipped_if_lacking(report, collector)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    return skipped_if_lacking(report, item)


LACKING = re.compile(r"No module named '(?!adascale|companion)([\w.]+)'")


def skipped_if_lacking(report, node):
    """The report of a test or file; skipped if it failed as a package of others is not installed, under --partial."""
    lacking = LACKING.search(f"{report.longrepr} {report.sections}")
    if report.failed and lacking and node.config.getoption("--partial"):
        report.outcome = "skipped"
        report.longrepr = (str(node.path), None, f"{lacking[1]} is not installed")
    return report
