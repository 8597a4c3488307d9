"""A Sphinx extension: what the theme leaves open on the pages of a site.

Each page has a description of its own, for search engines and for cards. Search takes ``renyi`` for ``Rényi`` and
``waterfilling`` for ``water-filling``, and finds the paper's items by their numbers. In the end every page is gone
through once more: scripts that it does not use go, theorems get permanent links, and marks that a screen reader
stumbles over are put right.
"""

import gc
import re
import unicodedata
from functools import cache
from html import escape, unescape
from pathlib import Path

import pybtex.plugin
from docutils import nodes
from sphinx import addnodes
from sphinx.search import languages
from sphinx.search.en import SearchEnglish

NAMES = "alpha delta epsilon eta lambda nu rho sigma varepsilon le ge times cdot"
LETTERS = dict(zip(NAMES.split(), "αδεηλνρσε≤≥×·", strict=True))
TOGETHER = {"waterfilling": "water filling"}
"""Words that are written in one piece and in two."""
SUBJECTS = {
    "notebooks/02_privacy": ("renyi", "rényi", "epsilon"),
    "notebooks/04_problem": ("water filling", "water-filling", "waterfilling"),
    "book/migration": ("opacus",),
}
"""What readers look for under a word that many pages have: the page to begin with."""


# The public address.


def site_of(url: str) -> str:
    """The address of the site that belongs to a repository on GitHub; elsewhere none is known."""
    found = re.fullmatch(r"https://github\.com/([^/]+)/([^/]+?)(\.git)?/?", url)
    return f"https://{found[1].lower()}.github.io/{found[2]}/" if found else ""


def take_address(app, config):
    """The one setting, ``repository.url`` of ``_config.yml``: base address, canonical links, cards, launch buttons."""
    options = config.html_theme_options
    if url := options.get("repository_url"):
        config.html_baseurl = config.html_baseurl or site_of(url)
        buttons = {
            "colab_url": "https://colab.research.google.com",
            "binderhub_url": "https://mybinder.org",
        }
        options["launch_buttons"] = buttons | options.get("launch_buttons", {})


# The description of a page.


def plain(formula: str) -> str:
    """A short formula as text: letters for their names, no braces."""
    named = re.sub(r"\\([A-Za-z]+)", lambda found: LETTERS.get(found[1], ""), formula)
    return re.sub(r"[\\{}]|\s+(?=[,.;])", "", named).strip()


def described(doctree: nodes.document, longest: int = 300) -> str:
    """The first sentences of a page, of at most so many letters."""
    first = next(
        (
            each
            for each in doctree.findall(nodes.paragraph)
            if isinstance(each.parent, nodes.section)
        ),
        None,
    )
    if first is None:
        return ""
    first = first.deepcopy()
    for formula in list(first.findall(nodes.math)):
        formula.replace_self(nodes.Text(plain(formula.astext())))
    text = " ".join(first.astext().split()).removeprefix("Question. ")
    if len(text) > longest:
        whole = re.match(rf".{{60,{longest}}}[.?!](?= )", text)
        text = whole[0] if whole else text[: longest - 1].rsplit(" ", 1)[0] + "…"
    return text


def describe(app, pagename, templatename, context, doctree):
    """Description and card. The card's picture needs an absolute address: it appears where ``html_baseurl`` is set."""
    description = described(doctree) if doctree else ""
    title = unescape(
        re.sub(r"<[^>]*>", "", context.get("title", ""))
    )  # Sphinx gives it with its markup
    found = {
        "og:type": "website",
        "og:site_name": unescape(app.config.html_title),
        "og:title": title,
    }
    if description:
        found |= {"description": description, "og:description": description}
    if app.config.html_baseurl:
        base = app.config.html_baseurl.rstrip("/")
        found |= {
            "og:url": f"{base}/{pagename}.html",
            "og:image": f"{base}/_static/card.png",
        }
    found["twitter:card"] = "summary_large_image"
    kinds = {name: "property" if name.startswith("og:") else "name" for name in found}
    marks = [
        f'<meta {kinds[name]}="{name}" content="{escape(text)}" />'
        for name, text in found.items()
    ]
    context["metatags"] = context.get("metatags", "") + "\n".join(["", *marks, ""])


# Search.


def folded(text: str) -> str:
    """Text without accents, compounds in two words."""
    text = "".join(
        each
        for each in unicodedata.normalize("NFD", text)
        if not unicodedata.combining(each)
    )
    for one, two in TOGETHER.items():
        text = re.sub(one, two, text, flags=re.IGNORECASE)
    return text


class FoldedEnglish(SearchEnglish):
    """English, for an index and for queries without accents."""

    js_splitter_code = """
var splitQuery = (query) => {
  let text = query.normalize("NFD").replace(/\\p{Diacritic}/gu, "");
  for (const [one, two] of Object.entries(TOGETHER)) text = text.replaceAll(new RegExp(one, "gi"), two);
  return text.split(/[^\\p{Letter}\\p{Number}_]+/gu).filter((word) => word);
};
""".replace("TOGETHER", str(TOGETHER))

    def split(self, input):
        return super().split(folded(input))


def index_subjects(app, doctree):
    """A page's subjects are main entries of the index, which search puts first."""
    for name in SUBJECTS.get(app.env.docname, ()):
        section = next(doctree.findall(nodes.section))
        section.insert(
            1,
            addnodes.index(entries=[("single", name, section["ids"][0], "main", None)]),
        )


def index_items(app, doctree):
    """Each row of the paper map is an entry of the index, so that "equation 30" is found; a range has one a number."""
    if app.env.docname != "book/paper-map":
        return
    for row in doctree.findall(nodes.row):
        item = re.split(r"<br>|\n", row[0].astext())[0]
        found = re.fullmatch(
            r"([A-Z][a-z]+?)s? ([A-Z]?\d+)([a-z]?)(?:–(\d+))?", item.strip()
        )
        if found:
            kind, first, letter, last = found.groups()
            names = [f"{kind} {first}{letter}"]
            if last:
                names = [
                    f"{kind} {number}" for number in range(int(first), int(last) + 1)
                ]
            target = nodes.make_id(f"item {names[0]}")
            row["ids"].append(target)
            row[0].insert(
                0,
                addnodes.index(
                    entries=[("single", name, target, "main", None) for name in names]
                ),
            )


def index_again(app, doctree):
    """The domain of the index has been here before."""
    app.env.get_domain("index").process_doc(app.env, app.env.docname, doctree)


# The side bar.


@cache
def titles_alone(env):
    """The contents of each page without sections: its title, and the lists of the pages under it."""
    titles = {name: contents.deepcopy() for name, contents in env.tocs.items()}
    for entry in [
        each for contents in titles.values() for each in contents if len(each) > 1
    ]:
        under = [*entry.findall(addnodes.toctree)]
        entry[1:] = [nodes.bullet_list("", *under)] if under else []
    return titles


def lighten_side_bar(app, pagename, templatename, context, doctree):
    """Make it from titles alone: Sphinx would copy the sections of all pages for each page, and then leave them out.

    Pages of source code are not in the contents, so that those of one depth have the same side bar: it is made once.
    """
    made, bars, env = context["toctree"], app.side_bars, app.env
    place = pagename.count("/") if pagename.startswith("_modules/") else pagename

    def toctree(**options):
        key = place, *sorted(options.items())
        if key not in bars:
            whole, env.tocs = (
                env.tocs,
                titles_alone(env) if options.get("titles_only") else env.tocs,
            )
            bars[key] = made(**options)
            env.tocs = whole
        return bars[key]

    context["toctree"] = toctree


# Every page once more.

ALWAYS = [
    # the icons' font and style sheet are there already; this script would draw the same icons once more
    (r'\s*<script defer src="[^"]*scripts/fontawesome\.js[^"]*"></script>', ""),
    (r"\s*<!-- So that users can add custom icons -->", ""),
    # buttons whose labels lack the words that they show
    (r'(<summary) aria-label="Toggle hidden content"', r"\1"),
    (r'(<button class="btn search-button-field[^>]*) aria-label="Search"', r"\1"),
    (r'(<i class="theme-switch[^>]*) title="[^"]*"', r'\1 aria-hidden="true"'),
    # the arrow that unfolds the pages under a page
    (
        r'<summary>(<span class="toctree-toggle")',
        r'<summary aria-label="Show or hide its pages">\1',
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
FROM_A_FILE = (
    # results without excerpts, for which a browser would have to read other files
    r'(<script src="[^"]*_static/searchtools\.js)',
    r'<script>if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;</script>\n  \1',
)
ELSEWHERE = (
    r'\s*<script src="[^"]*(_static/searchtools|_static/language_data|searchindex)\.js[^"]*"></script>',
    "",
)


def put_right(text: str, is_search: bool = False) -> str:
    """A page with its marks put right; only the page that searches keeps the index of all words."""
    for pattern, by in [*ALWAYS, FROM_A_FILE if is_search else ELSEWHERE]:
        text = re.sub(pattern, by, text, flags=re.DOTALL)
    return text


def with_letters(text: str) -> str:
    """The general index, where the terms of the glossary stand as they are typed: letters for their names."""
    return re.sub(r"\\([a-z]+)\b", lambda found: LETTERS.get(found[1], found[0]), text)


def finish(app, exception):
    """Go through the pages, and leave out files that none of them loads."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            text = put_right(path.read_text(), path.name == "search.html")
            path.write_text(
                with_letters(text) if path.name == "genindex.html" else text
            )
    static = out / "_static"
    unused = {
        *static.glob("scripts/fontawesome.js*"),
        *static.rglob("*.map"),
        *static.glob("mathjax/*.js"),
    }
    for path in unused - {static / "mathjax" / "tex-chtml.js"}:
        path.unlink()


def setup(app):
    gc.set_threshold(
        200_000, 20, 100
    )  # documents are many objects, of which few go: to look for those took a seventh
    pybtex.plugin.find_plugin = cache(
        pybtex.plugin.find_plugin
    )  # or each citation reads what is installed
    languages["en"], app.side_bars = FoldedEnglish, {}
    app.connect("config-inited", take_address)
    app.connect("html-page-context", describe)
    app.connect(
        "html-page-context", lighten_side_bar, priority=100
    )  # before the theme takes it
    for step in (index_subjects, index_items, index_again):
        app.connect("doctree-read", step)
    app.connect(
        "build-finished", finish, priority=900
    )  # after the extensions that copy files
    return {"parallel_read_safe": True}
