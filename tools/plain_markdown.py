"""Chapters in plain Markdown, for the .ipynb that JupyterLab shows without any extension.

MyST's references become what the book's pages read: ``{eq}`` a number, ``{ref}`` a title, ``{cite}`` author and year;
its directives become headed quotations.  Numbers are counted from the labels, in order, as Sphinx does for this book:
by chapter.  ``tests/book/test_notebook_text.py`` holds them to the built pages.
"""

import re
from collections import Counter
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import jupytext
import yaml

FENCE = re.compile(r"( *)(`{3,}|:{3,})(?:\{([\w:-]+)\})?(.*)")
OPTION = re.compile(r":([\w-]+): ?(.*)")
TARGET = re.compile(r"\(([\w:.-]+)\)=\s*")
HEADING = re.compile(r"#+ +(.*)")
ROLE = re.compile(r"\{([a-z]+(?::[a-z]+)?)\}`([^`]+)`")
STATE = re.compile(
    r'<a href="(\.\./book/explorer)\.html#[^"]*">(.*?)</a>'
)  # of the explorer, which no notebook shows
TITLED = re.compile(r"(?:(.*?)\s*<)?(.+?)>?", re.DOTALL)


class Directive(NamedTuple):
    """A fenced block of MyST; ``name`` is empty where it is plain code."""

    name: str
    title: str
    options: dict[str, str]
    body: list[str]
    indent: str
    source: list[str]


class Place(NamedTuple):
    """What a label names: what a reference to it reads, and the page where it is."""

    text: str
    page: Path


def blocks(lines):
    """Yield the lines of a cell, but a fenced block as one ``Directive``."""
    lines = iter(lines)
    for line in lines:
        found = FENCE.fullmatch(line)
        if not found:
            yield line
            continue
        indent, fence, name, title = found.groups()
        ends = re.compile(rf" *{fence}{fence[0]}*\s*")
        body = [
            each.removeprefix(indent)
            for each in takewhile(
                lambda each, ends=ends: not ends.fullmatch(each), lines
            )
        ]
        source, options = [line.removeprefix(indent), *body, fence], {}
        while name and body and (option := OPTION.fullmatch(body[0])):
            options[option[1]] = option[2]
            del body[0]
        yield Directive(name or "", title.strip(), options, body, indent, source)


def figure_of(cell):
    """Return caption and label of the figure that a code cell draws."""
    figure = cell.metadata.get("mystnb", {}).get("figure", {})
    return figure.get("caption"), figure.get("name")


class Book:
    """The sources of a book, as far as a reference to them needs: what it reads, and where that is."""

    def __init__(self, root):
        self.root = root

    @cached_property
    def places(self):
        """Each label of the book."""
        toc, chapters, found = (
            yaml.safe_load((self.root / "_toc.yml").read_text()),
            0,
            {},
        )
        pages = [(toc["root"], None)]
        for part in toc["parts"]:
            for chapter in part["chapters"]:
                chapters += bool(part.get("numbered"))
                name = re.match(r"notebooks/(A\d+b?)_", chapter["file"])
                pages.append(
                    (
                        chapter["file"],
                        (name[1] if name else chapters)
                        if part.get("numbered")
                        else None,
                    )
                )
        unnumbered = (
            Counter()
        )  # figures and tables of pages without a number count on from page to page
        for name, number in pages:
            if (page := self.root / f"{name}.md").exists():
                texts = Labels(page, number, unnumbered).texts
                found |= {label: Place(text, page) for label, text in texts.items()}
        return found

    @cached_property
    def sources(self):
        """Each entry of the bibliography, by its key."""
        from pybtex.database import parse_file

        return parse_file(str(self.root / "book" / "references.bib")).entries


class Labels:
    """What a reference to each label of a page reads; ``number`` is the page's, or None."""

    def __init__(self, page, number, unnumbered):
        self.number, self.unnumbered = number, unnumbered
        self.own, self.texts, self.waiting = Counter(), {}, []
        for cell in jupytext.read(page, fmt="md:myst").cells:
            caption, name = figure_of(cell)
            if cell.cell_type == "markdown":
                self.walk(cell.source.splitlines())
            elif caption:
                self.count("figure", name, "Fig. {}")

    def count(self, kind, label, shown):
        """Count one more of a kind; pages without a number share the counts of figures and tables."""
        shared = not self.number and kind in ("figure", "table")
        counts = self.unnumbered if shared else self.own
        counts[kind] += 1
        if label:
            self.texts[label] = shown.format(
                f"{self.number}.{counts[kind]}" if self.number else counts[kind]
            )

    def walk(self, lines):
        """Read lines of Markdown, and what is inside their directives."""
        for block in blocks(lines):
            if isinstance(block, str):
                self.line(block)
            else:
                self.directive(block)

    def line(self, text):
        """Read a target, which waits for its heading, or a heading."""
        if target := TARGET.fullmatch(text):
            self.waiting.append(target[1])
        elif heading := HEADING.fullmatch(text):
            self.texts.update(dict.fromkeys(self.waiting, heading[1].strip()))
            self.waiting.clear()

    def directive(self, block):
        """Count a directive that has a number, and read what is inside."""
        label, kind = block.options.get("label"), block.name.removeprefix("prf:")
        if block.name == "math":
            if label:
                self.count("math", label, "({})")
            return
        if block.name.startswith("prf:") and kind != "proof":
            self.count(kind, label, kind.capitalize() + " {}")
        elif block.name == "table" and block.title:
            self.count("table", block.options.get("name"), "Table {}")
        if block.name:
            self.walk(block.body)


def short(entry):
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
    """One chapter on its way to plain Markdown; ``cited`` collects what it cites."""

    def __init__(self, book, page, values):
        self.book, self.page, self.values, self.cited = book, page, values, set()

    def link(self, text, page):
        """Return a text that leads to another page of the book, as a notebook where it is one."""
        if page == self.page:
            return text
        if page.parent == self.page.parent:
            return f"[{text}]({page.with_suffix('.ipynb').name})"
        return f"[{text}](../{page.relative_to(self.book.root).as_posix()})"

    def role(self, match):
        """Return what replaces a role; itself, where its label is unknown."""
        name, text = match.groups()
        title, label = TITLED.fullmatch(text).groups()
        if name == "glue:text":
            if text not in self.values:
                raise ValueError(
                    f"{match[0]} has no value in the outputs: execute the chapter"
                )
            return self.values[text]
        if name == "cite":
            return self.citation([key.strip() for key in label.split(",")]) or match[0]
        if name in ("ref", "numref", "eq", "prf:ref"):
            return self.reference(name, title, label) or match[0]
        return f"`{title or (text.rpartition('.')[2] if text.startswith('~') else text)}`"  # a name of the code

    def citation(self, keys):
        """Return authors and years of what is cited; nothing where a key is unknown."""
        if not all(key in self.book.sources for key in keys):
            return None
        self.cited.update(keys)
        return f"[{'; '.join(short(self.book.sources[key]) for key in keys)}]"

    def reference(self, name, title, label):
        """Return what a reference reads, as a link; nothing where its label is unknown."""
        place = self.book.places.get(label)
        if place and name == "ref" and not title and place.page == self.page:
            return f"*{place.text}*"
        return self.link(title or place.text, place.page) if place else None

    def prose(self, lines):
        """Return lines of Markdown, with roles and directives in plain words."""
        written, waiting = [], []

        def flush():
            text = STATE.sub(r"[\2](\1.md)", "\n".join(waiting))
            written.extend(ROLE.sub(self.role, text).split("\n") if waiting else [])
            waiting.clear()

        for block in blocks(lines):
            if not isinstance(block, str):
                flush()
                shown = self.directive(block) if block.name else block.source
                written.extend((block.indent + line).rstrip() for line in shown)
            elif not TARGET.fullmatch(block):
                waiting.append(block)
        flush()
        return written

    def directive(self, block):
        """Return a directive as lines of plain Markdown."""
        place = self.book.places.get(block.options.get("label"))
        if block.name == "math":
            return self.formula(block.body, place)
        body = self.prose(block.body)
        while body and not body[0]:
            del body[0]
        title = ROLE.sub(self.role, block.title)
        if block.name == "prf:proof":
            return proof(f"*{f'Proof {title}'.strip()}.*", body)
        if block.name == "dropdown":
            return [
                "<details>",
                f"<summary>{title}</summary>",
                "",
                *body,
                "",
                "</details>",
            ]
        kind = block.name.removeprefix("prf:").capitalize()
        if block.name.startswith("prf:"):
            kind = place.text if place else kind
            title = f"{kind} ({title})" if title else kind
        elif block.name == "exercise":
            title = f"Exercise. {title}"
        return [
            f"> {line}".rstrip()
            for line in (f"**{title or kind}**", "", *one_line_formulas(body))
        ]

    def formula(self, body, place):
        """Return a displayed formula, with its number; lines that it breaks are aligned, as Sphinx aligns them."""
        body = [line for line in body if line.strip()]
        if r"\\" in re.sub(
            r"\\begin\{(\w+)\}.*?\\end\{\1\}", "", "\n".join(body), flags=re.DOTALL
        ):
            body = [r"\begin{split}", *body, r"\end{split}"]
        return [
            "$$",
            *body,
            *([rf"\tag{{{place.text.strip('()')}}}"] if place else []),
            "$$",
        ]


def proof(lead, body):
    """Return a proof between its first words and its end mark."""
    begins = r"\$\$|[-*>] |\d+\. |```|\|"  # a formula, list, quotation, code or table: no word can precede it
    apart = not body or re.match(begins, body[0])
    body = [lead, "", *body] if apart else [f"{lead} {body[0]}", *body[1:]]
    ends = body[-1].lstrip() in ("$$", "```") or body[-1].startswith(("|", ">"))
    return [*body, "", "∎"] if ends else [*body[:-1], f"{body[-1]} ∎"]


def one_line_formulas(lines):
    """Put each displayed formula on one line: in a quotation, its next line would begin with >."""
    formula = re.compile(r"^( *)\$\$\n(.*?)\n *\$\$$", re.DOTALL | re.MULTILINE)
    return formula.sub(
        lambda found: f"{found[1]}$$ {' '.join(found[2].split())} $$", "\n".join(lines)
    ).split("\n")


def references(book, cited):
    """Return the list of what a chapter cites."""
    from pybtex.backends.markdown import Backend
    from pybtex.style.formatting.unsrt import Style

    entries = sorted((book.sources[key] for key in sorted(cited)), key=short)
    written = [
        Style().format_entry("", entry).text.render(Backend()) for entry in entries
    ]
    lines = [re.sub(r"\\([-.()])", r"\1", text).replace("\n", " ") for text in written]
    return "\n".join(["## References", "", *(f"* {line}" for line in lines)])
