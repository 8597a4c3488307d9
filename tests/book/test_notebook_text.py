"""What a committed notebook says without any extension: the numbers of the built pages, and nothing that is MyST's."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
from plain_markdown import Book, Chapter, blocks, references  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RAW = re.compile(r"\{[a-z]+(:[a-z]+)?\}`|^ *(`{3,}|:{3,})\{|^\([\w:.-]+\)=", re.MULTILINE)


def told(page, label):
    """What a built page shows at a label: the number of an equation, figure or theorem, or the title of a section."""
    if equation := page.find(id=re.sub(r"[^a-z0-9]+", "-", f"equation-{label}".lower())):
        return equation.find(class_="eqno").get_text().rstrip("#¶")
    place = page.find(id=label)
    if place.find(class_="caption-number"):
        return place.find(class_="caption-number").get_text().strip()
    if place.find(class_="admonition-title") and "proof" in place.get("class", []):
        return re.match(r"\w+ [\d.]+\d", place.find(class_="admonition-title").get_text())[0]
    heading = (place if place.name == "section" else place.find_parent("section")).find(re.compile("h[1-6]"))
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
        kinds.add(re.sub(r"[\d.]+", "", place.text) if re.search(r"\d\)?$", place.text) else "title")
    assert {"()", "Fig ", "Theorem ", "Lemma ", "title"} <= kinds  # dots went with the digits


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_notebook_shows_what_only_myst_reads(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = "\n".join(line for line in blocks(cell.source.splitlines()) if isinstance(line, str))
            assert not (found := RAW.search(prose)), f"{cell.source[found.start() :][:60]!r}: run tools/notebooks.py"
            assert not any(each.name for each in blocks(cell.source.splitlines()) if not isinstance(each, str))


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
def test_the_number_of_a_formula_stands_outside_its_environments(path):
    cells = nbformat.read(path, as_version=4).cells
    assert not [found for cell in cells if cell.cell_type == "markdown" for found in tags_inside(cell.source)]


def test_a_number_inside_an_environment_is_found():
    inside = r" \begin{split} a \\ b \tag{1} \end{split} "
    assert tags_inside(rf"$${inside}$$ and $$ \begin{{split}} a \end{{split}} \tag{{2}} $$") == [inside]


# Tables, as a reader meets them.

NOT_FOR_READERS = re.compile(
    r"\de[+-]\d"  # 1e+03
    r"|\d\.(?!\d)"  # 23.
    r"|(?<![\w.])[-−]0(\.0*)?(?![.\d])"  # -0.0
    r"|(?<![\w.])-\d"  # a hyphen for a minus
    r"|(?<![\d.,])\d{5,}(?![\d.])"  # 26010
    r"|^(nu|eta|rdp|epsilon|policy|claim|metric|[a-z]+(_[a-z0-9]+)+)$"  # a name of the code
)


def unreadable(html):
    """What a table of a stored output has that a reader should not meet."""
    found = []
    for table in BeautifulSoup(html, "html.parser").find_all("table"):
        heads = table.select("thead tr")
        found += [row.get_text(" ", strip=True) for row in heads[1:]]
        cells = (cell.get_text(" ", strip=True) for cell in table.select("th, td"))
        found += [cell for cell in cells if NOT_FOR_READERS.search(cell)]
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_table_has_one_row_of_heads_and_numbers_and_names_for_readers(path):
    shown = (output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", []))
    html = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert [found for each in html for found in unreadable(each)] == []


def test_what_is_not_for_readers_is_found_in_a_table():
    def table(head, *cells):
        rows = "".join(f"<tr><td>{cell}</td></tr>" for cell in cells)
        return f"<table><thead>{''.join(f'<tr><th>{each}</th></tr>' for each in head)}</thead>{rows}</table>"

    bad = ["1e+03", "3.2e-05", "23.", "-0.0", "−0.00", "-0.5", "0.1 [-0.3, 0.4]", "26010", "nu", "n_draws", "policy"]
    good = ["1,300", "1.7·10⁻⁵", "23", "0", "−0.5", "−0.05", "0.1 [−0.3, 0.4]", "26,010", "0.123456", "2026-11-22", "ν"]
    assert unreadable(table(["statement"], *bad)) == bad
    assert unreadable(table(["statement"], *good)) == []
    assert unreadable(table(["0.01", "statement"], "1")) == ["statement"]


FIRST = r"""
(chap-one)=
# One

Text.

```{math}
a
```

````{prf:theorem} Of $a$
:label: thm-a
By {cite}`knuth1984`,

```{math}
:label: eq:a
a &= b \\
  &= c
```
````

```{prf:proof}
See {eq}`eq:b` and {eq}`eq:a`.
```

```{math}
:label: eq:b
b
```
"""
SECOND = """
# Two

```{opener}
:needs: {ref}`chap-one`.

* count
```

(sec-two)=
## Part $b$

{prf:ref}`thm-a`, {eq}`eq:b`, {ref}`here <sec-two>`, {ref}`sec-two`,
{numref}`fig-x`, {func}`~a.b.c` and {glue:text}`half`, but `{eq}` in code.

```sh
{eq}`left`
```

```{dropdown} Solution
Yes.
```

```{code-cell}
:mystnb: {figure: {name: fig-x, caption: Few words.}}
1
```
"""
BIB = r"""@article{knuth1984,
  author = {Knuth, D. E. and {\"U}ber, A. and Third, T.}, title = {Of {T}e{X}}, journal = {J.}, year = {1984},
  eprint = {1234.56789}, archiveprefix = {arXiv},
}"""
TOC = "{root: book/start, parts: [{numbered: true, chapters: [{file: notebooks/1}, {file: notebooks/2}]}]}"


@pytest.fixture
def small(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text(TOC)
    (tmp_path / "notebooks" / "1.md").write_text(FIRST)
    (tmp_path / "notebooks" / "2.md").write_text(SECOND)
    (tmp_path / "book" / "references.bib").write_text(BIB)
    return Book(tmp_path)


def test_a_theorem_is_a_headed_quotation_with_its_number_and_its_formula_on_one_line(small):
    chapter = Chapter(small, small.root / "notebooks" / "1.md", {})
    text = "\n".join(chapter.prose(FIRST.splitlines()))
    assert "(chap-one)" not in text
    assert text.startswith("\n# One\n\nText.\n\n$$\na\n$$\n")
    assert "> **Theorem 1.1 (Of $a$)**\n>\n> By [Knuth et al., 1984],\n" in text
    assert "> $$ \\begin{split} a &= b \\\\ &= c \\end{split} \\tag{1.1} $$\n" in text
    assert "*Proof.* See (1.2) and (1.1). ∎\n" in text
    assert text.endswith("$$\nb\n\\tag{1.2}\n$$")
    assert "[arXiv:1234.56789](https://arxiv.org/abs/1234.56789)" in references(small, chapter.cited)


def test_references_lead_to_other_notebooks_and_code_stays_as_it_is(small):
    chapter = Chapter(small, small.root / "notebooks" / "2.md", {"half": "0.5"})
    text = "\n".join(chapter.prose(SECOND.partition("```{code-cell}")[0].splitlines()))
    assert "> **After this chapter you can**\n>\n> * count\n>\n> **You need** [One](1.ipynb).\n" in text
    assert (
        "\n[Theorem 1.1](1.ipynb), [(1.2)](1.ipynb), here, *Part $b$*,\nFig. 2.1, `c` and 0.5, but `{eq}` in code.\n"
        in text
    )
    assert "```sh\n{eq}`left`\n```" in text
    assert "<details>\n<summary>Solution</summary>\n\nYes.\n\n</details>" in text
    assert chapter.cited == set()


def test_a_label_that_no_page_has_stays_and_would_be_noticed(small):
    chapter = Chapter(small, small.root / "notebooks" / "2.md", {})
    for raw in ("{eq}`eq:c`", "{cite}`nobody`", "{ref}`chap-three`"):
        assert chapter.prose([raw]) == [raw]
        assert RAW.search(raw)
    assert RAW.search("```{note}\nx\n```")
    assert RAW.search("text\n(sec-x)=\n## Title")
    assert not RAW.search("$\\frac{a}{b}$ and `code`")
