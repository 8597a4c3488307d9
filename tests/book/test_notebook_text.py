"""What a committed notebook says without any extension: the numbers of the built pages, and nothing that is MyST's."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

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
  note = {arXiv:1234.56789},
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


def test_a_number_of_another_chapter_is_refused(small):
    chapter = Chapter(small, small.root / "notebooks" / "2.md", {"half": "0.5"})
    with pytest.raises(ValueError, match="glues its own numbers"):
        chapter.prose(["{glue:text}`1.md::half:s`"])


def test_a_label_that_no_page_has_stays_and_would_be_noticed(small):
    chapter = Chapter(small, small.root / "notebooks" / "2.md", {})
    for raw in ("{eq}`eq:c`", "{cite}`nobody`", "{ref}`chap-three`"):
        assert chapter.prose([raw]) == [raw]
        assert RAW.search(raw)
    assert RAW.search("```{note}\nx\n```")
    assert RAW.search("text\n(sec-x)=\n## Title")
    assert not RAW.search("$\\frac{a}{b}$ and `code`")
