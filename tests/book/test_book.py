"""The built pages: all there, readable without a network, every number and reference resolved."""

import importlib
import re
import sys
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from types import FunctionType
from urllib.parse import urlsplit

import jupytext
import pytest
import yaml
from jupyter_cache import get_cache

import adascale
import companion

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
FILES = [
    page
    for part in TOC["parts"]
    for chapter in part["chapters"]
    for page in (chapter, *chapter.get("sections", ()))
]
PAGES = [TOC["root"], *(page["file"] for page in FILES)]
API = [page for page in PAGES if page.startswith("book/api/")]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]

pytestmark = pytest.mark.book


def article(page):
    return page.find("article") or page


def test_every_page_of_the_contents_is_built(book):
    assert set(PAGES) <= set(book)
    for name in PAGES:
        assert article(book[name]).find("h1"), name


def test_an_appendix_has_the_number_of_its_file(book):
    for name in CHAPTERS:
        if file := re.match(r"notebooks/(A\d+b?)_", name):
            assert (
                article(book[name])
                .find("h1")
                .find(class_="section-number")
                .text.strip()
                == f"{file[1]}."
            )


def test_no_page_loads_anything_from_another_host(book):
    for name, page in book.items():
        for tag in page.find_all(
            [
                "script",
                "link",
                "img",
                "iframe",
                "source",
                "video",
                "audio",
                "embed",
                "object",
            ]
        ):
            for attribute in ("src", "href", "data", "srcset"):
                address = tag.get(attribute, "")
                assert urlsplit(address).scheme in ("", "data"), f"{name}: {tag}"
                assert not address.startswith("//"), f"{name}: {tag}"
        for tag in page.find_all(["script", "style"]):
            assert not re.search(r"https?://(?!www\.w3\.org/)", tag.string or ""), (
                f"{name}: {tag}"
            )


def test_formulas_are_set_by_a_local_mathjax_with_its_fonts(html, book):
    with_formulas = [name for name in PAGES if article(book[name]).select(".math")]
    assert set(CHAPTERS) & set(with_formulas)
    assert "book/api/accounting" in with_formulas
    for name in with_formulas:
        (script,) = [
            tag
            for tag in book[name].find_all("script")
            if "mathjax" in tag.get("src", "").lower()
        ]
        assert (
            (html / name).parent / urlsplit(script["src"]).path
        ).resolve().stat().st_size > 100_000
    assert list((html / "_static").rglob("MathJax_Main-Regular.woff"))


def test_no_reference_or_glued_number_is_left_unresolved(book):
    for name in PAGES:
        page = article(book[name])
        assert not page.select(".problematic, .system-message"), name
        # a reference whose target is missing stays a code element with the role's class
        assert not page.select(
            "code.xref.eq, code.xref.prf-ref, code.xref.std-numref, code.xref.std-ref"
        ), name
        text = re.sub(
            r"<[^>]*>",
            " ",
            re.sub(r"<(code|pre)\b.*?</\1>", "", str(page), flags=re.DOTALL),
        )
        assert not re.search(
            r"\{(glue|eq|numref|ref|doc|cite|prf)\b[^}]*\}|undefined label", text
        ), name


def test_every_figure_says_in_words_what_it_shows(book):
    figures = [
        (name, image) for name in PAGES for image in article(book[name]).find_all("img")
    ]
    assert figures
    for name, image in figures:
        words = image.get("alt", "").strip()
        assert len(words.split()) >= 4, (
            f"{name}: alt text {words!r} of {str(image)[:120]}"
        )


def test_every_figure_of_a_chapter_is_shown_as_svg_with_its_files_under_it(html, book):
    """Executed now or found in Jupyter's cache."""
    kinds = {".svg": b"<?xml", ".png": b"\x89PNG", ".csv": b"panel,"}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page, drawn = (
            book[f"notebooks/{path.stem}"],
            path.read_text().count('"adascale-figure":'),
        )
        under = page.select(".figure-files")
        assert (
            len(under) == len(page.select(".cell_output img[src$='.svg']")) == drawn
        ), path.stem
        for each in under:
            files = [html / "notebooks" / link["href"] for link in each.select("a")]
            assert [each.suffix for each in files] == [*kinds]
            assert all(
                each.read_bytes().startswith(kinds[each.suffix]) for each in files
            )


def test_every_chapter_shows_computed_outputs(book):
    for name in CHAPTERS:
        assert article(book[name]).select(".cell_output"), name
        assert not article(book[name]).select(".traceback"), name


# The two pages that lead from the paper to the code: every public name, and one click from an item to its lines.


INSIDE = tuple(
    f"adascale.{name}"
    for name in ("checks", "compiled", "files", "rootfind", "tables", "text")
)
CODE = (
    type,
    FunctionType,
    type(cache(id)),
)  # what autodoc describes; a compiled function is none


def home(module, name):
    """Where a function or class of a module is defined; of a constant, which knows no place, its name alone."""
    found = getattr(importlib.import_module(module), name)
    return (found.__module__, found.__name__) if isinstance(found, CODE) else ("", name)


@cache
def modules():
    """The modules of the library and the companion, but for the command line, which has --help."""
    found = [
        each.name
        for top in (adascale, companion)
        for each in walk_packages(top.__path__, f"{top.__name__}.")
    ]
    return [name for name in found if not re.search(r"\.(cli|__main__|tests)\b", name)]


def public(packages):
    """What a module of the library lists, or defines without a list; the modules of these packages are their inside."""
    inside = (*INSIDE, *(f"{package}." for package in packages), "companion")
    for module in modules():
        if not module.startswith(inside):
            found = vars(importlib.import_module(module))
            own = [
                name
                for name, each in found.items()
                if isinstance(each, CODE) and each.__module__ == module
            ]
            names = [
                name for name in found.get("__all__", own) if not name.startswith("_")
            ]
            yield from (
                home(module, name)
                for name in names
                if name not in ("main", "committed")
            )


def test_every_public_name_is_on_an_api_page(book):
    """That none is there twice Sphinx sees, where warnings are errors."""
    ids = [
        tag["id"].rpartition(".")[::2]
        for page in API
        for tag in book[page].select("dl.py > dt[id]")
    ]
    shown = {home(module, name) for module, name in ids if module in modules()}
    packages = {
        module
        for module, _ in ids
        if module in modules() and hasattr(sys.modules[module], "__path__")
    }
    wanted = {*public(packages)}
    assert len(wanted) > 150
    assert wanted - shown == set()
    assert ("adascale.policies", "adascale_energies") in ids


def test_constants_of_a_package_stand_there_with_their_words(book):
    words = (
        book["book/api/accounting"]
        .find("dt", id="adascale.accounting.DEFAULT_ORDERS")
        .parent.find("dd")
        .get_text()
    )
    assert "order" in words
    assert "Built-in immutable sequence" not in words  # the words of every tuple


def test_every_row_of_the_paper_map_leads_to_an_api_page(book):
    places = {
        f"{page}.html#{tag['id']}"
        for page in API
        for tag in book[page].find_all(id=True)
    }
    for row in article(book["book/paper-map"]).select("tbody tr"):
        links = {f"book/{link['href']}" for link in row.select("a[href^='api/']")}
        assert links
        assert links <= places


# What a change re-executes: the cache knows the cells of a chapter, the Makefile's key everything that they call.


@pytest.fixture
def executed(book):
    """What earlier builds executed; its database is closed in the end."""
    cache = get_cache(ROOT / "_build" / ".jupyter_cache")
    yield cache
    cache.db.dispose()


@pytest.mark.parametrize("name", CHAPTERS)
def test_change_in_prose_finds_the_cached_execution_and_one_in_code_does_not(
    executed, name
):
    notebook = jupytext.read(ROOT / f"{name}.md")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source += "\n\nOne more sentence."
    assert executed.match_cache_notebook(notebook)
    next(
        cell for cell in notebook.cells if cell.cell_type == "code"
    ).source += "\n1 + 1"
    with pytest.raises(KeyError):
        executed.match_cache_notebook(notebook)
