"""The book as one PDF, ``_build/pdf/adascale.pdf``: ``python tools/pdf.py``; ``make pdf`` builds the book first.

The pages are read as for the book, by ``_config.yml`` and ``_toc.yml`` and with its cache of executed chapters.
``pdf_pages.py`` makes one LaTeX document of them, with the preamble ``pdf.tex``, and latexmk the PDF.  What fails: a
warning of Sphinx, an error of LaTeX, a reference that leads nowhere, an equation or figure whose number is not that of
the pages, and a character that no font has.  Lines that stick out far are listed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parent
PROGRAMS = ("latexmk", "xelatex", "kpsewhich", "rsvg-convert")
FILES = ("fncychap.sty", "tabulary.sty", "lmroman10-regular.otf", "pzdr.tfm", "DejaVuSansMono.ttf")
"""One that each of the packages below brings."""
PACKAGES = (
    "latexmk texlive-xetex texlive-latex-extra texlive-fonts-recommended fonts-lmodern fonts-dejavu-core librsvg2-bin"
)
FAR = 20.0
"""Points; a line that sticks out further is listed."""

SETTINGS = {
    "latex_engine": "xelatex",
    "latex_use_xindy": False,
    "latex_domain_indices": False,
    "latex_table_style": ["booktabs"],
    "latex_show_urls": "no",
    "latex_elements": {
        "papersize": "a4paper",
        "pointsize": "10pt",
        "fontpkg": "",
        "fncychap": "",
        "figure_align": "!htbp",
        "printindex": "",
        "extraclassoptions": "openany,oneside",
        "sphinxsetup": "hmargin=1in, vmargin={1in,1in}, VerbatimColor={gray}{0.97}, VerbatimBorderColor={gray}{0.85}",
    },
    # figures as SVG where they have one; tables of pandas, which have no picture
    "nb_mime_priority_overrides": [("latex", "image/svg+xml", 5), ("latex", "text/html", 35)],
}


def has_file(name: str) -> bool:
    """Does LaTeX find this file?"""
    return subprocess.run(["kpsewhich", name], capture_output=True).returncode == 0


def missing(which=shutil.which, has_file=has_file) -> str:
    """One line that says what LaTeX lacks, and Debian's packages; empty if all is there.

    >>> print(missing(which=lambda program: None if program == "latexmk" else program))
    make pdf needs latexmk; on Debian: apt-get install --no-install-recommends latexmk texlive-xetex \
texlive-latex-extra texlive-fonts-recommended fonts-lmodern fonts-dejavu-core librsvg2-bin
    """
    lacks = [each for each in PROGRAMS if not which(each)] or [each for each in FILES if not has_file(each)]
    install = f"on Debian: apt-get install --no-install-recommends {PACKAGES}"
    return f"make pdf needs {', '.join(lacks)}; {install}" if lacks else ""


def write_latex(source: Path, target: Path) -> Path:
    """The book as a LaTeX document, by Sphinx."""
    import yaml
    from jupyter_book.sphinx import build_sphinx

    import adascale

    book = yaml.safe_load((source / "_config.yml").read_text())
    root = yaml.safe_load((source / "_toc.yml").read_text())["root"]
    settings = SETTINGS | {
        "latex_elements": SETTINGS["latex_elements"] | {"preamble": (TOOLS / "pdf.tex").read_text()},
        "latex_documents": [(root, "adascale.tex", book["title"], book["author"], "manual")],
        "latex_individualpages": False,
        "release": adascale.__version__,
        "extensions": [*book["sphinx"]["config"]["extensions"], "pdf_pages"],
        "external_toc_path": str(source / "_toc.yml"),
        "nb_execution_cache_path": str(source / "_build" / ".jupyter_cache"),
    }
    failed = build_sphinx(
        source,
        target / "latex",
        noconfig=True,
        path_config=source / "_config.yml",
        confoverrides=settings,
        builder="latex",
        freshenv=True,
        warningiserror=True,
        keep_going=True,
        quiet=True,
    )
    if failed:
        sys.exit("Sphinx warned, or could not write the LaTeX document")
    return target / "latex" / "adascale.tex"


def run_latex(document: Path) -> str:
    """Run latexmk, and return LaTeX's log."""
    command = ["latexmk", "-xelatex", "-interaction=nonstopmode", "-halt-on-error", document.name]
    whole_lines = os.environ | {"max_print_line": "10000", "LATEXOPTS": ""}
    run = subprocess.run(
        command, cwd=document.parent, env=whole_lines, capture_output=True, text=True, errors="replace"
    )
    log = document.with_suffix(".log")
    log = log.read_text(errors="replace") if log.exists() else ""
    if run.returncode and not problems(log):
        sys.exit(f"latexmk failed; its last words: {(run.stdout + run.stderr)[-500:]}")
    return log


def problems(log: str) -> list[str]:
    r"""What LaTeX's log has that makes a PDF wrong: errors, broken references, characters that no font has.

    >>> problems("LaTeX Warning: Reference `eq:a' on page 3 undefined on input line 7.\n")
    ["Reference `eq:a' on page 3 undefined on input line 7."]
    """
    if errors := re.findall(r"^! .*(?:\n.*){0,4}", log, re.MULTILINE):
        return errors  # LaTeX stopped there: references are not known yet
    wrong = re.findall(r"Warning: ((?:Reference|Hyper reference|Citation) .* undefined.*)", log)
    wrong += re.findall(r"Warning: (Label .* multiply defined.*)", log)
    return [*wrong, *dict.fromkeys(re.findall(r"Missing character: .*", log))]


def sticking_out(log: str, least: float = FAR) -> list[str]:
    r"""The boxes that are too wide for the line, widest first.

    >>> sticking_out("Overfull \\hbox (23.7pt too wide) in a\nOverfull \\hbox (1.0pt too wide) in b\n")
    ['23.7 pt in a']
    """
    found = re.findall(r"^Overfull \\hbox \(([\d.]+)pt too wide\) (.*)", log, re.MULTILINE)
    widest = sorted(((float(width), where) for width, where in found), reverse=True)
    return [f"{width:.1f} pt {where}" for width, where in widest if width >= least]


def differing(numbers: dict[str, str], aux: str) -> list[str]:
    r"""The labels whose number in LaTeX is not that of the pages, or that LaTeX lacks.

    >>> differing({"a:b": "1.2", "c": "3"}, r"\newlabel{a:b}{{1.2}{7}{}{}{}}\newlabel{c}{{4}{7}{}{}{}}")
    ['c: 3 on the pages, 4 in the PDF']
    """
    printed = dict(re.findall(r"\\newlabel\{([^{}]*)\}\{\{([^{}]*)\}", aux))
    return [
        f"{label}: {number} on the pages, {printed.get(label, 'nothing')} in the PDF"
        for label, number in numbers.items()
        if printed.get(label) != number
    ]


def main(source: Path) -> None:
    """Write the PDF, and say how it is."""
    target = source / "_build" / "pdf"
    document = write_latex(source, target)
    log = run_latex(document)
    wrong = problems(log)
    if not wrong:
        numbers = json.loads((document.parent / "numbers.json").read_text())
        wrong = differing(numbers, document.with_suffix(".aux").read_text())
    wide = sticking_out(log)
    for line in wide:
        print(f"sticks out by {line} of {document}")
    if wrong:
        sys.exit("\n".join([*wrong, f"{len(wrong)} faults; the log is {document.with_suffix('.log')}"]))
    book = target / "adascale.pdf"
    shutil.copyfile(document.with_suffix(".pdf"), book)
    (pages,) = re.findall(r"Output written on .* \((\d+) pages", log)
    size = book.stat().st_size / 1e6
    print(f"{book}: {pages} pages, {size:.1f} MB, {len(wide)} lines stick out by {FAR:g} pt or more")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only ask whether LaTeX is there")
    parser.add_argument("--source", type=Path, default=TOOLS.parent, help="where the book lies")
    options = parser.parse_args()
    if lacks := missing():
        sys.exit(lacks)
    if not options.check:
        main(options.source.resolve())
