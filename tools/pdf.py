"""Print the book by the system's Chromium: ``python tools/pdf.py FOLDER FILE.pdf``, FOLDER being its page as one."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PRINT = """
.bd-header, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, .prev-next-area, .bd-footer, button,
.figure-files, .skip-link, .headerlink { display: none !important; }
h1 { break-before: page; }
.bd-article-container, .bd-main, .bd-content { max-width: none !important; overflow: visible !important; }
"""


def main(folder, target):
    page = Path(folder, "all.html")  # the addresses of its pictures are those of a page at the top
    shutil.copy(Path(folder, "book", "introduction.html"), page)
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        sys.exit("make pdf needs Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox"]).new_page()
        opened.goto(page.resolve().as_uri(), timeout=0)
        opened.evaluate("() => window.MathJax?.startup?.promise?.then(() => true) ?? true")
        opened.add_style_tag(content=PRINT)
        margin = dict.fromkeys(("top", "bottom", "left", "right"), "2cm")
        opened.pdf(
            path=target, format="A4", outline=True, tagged=True, margin=margin, print_background=True, scale=0.75
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
