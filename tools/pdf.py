"""Print the book by the system's Chromium: ``python tools/pdf.py FOLDER FILE.pdf``, FOLDER being its page as one.

What is for a screen stays there: the explorer, reference pages that are searched, and code that a page folds.
"""

import shutil
import sys
from pathlib import Path

from bs4 import BeautifulSoup
from playwright.sync_api import sync_playwright

LEFT_OUT = ("explorer", "paper-map", "api", "reproducibility", "checklists", "status")
NOTE = "Not on paper: the explorer, the paper map, the API, the pages on this project, and code that pages fold."
PRINT = """
.bd-header, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, .prev-next-area, .bd-footer, button,
.figure-files, .skip-link, .headerlink { display: none !important; }
:is([id^="document-notebooks/"], [id="document-book/cheatsheet"]) + section { break-before: page; }
h1, h2, h3, h4 { break-after: avoid; }
figure, tr, mjx-container { break-inside: avoid; }
.bd-article-container, .bd-main, .bd-content { max-width: none !important; overflow: visible !important; }
"""


def on_paper(html):
    """Return the book's page without what is for a screen; a link has to lead somewhere on it, or to the web."""
    soup = BeautifulSoup(html, "html.parser")
    for name in LEFT_OUT:  # with the pages under it
        soup.find(id=f"document-book/{name}").find_next_sibling("section").decompose()
    for folded in soup.select("details.hide"):
        folded.decompose()
    for link in soup.select("a[href]"):
        if not link["href"].startswith(("#", "http")):
            del link["href"]
    note = soup.new_tag("p")
    note.string = NOTE
    soup.h1.insert_after(note)
    return str(soup)


def main(folder, target):
    page = Path(folder, "all.html")  # the addresses of its pictures are those of a page at the top
    page.write_text(on_paper(Path(folder, "book", "introduction.html").read_text()))
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        sys.exit("make pdf needs Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        opened = opened.new_page(reduced_motion="reduce")  # nothing moves on paper
        opened.goto(page.resolve().as_uri(), timeout=0)
        opened.evaluate("() => window.MathJax?.startup?.promise?.then(() => true) ?? true")
        opened.add_style_tag(content=PRINT)
        margin = dict.fromkeys(("top", "bottom", "left", "right"), "2cm")
        opened.pdf(
            path=target, format="A4", outline=True, tagged=True, margin=margin, print_background=True, scale=0.72
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
