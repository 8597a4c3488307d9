"""Chapters in plain Markdown, for the .ipynb that JupyterLab shows without any extension.

MyST's references become what the book's pages read, and its directives quotations or folds in HTML.  Numbers are
counted from the labels, in order, as Sphinx does for this book: by chapter.  ``tests/book/test_notebook_text.py``
compares them with the built pages.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple

from pybtex.backends.markdown import Backend
from pybtex.database import parse_file
from pybtex.style.formatting.unsrt import Style

ROOT = Path(__file__).resolve().parents[1]
# indent, fence, name, title, options, body
DIRECTIVE = re.compile(
    r"^( *)(`{3,}|:{3,})\{([\w:-]+)\} *(.*)\n((?: *:[\w-]+:.*\n)*)((?:.*\n)*?) *\2$",
    re.MULTILINE,
)
TARGET = re.compile(r"^\([\w:.-]+\)=\n", re.MULTILINE)
ROLE = re.compile(r"\{([a-z]+(?::[a-z]+)?)\}`([^`]+)`")
TITLED = re.compile(r"(?:(.*?)\s*<)?(.+?)>?", re.DOTALL)
# of the explorer, which no notebook shows
STATE = re.compile(r'<a href="(\.\./book/explorer)\.html#[^"]*">(.*?)</a>')
# A heading with its label; what has a number, with its label; a figure
PLACE = re.compile(
    r"^\((?P<heading>[\w:.-]+)\)=(?=[\w:.()=\n-]*\n#+ (?P<title>.*))"
    r"|^ *[`:]{3,}\{(?:prf:)?(?P<kind>math|table|theorem|lemma|proposition|corollary|conjecture"
    r"|definition|algorithm|remark)\}.*(?:\n *:(?:label|name): (?P<label>.*))?"
    r"|^    name: (?P<figure>fig-.*)",
    re.MULTILINE,
)
READS = {"math": "({})", "table": "Table {}", "figure": "Fig. {}"}


class Place(NamedTuple):
    """What a label names: what a reference to it reads, and the file of its page."""

    text: str
    page: str


@cache
def places():
    """Return the place of each label of the book."""
    found = {}
    counts = Counter()
    toc = (ROOT / "_toc.yml").read_text()
    for page in re.findall(r"(?:root|file): (\S+)", toc):
        numbered = re.match(r"notebooks/0?([1-9]\d?|A\w+?)_", page)
        for place in PLACE.finditer((ROOT / f"{page}.md").read_text()):
            if place["heading"]:
                found[place["heading"]] = Place(place["title"].strip(), page)
                continue
            kind = "figure" if place["figure"] else place["kind"]
            label = place["figure"] or place["label"]
            if kind == "math" and not label:
                continue
            # figures and tables of pages without a number count on from page to page
            own = page if numbered or kind not in ("figure", "table") else ""
            counts[kind, own] += 1
            number = counts[kind, own]
            shown = f"{numbered[1]}.{number}" if numbered else number
            reads = READS.get(kind, f"{kind.capitalize()} {{}}")
            if label:
                found[label] = Place(reads.format(shown), page)
    return found


@cache
def sources():
    """Return each entry of the bibliography, with its label, by its key."""
    entries = parse_file(str(ROOT / "book" / "references.bib"))
    style = Style(label_style="alpha")
    return {entry.key: entry for entry in style.format_bibliography(entries)}


class Chapter:
    """One chapter on its way to plain Markdown; ``values`` are those of ``{glue:text}``, ``cited`` what it cites."""

    def __init__(self, page, values):
        self.page, self.values, self.cited = page, values, set()

    def prose(self, text):
        """Return Markdown with roles and directives in plain words."""
        text = STATE.sub(r"[\2](\1.md)", text)
        text = DIRECTIVE.sub(self.directive, ROLE.sub(self.role, text))
        return TARGET.sub("", text)

    def role(self, match):
        """Return what replaces a role."""
        name, text = match.groups()
        title, label = TITLED.fullmatch(text).groups()
        if name == "glue:text":
            return self.values[text]
        if name == "cite":
            keys = re.split(r",\s*", label)
            self.cited.update(keys)
            return f"[{', '.join(sources()[key].label for key in keys)}]"
        if place := places().get(label):
            return self.reference(name, title or place.text, place.page)
        name_of_code = text.rpartition(".")[2] if text.startswith("~") else text
        return f"`{title or name_of_code}`"

    def reference(self, name, text, page):
        """Return a reference, as a link where it leads to another page."""
        if page == self.page:
            return f"*{text}*" if name == "ref" else text
        name = page.removeprefix("notebooks/")
        return f"[{text}]({f'../{page}.md' if name == page else f'{name}.ipynb'})"

    def directive(self, match):
        """Return a directive as plain Markdown."""
        space, _, name, title, options, body = match.groups()
        label = re.search(r":(?:label|name): (.*)", options)
        place = label and places().get(label[1])
        body = dedent(body).strip("\n")
        if name in ("raw", "eval-rst"):  # what only a page of the book shows
            return ""
        if name == "math":
            return indent(formula(body, place), space)
        body = DIRECTIVE.sub(self.directive, body)
        kind = name.removeprefix("prf:").capitalize()
        if kind == "Proof":
            return f"*{f'Proof {title}'.strip()}.*\n\n{body}\n\n∎"
        if kind == "Dropdown":
            return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
        if kind == "Exercise":
            title = f"Exercise. {title}"
        elif name.startswith("prf:"):
            numbered = place.text if place else kind
            title = f"{numbered} ({title})" if title else numbered
        return f"<blockquote>\n\n**{title}**\n\n{body}\n\n</blockquote>"


def formula(text, place):
    """Return a displayed formula, with its number; lines that it breaks are aligned, as Sphinx aligns them."""
    if r"\\" in text:
        text = f"\\begin{{split}}\n{text}\n\\end{{split}}"
    number = f"\n\\tag{{{place.text.strip('()')}}}" if place else ""
    return f"$$\n{text}{number}\n$$"


def references(cited):
    """Return the list of what a chapter cites."""
    lines = ["## References", ""]
    for entry in sorted((sources()[key] for key in cited), key=lambda one: one.label):
        text = re.sub(r"\\([-.()])", r"\1", entry.text.render(Backend()))
        lines.append(f"* [{entry.label}] {text}".replace("\n", " "))
    return "\n".join(lines)
