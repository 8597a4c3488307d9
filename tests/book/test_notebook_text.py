"""What a committed notebook says without any extension: the numbers of the built pages, and nothing that is MyST's."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
from plain_markdown import Book, Chapter, blocks  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RAW = re.compile(
    r"\{[a-z]+(:[a-z]+)?\}`|^ *(`{3,}|:{3,})\{|^\([\w:.-]+\)=", re.MULTILINE
)


def told(page, label):
    """What a built page shows at a label: the number of an equation, figure or theorem, or the title of a section."""
    if equation := page.find(
        id=re.sub(r"[^a-z0-9]+", "-", f"equation-{label}".lower())
    ):
        return equation.find(class_="eqno").get_text().rstrip("#¶")
    place = page.find(id=label)
    if place.find(class_="caption-number"):
        return place.find(class_="caption-number").get_text().strip()
    if place.find(class_="admonition-title") and "proof" in place.get("class", []):
        return re.match(
            r"\w+ [\d.]*\d", place.find(class_="admonition-title").get_text()
        )[0]
    heading = (place if place.name == "section" else place.find_parent("section")).find(
        re.compile("h[1-6]")
    )
    for extra in heading.find_all(class_=["section-number", "headerlink"]):
        extra.decompose()
    return heading.get_text().strip()


def words(text):
    return re.sub(r"\$|`|\\[()]", "", text.replace("’", "'"))


@pytest.mark.book
def test_each_reference_reads_what_the_built_page_shows_there(book):
    source = Book(ROOT)
    kinds = set()
    for label, place in source.places.items():
        name = place.page.relative_to(ROOT).with_suffix("").as_posix()
        assert words(place.text) == words(told(book[name], label)), f"{name}: {label}"
        kinds.add(
            re.sub(r"[\d.]+", "", place.text)
            if re.search(r"\d\)?$", place.text)
            else "title"
        )
    assert {
        "()",
        "Fig ",
        "Theorem ",
        "Lemma ",
        "title",
    } <= kinds  # dots went with the digits


ENVIRONMENT = re.compile(r"\\(begin|end)\{(\w+\*?)\}|\\tag\{")


def tags_inside(text):
    """The displayed formulas with a number inside an environment, which MathJax refuses."""
    found = []
    for formula in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL):
        depth = 0
        for each in ENVIRONMENT.finditer(formula):
            depth += {"begin": 1, "end": -1}.get(each[1], 0)
            if depth and not each[1]:
                found.append(formula)
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_notebook_shows_what_only_myst_reads_or_a_number_inside_an_environment(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            lines = [*blocks(cell.source.splitlines())]
            found = RAW.search(
                "\n".join(line for line in lines if isinstance(line, str))
            )
            assert not found, (
                f"{cell.source[found.start() :][:60]!r}: run tools/notebooks.py"
            )
            assert not any(each.name for each in lines if not isinstance(each, str))
            assert not tags_inside(cell.source)
    assert tags_inside(
        r"$$ \begin{a} x \tag{1} \end{a} $$ and $$ \begin{b} x \end{b} \tag{2} $$"
    )  # the control


def test_a_label_that_no_page_has_stays_and_would_be_noticed():
    chapter = Chapter(Book(ROOT), NOTEBOOKS[0].with_suffix(".md"), {})
    for raw in ("{eq}`eq:nowhere`", "{cite}`nobody`", "{ref}`chap-nowhere`"):
        assert chapter.prose([raw]) == [raw]
        assert RAW.search(raw)
    assert RAW.search("```{note}\nx\n```")
    assert RAW.search("text\n(sec-x)=\n## Title")
    assert not RAW.search("$\\frac{a}{b}$ and `code`")
