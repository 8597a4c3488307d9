"""What the tests of the pages share: `html` and `book`, built once a run; `browser` and `page`, the system's Chromium.

ADASCALE_BOOK names a folder of pages that are built already. ADASCALE_BROWSER=required: no browser is an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from filelock import FileLock
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
# make's own variables would tie this make to the one that may be running it; the last one is that of the tests
LEFT_OUT = "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "OMP_NUM_THREADS"


@pytest.fixture(scope="session")
def html(tmp_path_factory):
    """The folder of the pages, by the command that a reader types, once a run; seconds where executions are cached."""
    if "ADASCALE_BOOK" in os.environ:
        return Path(os.environ["ADASCALE_BOOK"]).resolve()
    if Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        pytest.skip("`make book` makes .venv: call `make test`, or name ADASCALE_BOOK")
    environment = os.environ | {
        "PYTHON": str(Path(sys.executable).resolve()),  # another would remake .venv
        "NO_COLOR": "1",
    }
    for name in LEFT_OUT:
        environment.pop(name, None)
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with FileLock(folder / "book.lock"):
        if not (folder / "book").exists():
            result = subprocess.run(
                ["make", "-s", "book"],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert result.returncode == 0, result.stderr[-10_000:]
            (folder / "book").touch()
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def book(html):
    """The pages by name, parsed, but for those of source code."""
    pages = {}
    for path in html.rglob("*.html"):
        if not {"_static", "_modules"} & {*path.parts}:
            name = path.relative_to(html).with_suffix("").as_posix()
            pages[name] = BeautifulSoup(path.read_text(), "html.parser")
    return pages


# not longer: while it is open, no other test of this process can run an event loop
@pytest.fixture(scope="module")
def browser():
    """Chromium, without a window."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        is_required = os.environ.get("ADASCALE_BROWSER") == "required"
        stop = pytest.fail if is_required else pytest.skip
        stop("no Chromium is installed: the pages are not opened")
    with sync_playwright() as playwright:
        chromium = playwright.chromium
        browser = chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A new tab of a new reader, 1440 by 900; `page.goto(f"file://{html}/book/NAME.html")`."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()
