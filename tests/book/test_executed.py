"""What an execution leaves for a reader of the pages: each chapter as a notebook to download, and the status page."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.book


def test_each_chapter_offers_its_executed_notebook(book, html):
    for path in NOTEBOOKS:
        page = book[f"notebooks/{path.stem}"]
        (link,) = (tag["href"] for tag in page.select(".dropdown-download-buttons a") if tag["href"].endswith(".ipynb"))
        offered = (html / "notebooks" / link).read_bytes()
        assert offered == path.read_bytes()
        assert any(cell.get("outputs") for cell in json.loads(offered)["cells"])
    assert not book["book/notation"].select('a[href$=".ipynb"]')


def test_the_status_page_has_the_seconds_of_every_chapter(book):
    chapters, versions = book["book/status"].select("table")
    rows = [row.find_all("td") for row in chapters.select("tbody tr")]
    titles = [book[f"notebooks/{path.stem}"].find("h1").find(string=True, recursive=False) for path in NOTEBOOKS]
    assert sorted(row[0].get_text() for row in rows[:-1]) == sorted(titles)
    seconds = [int(row[-1].get_text()) for row in rows]
    assert min(seconds) > 0
    assert sum(seconds[:-1]) == seconds[-1]
    read = {row[0].get_text(): row[1].get_text() for row in rows}
    assert read["Measured links"] == "causal, links"
    assert "numpy" in versions.get_text()


def test_the_times_of_a_build_are_not_searched(html):
    assert '"book/status"' in (html / "searchindex.js").read_text()
    terms = json.loads((html / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    page = terms["docnames"].index("book/status")
    assert not any(page in ([found] if isinstance(found, int) else found) for found in terms["terms"].values())
