"""What the tests of the pages share: `html` and `book`, built once a run; `browser` and `page`, the system's Chromium.

ADASCALE_BOOK names a folder of pages that are built already. ADASCALE_BROWSER=required: no browser is an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, SoupStrainer
from filelock import FileLock
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def html(tmp_path_factory):
    """The folder of the pages, by the command that a reader types, once a run; seconds where executions are cached."""
    if "ADASCALE_BOOK" in os.environ:
        return Path(os.environ["ADASCALE_BOOK"]).resolve()
    if Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        pytest.skip("`make book` works in .venv, these tests do not: run `make test`")
    # make's own variables would tie this make to the one that may be running it; another PYTHON would remake .venv
    left_out = (
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
        "OMP_NUM_THREADS",
    )  # the last one is that of the tests
    environment = {
        key: value for key, value in os.environ.items() if key not in left_out
    }
    environment |= {"PYTHON": str(Path(sys.executable).resolve()), "NO_COLOR": "1"}
    run = (
        tmp_path_factory.getbasetemp().parent
        if "PYTEST_XDIST_WORKER" in os.environ
        else tmp_path_factory.getbasetemp()
    )
    with FileLock(run / "book.lock"):
        if not (run / "book").exists():
            result = subprocess.run(
                ["make", "-s", "book"],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert result.returncode == 0, result.stderr[-10_000:]
            (run / "book").touch()
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def book(html):
    """The pages by name, parsed; of pages of source code only what they load."""
    loads = SoupStrainer(
        [
            "script",
            "style",
            "link",
            "img",
            "iframe",
            "source",
            "video",
            "audio",
            "embed",
            "object",
        ]
    )
    return {
        path.relative_to(html).with_suffix("").as_posix(): BeautifulSoup(
            path.read_text(),
            "html.parser",
            parse_only=loads if "_modules" in path.parts else None,
        )
        for path in html.rglob("*.html")
        if "_static" not in path.parts
    }


@pytest.fixture(
    scope="module"
)  # not longer: while it is open, no other test of this process can run an event loop
def browser():
    """Chromium, without a window."""
    found = [
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ]
    if not found:
        words = "no Chromium is installed (chromium, chromium-browser or google-chrome): the pages are not opened"
        pytest.fail(words) if os.environ.get(
            "ADASCALE_BROWSER"
        ) == "required" else pytest.skip(words)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=found[0], args=["--no-sandbox"]
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A new tab of a new reader, 1440 by 900; `page.goto(f"file://{html}/book/NAME.html")`."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()
