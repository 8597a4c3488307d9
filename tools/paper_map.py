"""Write book/paper-map.md: where each item of the paper is derived, computed and tested.

``python tools/paper_map.py`` reads tools/paper_map.csv, whose column ``code`` has a dotted name or several, with blanks
between.  ``python tools/paper_map.py adascale.tex`` first compares it with the items of the paper's source.  An item is
numbered as the source numbers it.
"""

import csv
import importlib
import inspect
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from adascale.files import write_atomically

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "book" / "paper-map.md"
THEOREMS = ("definition", "lemma", "theorem", "corollary", "remark", "proposition", "algorithm", "figure")
ROLES = {"eq": "eq", "fig": "numref", "chap": "ref", "sec": "ref"}  # of a label's first part; else prf:ref
HEAD = """(chap-paper-map)=
# A map of the paper

Each numbered equation, definition, lemma, theorem, corollary, remark, assumption, algorithm and figure of the
paper {cite}`moradi2026adascale`, in its order: where this book derives it, what computes it, and one test of it.
Equations are numbered as the paper's source numbers them. A name of the code leads to its lines.
`tools/paper_map.py` writes this page; a test fails on an item without a row, and on a row that points nowhere.

| paper | chapter | computed by, tested by |
| --- | --- | --- |
"""


def read_rows() -> list[dict]:
    """The rows of the map, in the paper's order."""
    with open(ROOT / "tools" / "paper_map.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Source(NamedTuple):
    """Where the lines of a name are."""

    module: str
    """The one that defines it."""
    name: str
    """In that module: a function, a class, ``Class.method``."""

    @property
    def address(self) -> str:
        """The page that sphinx.ext.viewcode makes of the module and the anchor there, from a page of ``book/``."""
        return f"../_modules/{self.module.replace('.', '/')}.html#{self.name}"


def source_of(dotted: str) -> Source:
    """The source of a dotted name; that of its class where it is a field.

    Raises
    ------
    ImportError, AttributeError
        If there is no such name.
    """
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        source = None
        for i, name in enumerate(parts[cut:], start=cut):
            if inspect.isclass(found) and i == len(parts) - 1 and name in _fields(found):
                return source
            found = inspect.getattr_static(found, name) if inspect.isclass(found) else getattr(found, name)
            source = _defined(found) or source
        if source is None:
            break
        return source
    raise ImportError(f"{dotted} leads to no function and no class")


def _fields(found: type) -> set[str]:
    """Fields of a dataclass or named tuple, and the attributes that the docstring lists."""
    listed = re.findall(r"^ *(\w+) : ", found.__doc__ or "", re.MULTILINE)
    return {*inspect.get_annotations(found), *getattr(found, "_fields", ()), *listed}


def _defined(found: object) -> Source | None:
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    elif isinstance(found, classmethod | staticmethod):
        found = found.__func__
    name = getattr(found, "__qualname__", None)
    return Source(found.__module__, name) if name else None


def items_of(name: str) -> list[str]:
    """``Equations 4-5`` stands for Equation 4 and Equation 5."""
    span = re.fullmatch(r"(\w+)s (\d+)-(\d+)", name)
    return [f"{span[1]} {i}" for i in range(int(span[2]), int(span[3]) + 1)] if span else [name]


def inventory(source: str) -> list[str]:
    """The numbered items of a LaTeX source, as LaTeX would number them."""
    source = re.sub(r"(?<!\\)%.*", "", source)
    kinds = "|".join(("align", "equation", "subequations", *THEOREMS))
    found, counts, equations, part = [], dict.fromkeys(THEOREMS, 0), 0, None
    for match in re.finditer(rf"\\begin\{{({kinds})\}}|\\end\{{(subequations)\}}|\\item\[\\textbf\{{(A\d)", source):
        kind = match[1]
        if match[2]:
            part = None
        elif match[3]:
            found.append(f"Assumption {match[3]}")
        elif kind == "subequations":
            equations, part = equations + 1, "a"
            found.append(f"Equation {equations}")
        elif kind in THEOREMS:
            counts[kind] += 1
            found.append(f"{kind.capitalize()} {counts[kind]}")
        else:
            body = source[match.end() : source.index(rf"\end{{{kind}}}", match.end())]
            for _ in filter(_numbered, _lines(body)):
                if part:
                    found.append(f"Equation {equations}{part}")
                    part = chr(ord(part) + 1)
                else:
                    equations += 1
                    found.append(f"Equation {equations}")
    return found


def _numbered(line: str) -> bool:
    return bool(line.strip()) and not re.search(r"\\nonumber|\\notag", line)


def _lines(body: str) -> list[str]:
    r"""Split at the \\ that stand in no group and no inner environment."""
    lines, depth, start = [], 0, 0
    for token in re.finditer(r"\\begin\{|\\end\{|\\\\|\\[{}]|[{}]", body):
        text = token[0]
        if text.startswith(r"\begin"):
            depth += 2  # the brace of its argument closes again
        elif text == r"\end{":
            pass  # one brace less for the environment, one more for its argument: closed below
        elif text == "{":
            depth += 1
        elif text == "}":
            depth -= 1
        elif text == r"\\" and depth == 0:
            lines.append(body[start : token.start()])
            start = token.end()
    return [*lines, body[start:]]


def page(rows: list[dict]) -> str:
    """The whole page."""
    lines = []
    for row in rows:
        label = row["chapter"]
        role = ROLES.get(re.split("[:-]", label)[0], "prf:ref")
        paper = f"{row['paper'].replace('-', '–')}<br>*{row['about']}*"
        code = "<br>".join(_linked(name) for name in row["code"].split())
        lines.append(f"| {paper} | {{{role}}}`{label}` | {code}<br>{_breakable(row['test'])} |\n")
    return HEAD + "".join(lines)


def _linked(name: str) -> str:
    """A name as a link to its lines."""
    return f'<a class="reference internal" href="{source_of(name).address}">{_breakable(name)}</a>'


def _breakable(name: str) -> str:
    """Code that a narrow column can break after a dot, a slash or an underscore."""
    return f"<code>{re.sub(r'([./_]|::)', lambda mark: f'{mark[0]}<wbr>', name)}</code>"


def main(arguments: list[str]) -> None:
    rows = read_rows()
    if arguments:
        mapped = [item for row in rows for item in items_of(row["paper"])]
        there = inventory(Path(arguments[0]).read_text(encoding="utf-8"))
        if missing := [item for item in there if item not in mapped]:
            sys.exit(f"no row for {', '.join(missing)}")
        if strange := [item for item in mapped if item not in there]:
            sys.exit(f"the paper has no {', '.join(strange)}")
    write_atomically(PAGE, page(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
