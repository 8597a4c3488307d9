"""The built pages: all there, readable without a network, every number and reference resolved."""

import importlib
import re
from pathlib import Path
from pkgutil import resolve_name, walk_packages
from types import FunctionType
from urllib.parse import urlsplit

import pytest
import yaml

import adascale

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
FILES = [
    page["file"]
    for part in TOC["parts"]
    for chapter in part["chapters"]
    for page in (chapter, *chapter.get("sections", ()))
]
PAGES = [TOC["root"], *FILES]
API = [page for page in PAGES if page.startswith("book/api/")]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]

pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def articles(book):
    """The pages of the contents, without what is around the text."""
    return {name: book[name].find("article") or book[name] for name in PAGES}


def test_every_page_of_the_contents_is_built(articles):
    for name, page in articles.items():
        assert page.find("h1"), name


# a reference whose target is missing stays a code element with the role's class
UNRESOLVED = ".problematic, .system-message, code.xref.eq, code.xref.prf-ref"
UNRESOLVED += ", code.xref.std-numref, code.xref.std-ref"


def test_no_reference_or_glued_number_is_left_unresolved(articles):
    for name, page in articles.items():
        assert not page.select(UNRESOLVED), name
        text = re.sub(r"(?s)<(code|pre)\b.*?</\1>", "", str(page))
        roles = r"\{(glue|eq|numref|ref|doc|cite|prf)\b[^}]*\}|undefined label"
        assert not re.search(roles, re.sub(r"<[^>]*>", " ", text)), name


def test_every_link_inside_the_book_leads_to_a_place_that_is_there(html, book):
    ids = {name: {tag["id"] for tag in page.select("[id]")} for name, page in book.items()}  # fmt: skip
    count = 0
    for name in PAGES:
        for link in book[name].select("article a.internal[href]"):
            address = urlsplit(link["href"])
            path = ((html / name).parent / address.path).resolve()
            target = path if address.path else html / f"{name}.html"
            assert target.exists(), f"{name}: {link}"
            page = target.relative_to(html).with_suffix("").as_posix()
            if address.fragment and page in ids:
                assert address.fragment in ids[page], f"{name}: {link}"
                count += 1
    assert count > 1000


def test_every_figure_says_in_words_what_it_shows(articles):
    images = [
        (name, image) for name in PAGES for image in articles[name].find_all("img")
    ]
    assert images
    for name, image in images:
        assert len(image.get("alt", "").split()) >= 4, f"{name}: {str(image)[:120]}"


def test_every_figure_of_a_chapter_is_shown_as_svg_with_its_files_under_it(html, book):
    """Executed now or found in Jupyter's cache."""
    kinds = {".svg": b"<?xml", ".png": b"\x89PNG", ".csv": b"panel,"}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = book[f"notebooks/{path.stem}"]
        lines = page.select(".figure-files")
        count = path.read_text().count('"adascale-figure":')
        assert len(lines) == count, path.stem
        assert len(page.select(".cell_output img[src$='.svg']")) == count, path.stem
        for line in lines:
            files = [html / "notebooks" / link["href"] for link in line.select("a")]
            assert [file.suffix for file in files] == [*kinds]
            for file in files:
                assert file.read_bytes().startswith(kinds[file.suffix])


def test_every_chapter_shows_computed_outputs(articles):
    for name in CHAPTERS:
        assert articles[name].select(".cell_output"), name
        assert not articles[name].select(".traceback"), name


# The two pages that lead from the paper to the code: every public name, and one click from an item to its lines.

INSIDE = r"adascale\.(checks|compiled|files|rootfind|tables|text|units|cli|__main__)\b"
CODE = type, FunctionType  # what autodoc describes
KINDS = "function", "class", "exception"


def public_objects():
    """Return by name what a package exports, and what a module outside of such packages defines."""
    exporting, objects = ("companion",), {}
    for info in walk_packages(adascale.__path__, "adascale."):
        if info.name.startswith(exporting) or re.match(INSIDE, info.name):
            continue
        module = importlib.import_module(info.name)
        names = getattr(module, "__all__", None)
        if names is not None:
            exporting += (f"{info.name}.",)
        for name in vars(module) if names is None else names:
            member = getattr(module, name)
            if not isinstance(member, CODE) or name.startswith("_"):
                continue
            if names is not None or member.__module__ == info.name:
                objects[f"{info.name}.{name}"] = member
    return objects


def test_every_public_name_is_on_an_api_page(book):
    """That none is there twice Sphinx sees, where warnings are errors."""
    documented = set()
    entries = ", ".join(f"dl.{kind} > dt[id]" for kind in KINDS)
    for page in API:
        for tag in book[page].select(entries):
            documented.add(id(resolve_name(tag["id"])))
    objects = public_objects()
    assert len(objects) > 120
    assert [name for name in objects if id(objects[name]) not in documented] == []
