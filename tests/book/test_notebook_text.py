"""What a committed notebook says without any extension: the numbers of the built pages, and nothing that is MyST's."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
from plain_markdown import DIRECTIVE, places  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXTRAS = {"section-number", "headerlink"}


def shown(page, label):
    """Return what a page shows at a label: the number of an equation, figure or theorem, or the title of a section."""
    equation = re.sub(r"[^a-z0-9]+", "-", f"equation-{label}".lower())
    if number := page.select_one(f"#{equation} .eqno"):
        return number.get_text().rstrip("#¶")
    place = page.find(id=label)
    if number := place.find(class_="caption-number"):
        return number.get_text().strip()
    if "proof" in place.get("class", []):
        title = place.find(class_="admonition-title").get_text()
        return re.match(r"\w+ [\d.]*\d", title)[0]
    section = place if place.name == "section" else place.find_parent("section")
    words = [
        part.get_text()
        for part in section.find(re.compile("h[1-6]")).children
        if not EXTRAS & {*(getattr(part, "attrs", None) or {}).get("class", ())}
    ]
    return "".join(words).strip()


def words(text):
    return re.sub(r"\$|`|\\[()]", "", text.replace("’", "'"))


@pytest.mark.book
def test_each_reference_reads_what_the_built_page_shows_there(book):
    kinds = set()
    for label, place in places().items():
        seen = shown(book[place.page], label)
        assert words(place.text) == words(seen), f"{place.page}: {label}"
        kinds.add(place.text.partition(" ")[0].strip("(.0123456789)"))
    assert {"", "Fig", "Theorem", "Lemma"} <= kinds


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_notebook_shows_what_only_myst_reads(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"(?sm)^ *```.*?^ *```$", "", cell.source)
            assert not re.search(r"\{[a-z]+(:[a-z]+)?\}`|^\([\w:.-]+\)=", text, re.M)
            assert not DIRECTIVE.search(cell.source)


def has_inner_tag(text):
    """Check for a displayed formula with a number inside an environment, which MathJax refuses."""
    formulas = re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)
    return any(re.search(r"(?s)\\tag\{.*\\end\{", formula) for formula in formulas)


def test_no_number_is_inside_an_environment():
    assert has_inner_tag(r"$$ \begin{a} x \tag{1} \end{a} $$")
    assert not has_inner_tag(r"$$ \begin{b} x \end{b} \tag{2} $$ $$ \end{c} $$")
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            assert not has_inner_tag(cell.source), path
