"""Chapters in plain Markdown, for the .ipynb that JupyterLab shows without any extension.

MyST's references become what the book's pages read: ``{eq}`` a number, ``{ref}`` a title, ``{cite}`` author and year;
its directives become headed quotations.  Numbers are counted from the labels, in order, as Sphinx does for this book:
by chapter.  ``tests/book/test_notebook_text.py`` compares them with the built pages.
"""

import re
from collections import Counter
from functools import cached_property
from itertools import takewhile
from os.path import relpath
from pathlib import Path
from typing import NamedTuple

import jupytext
import yaml
from pybtex.backends.markdown import Backend
from pybtex.database import parse_file
from pybtex.style.formatting.unsrt import Style

FENCE = re.compile(r"( *)(`{3,}|:{3,})(?:\{([\w:-]+)\})?(.*)")
OPTION = re.compile(r":([\w-]+): ?(.*)")
TARGET = re.compile(r"\(([\w:.-]+)\)=\s*")
HEADING = re.compile(r"#+ +(.*)")
ROLE = re.compile(r"\{([a-z]+(?::[a-z]+)?)\}`([^`]+)`")
TITLED = re.compile(r"(?:(.*?)\s*<)?(.+?)>?", re.DOTALL)
# of the explorer, which no notebook shows
STATE = re.compile(r'<a href="(\.\./book/explorer)\.html#[^"]*">(.*?)</a>')


class Directive(NamedTuple):
    """A fenced block of MyST; ``name`` is empty where it is plain code."""

    name: str
    title: str
    options: dict[str, str]
    body: list[str]
    indent: str
    fence: str

    @property
    def label(self):
        return self.options.get("label") or self.options.get("name")


class Place(NamedTuple):
    """What a label names: what a reference to it reads, and the page where it is."""

    text: str
    page: Path


def blocks(lines):
    """Yield the lines of a cell, but a fenced block as one ``Directive``."""
    lines = iter(lines)
    for line in lines:
        match = FENCE.fullmatch(line)
        if not match:
            yield line
            continue
        indent, fence, name, title = match.groups()
        is_inside = re.compile(rf"(?! *{fence}{fence[0]}*\s*$)").match
        body = [text.removeprefix(indent) for text in takewhile(is_inside, lines)]
        options = {}
        while name and body and (option := OPTION.fullmatch(body[0])):
            options[option[1]] = option[2]
            del body[0]
        yield Directive(name or "", title.strip(), options, body, indent, fence)


def figure_of(cell):
    """Return caption and label of the figure that a code cell draws."""
    figure = cell.metadata.get("mystnb", {}).get("figure", {})
    return figure.get("caption"), figure.get("name")


def number_of(block):
    """Return the kind of a directive that has a number, and what a reference to it reads; else nothing."""
    kind = block.name.removeprefix("prf:")
    if block.name == "math" and block.label:
        return "math", "(NUMBER)"
    if block.name == "table" and block.title:
        return "table", "Table NUMBER"
    if kind != block.name and kind != "proof":
        return kind, f"{kind.capitalize()} NUMBER"
    return None


def labelled(lines):
    """Yield what is counted or can be referred to: its kind, its label, and what a reference reads."""
    targets = []
    for block in blocks(lines):
        if not isinstance(block, str):
            if numbered := number_of(block):
                yield numbered[0], block.label, numbered[1]
            if block.name:
                yield from labelled(block.body)
        elif target := TARGET.fullmatch(block):
            targets.append(target[1])
        elif heading := HEADING.fullmatch(block):
            for label in targets:
                yield "heading", label, heading[1].strip()
            targets.clear()


def labelled_in(cell):
    """Yield the same of a cell."""
    caption, label = figure_of(cell)
    if cell.cell_type == "markdown":
        yield from labelled(cell.source.splitlines())
    elif caption:
        yield "figure", label, "Fig. NUMBER"


class Book:
    """The sources of a book, as far as a reference to them needs: what it reads, and where that is."""

    def __init__(self, root):
        self.root = root

    def pages(self):
        """Yield each page, and its number or None."""
        toc = yaml.safe_load((self.root / "_toc.yml").read_text())
        chapter = 0
        yield toc["root"], None
        for part in toc["parts"]:
            is_numbered = bool(part.get("numbered"))
            for entry in part["chapters"]:
                chapter += is_numbered
                appendix = re.match(r"notebooks/(A\d+b?)_", entry["file"])
                number = appendix[1] if appendix else chapter
                yield entry["file"], number if is_numbered else None

    @cached_property
    def places(self):
        """The place of each label of the book."""
        places = {}
        # figures and tables of pages without a number count on from page to page
        unnumbered = Counter()
        for name, number in self.pages():
            page = self.root / f"{name}.md"
            own = Counter()
            for cell in jupytext.read(page, fmt="md:myst").cells:
                for kind, label, text in labelled_in(cell):
                    is_shared = not number and kind in ("figure", "table")
                    counts = unnumbered if is_shared else own
                    counts[kind] += 1
                    shown = f"{number}.{counts[kind]}" if number else str(counts[kind])
                    if label:
                        places[label] = Place(text.replace("NUMBER", shown), page)
        return places

    @cached_property
    def sources(self):
        """Each entry of the bibliography, by its key."""
        return parse_file(str(self.root / "book" / "references.bib")).entries


def author_and_year(entry):
    """Return author and year of an entry, as in ``Mironov et al., 2019``."""
    people = entry.persons.get("author", []) or entry.persons.get("editor", [])
    names = [
        " ".join(map(str, person.rich_prelast_names + person.rich_last_names))
        for person in people
    ]
    names = names or [str(entry.rich_fields["title"])]
    shown = " and ".join(names) if len(names) <= 2 else f"{names[0]} et al."
    return f"{shown}, {entry.fields['year']}" if "year" in entry.fields else shown


class Chapter:
    """One chapter on its way to plain Markdown; ``values`` are those of ``{glue:text}``, ``cited`` what it cites."""

    def __init__(self, book, page, values):
        self.book, self.page, self.values, self.cited = book, page, values, set()

    def prose(self, text):
        """Return Markdown with roles and directives in plain words."""
        text = STATE.sub(r"[\2](\1.md)", text)
        lines = ROLE.sub(self.role, text).split("\n")
        return "\n".join(self.plain(lines))

    def role(self, match):
        """Return what replaces a role."""
        name, text = match.groups()
        title, label = TITLED.fullmatch(text).groups()
        if name == "glue:text":
            return self.values[text]
        if name == "cite":
            keys = [key.strip() for key in label.split(",")]
            self.cited.update(keys)
            sources = [author_and_year(self.book.sources[key]) for key in keys]
            return f"[{'; '.join(sources)}]"
        if name in ("ref", "numref", "eq", "prf:ref"):
            return self.reference(name, title, self.book.places[label])
        name_of_code = text.rpartition(".")[2] if text.startswith("~") else text
        return f"`{title or name_of_code}`"

    def reference(self, name, title, place):
        """Return what a reference reads, as a link where it leads to another page."""
        text = title or place.text
        if place.page == self.page:
            return f"*{text}*" if name == "ref" and not title else text
        is_chapter = place.page.parent == self.page.parent
        target = place.page.with_suffix(".ipynb") if is_chapter else place.page
        return f"[{text}]({relpath(target, self.page.parent)})"

    def plain(self, lines):
        """Yield lines of Markdown without targets, and with directives in plain words."""
        for block in blocks(lines):
            if not isinstance(block, str):
                for line in self.directive(block):
                    yield (block.indent + line).rstrip()
            elif not TARGET.fullmatch(block):
                yield block

    def directive(self, block):
        """Return a directive as lines of plain Markdown."""
        if not block.name:
            return [f"{block.fence}{block.title}", *block.body, block.fence]
        if block.name == "raw":  # what only a page of the book shows
            return []
        place = self.book.places.get(block.label)
        if block.name == "math":
            return formula(block.body, place)
        body = "\n".join(self.plain(block.body)).strip("\n").split("\n")
        kind = block.name.removeprefix("prf:").capitalize()
        title = block.title
        if kind == "Proof":
            return proof(f"*{f'Proof {title}'.strip()}.*", body)
        if kind == "Dropdown":
            heading = f"<summary>{title}</summary>"
            return ["<details>", heading, "", *body, "", "</details>"]
        if kind == "Exercise":
            title = f"Exercise. {title}"
        elif block.name.startswith("prf:"):
            name = place.text if place else kind
            title = f"{name} ({title})" if title else name
        lines = [f"**{title or kind}**", "", *one_line_formulas(body)]
        return [f"> {line}".rstrip() for line in lines]


def formula(body, place):
    """Return a displayed formula, with its number; lines that it breaks are aligned, as Sphinx aligns them."""
    lines = [line for line in body if line.strip()]
    inside = r"\\begin\{(\w+)\}.*?\\end\{\1\}"
    if r"\\" in re.sub(inside, "", "\n".join(lines), flags=re.DOTALL):
        lines = [r"\begin{split}", *lines, r"\end{split}"]
    if place:
        lines.append(rf"\tag{{{place.text.strip('()')}}}")
    return ["$$", *lines, "$$"]


def proof(lead, body):
    """Return a proof between its first words and its end mark."""
    # no word can precede a formula, a list, a quotation, code or a table
    is_apart = re.match(r"\$\$|[-*>] |\d+\. |```|\||$", body[0])
    body = [lead, "", *body] if is_apart else [f"{lead} {body[0]}", *body[1:]]
    ends_apart = body[-1].lstrip() in ("$$", "```") or body[-1].startswith(("|", ">"))
    return [*body, "", "∎"] if ends_apart else [*body[:-1], f"{body[-1]} ∎"]


def one_line_formulas(lines):
    """Put each displayed formula on one line: in a quotation, its next line would begin with >."""
    pattern = re.compile(r"^( *)\$\$\n(.*?)\n *\$\$$", re.DOTALL | re.MULTILINE)
    one_line = lambda match: f"{match[1]}$$ {' '.join(match[2].split())} $$"  # noqa: E731
    return pattern.sub(one_line, "\n".join(lines)).split("\n")


def references(book, cited):
    """Return the list of what a chapter cites."""
    entries = sorted((book.sources[key] for key in sorted(cited)), key=author_and_year)
    lines = ["## References", ""]
    for entry in entries:
        text = Style().format_entry("", entry).text.render(Backend())
        lines.append("* " + re.sub(r"\\([-.()])", r"\1", text).replace("\n", " "))
    return "\n".join(lines)
