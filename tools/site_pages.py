"""A Sphinx extension: what the theme leaves open on the pages of a site.

Search takes ``renyi`` for ``Rényi`` and ``waterfilling`` for ``water-filling``.  In the end every page is gone through
once more: scripts that it does not use go, theorems get permanent links, and marks that a screen reader stumbles over
are put right.
"""

import gc
import re
import unicodedata
from functools import cache
from pathlib import Path

import pybtex.plugin
from sphinx.search import languages
from sphinx.search.en import SearchEnglish

NAMES = "alpha delta epsilon eta lambda nu rho sigma varepsilon le ge times cdot"
LETTERS = dict(zip(NAMES.split(), "αδεηλνρσε≤≥×·", strict=True))


def add_launch_buttons(app, config):
    """Where the repository has a public address, its chapters open in Colab and Binder."""
    options = config.html_theme_options
    if options.get("repository_url"):
        options.setdefault("launch_buttons", {}).update(
            colab_url="https://colab.research.google.com",
            binderhub_url="https://mybinder.org",
        )


# Search.


class FoldedEnglish(SearchEnglish):
    """English, for an index and for queries without accents, and with one compound in two words."""

    js_splitter_code = """
var splitQuery = (query) => query.normalize("NFD").replace(/\\p{Diacritic}/gu, "")
  .replaceAll(/waterfilling/gi, "water filling").split(/[^\\p{Letter}\\p{Number}_]+/gu).filter((word) => word);
"""

    def split(self, input):
        letters = unicodedata.normalize("NFD", input)
        text = "".join(char for char in letters if not unicodedata.combining(char))
        return super().split(re.sub("(?i)waterfilling", "water filling", text))


# Every page once more.

CORRECTIONS = [
    # the icons' font and style sheet are there already; this script would draw the same icons once more
    (r'\s*<script defer src="[^"]*scripts/fontawesome\.js[^"]*"></script>', ""),
    # buttons whose labels lack the words that they show
    (r'(<summary) aria-label="Toggle hidden content"', r"\1"),
    (r'(<button class="btn search-button-field[^>]*) aria-label="Search"', r"\1"),
    (r'(<i class="theme-switch[^>]*) title="[^"]*"', r'\1 aria-hidden="true"'),
    # the arrow that unfolds the pages under a page
    (
        r'<summary>(<span class="toctree-toggle")',
        r'<summary aria-label="Show or hide its pages">\1',
    ),
    # parts that few readers open; the one with this page in it is open (below)
    (
        r'<p aria-level="2" class="caption" role="heading"><span class="caption-text">'
        r'(Appendices|For maintainers)</span></p>\s*(<ul.*?)(?=<p aria-level="2"|</div>)',
        r'<details class="part"><summary class="caption">\1</summary>\n\2</details>',
    ),
    (
        r'<details class="part">(?=(?:(?!</details>).)*<li class="[^"]*\bcurrent)',
        '<details class="part" open>',
    ),
    # a header without words is no header
    (r"<th( [^>]*)?>(\s|&nbsp;|&#160;)*</th>", r"<td\1></td>"),
    # the same name for every proof of a page
    (r'(<div class="proof admonition") id="proof"', r"\1"),
    (r'(<section class="[a-z]+-content") id="proof-content"', r"\1"),
    # a list with children that are no items
    (r'<div role="list" class="citation-list">', '<div class="citation-list">'),
    (r'(<div class="citation" id="[^"]*") role="doc-biblioentry"', r"\1"),
    # a permanent link to a theorem
    (
        r'(<div class="proof (\w+) admonition" id="([^"]+)">\s*'
        r'<p class="admonition-title">(?:(?!</p>|headerlink).)*)</p>',
        r'\1<a class="headerlink" href="#\3" title="Link to this \2">#</a></p>',
    ),
]
SEARCH_FROM_A_FILE = (
    # results without excerpts, for which a browser would have to read other files
    r'(<script src="[^"]*_static/searchtools\.js)',
    r'<script>if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;</script>\n  \1',
)
NO_SEARCH = (
    # only the page that searches loads the index of all words
    r'\s*<script src="[^"]*(_static/searchtools|_static/language_data|searchindex)\.js[^"]*"></script>',
    "",
)


def put_right(path):
    """Correct the marks of a page."""
    is_search = path.name == "search.html"
    text = path.read_text()
    for pattern, by in [*CORRECTIONS, SEARCH_FROM_A_FILE if is_search else NO_SEARCH]:
        text = re.sub(pattern, by, text, flags=re.DOTALL)
    if path.name == "genindex.html":  # has the glossary's terms as they are typed
        letter = lambda match: LETTERS.get(match[1], match[0])  # noqa: E731
        text = re.sub(r"\\([a-z]+)\b", letter, text)
    path.write_text(text)


def finish(app, exception):
    """Go through the pages, and leave out files that none of them loads."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            put_right(path)
    for pattern in ("scripts/fontawesome.js*", "**/*.map", "mathjax/*.js"):
        for path in (out / "_static").glob(pattern):
            if path.name != "tex-chtml.js":
                path.unlink()


def setup(app):
    # documents are many objects, of which few go: to look for those took a seventh
    gc.set_threshold(200_000, 20, 100)
    # or each citation reads what is installed
    pybtex.plugin.find_plugin = cache(pybtex.plugin.find_plugin)
    languages["en"] = FoldedEnglish
    app.connect("config-inited", add_launch_buttons)
    # after the extensions that copy files
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True}
