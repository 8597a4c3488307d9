"""Every page as its readers open it: in Chromium, wide and narrow, light, dark and printed, by mouse and keyboard."""

import hashlib
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

AXE = (
    Path(__file__).parent / "axe" / "axe.min.js"
)  # axe-core 4.14.1 from npm, under the Mozilla Public License 2.0
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
LOOKS = (("light", 1440), ("dark", 390))
WINDOWS = (("light", 390), ("dark", 1440))
"""Axe checks a page in one of them, and only pages that together have every kind of element of all: see `varied`."""

pytestmark = pytest.mark.book

# What a page is asked, in its own language.

WHEN_SET = "() => window.MathJax?.startup?.promise?.then(() => true) ?? true"
THEME = "theme => Object.assign(document.documentElement.dataset, {theme, mode: theme})"
RAW_TEX = r"""() => {
  const copy = document.body.cloneNode(true);
  copy.querySelectorAll("script, style, code, pre, .sig, mjx-container").forEach((each) => each.remove());
  const left = copy.textContent.match(/\\\(|\\\[|\$\$|\\(frac|mathbf|sum|nu|eta|varepsilon)\b/g) ?? [];
  return [...left, ...[...document.querySelectorAll("mjx-merror")].map((each) => each.textContent)];
}"""
TOO_WIDE = "() => Math.max(document.documentElement.scrollWidth - innerWidth, 0)"
CUT_ON_PAPER = """() => [...document.querySelectorAll(".bd-article pre")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.getClientRects().length)
  .map((each) => each.textContent.slice(0, 60))"""
LOOSE_MARKS = r"""() => [...document.querySelectorAll(".bd-article span.math > mjx-container")].filter((each) => {
  const after = each.nextSibling ?? each.parentElement.nextSibling;
  if (!each.getClientRects().length || after?.nodeType !== 3 || !/^[.,;:!?)]/.test(after.data)) return false;
  const mark = document.createRange();
  mark.setStart(after, 0);
  mark.setEnd(after, 1);
  const [formula, place] = [each, mark].map((one) => one.getBoundingClientRect());
  return place.left < formula.right - 3 && place.bottom > formula.bottom;
}).map((each) => each.parentElement.textContent)"""
WIDE_FORMULAS = """() => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((each) => (each.open = true));
  const wide = [...document.querySelectorAll("div.math")].filter((each) => each.scrollWidth > each.clientWidth + 1);
  folded.forEach((each) => (each.open = false));
  return wide.map((each) => each.id || each.textContent.slice(0, 60));
}"""
STOPS_IN_FORMULAS = "() => document.querySelectorAll(`mjx-container:is([tabindex='0'], :has([tabindex='0']))`).length"
TWICE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  return Object.entries(Object.groupBy(ids, (id) => id)).filter(([_, same]) => same.length > 1).map(([id]) => id);
}"""
ICONS_WITHOUT_PICTURE = """() => document.fonts.ready.then(() => [...document.querySelectorAll("i[class*='fa-']")]
  .filter((each) => each.getClientRects().length)
  .filter((each) => getComputedStyle(each, "::before").content === "none"
    || !document.fonts.check("900 16px 'Font Awesome 6 Free'"))
  .map((each) => each.className))"""
SHIFT = """() => new Promise((done) => {
  let total = 0;
  const add = (list) => list.getEntries().forEach((each) => (total += each.hadRecentInput ? 0 : each.value));
  new PerformanceObserver(add).observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(total), 100);
})"""
MOST_SHIFT = 0.1  # what the web's own measure calls good
HEIGHT = "() => document.documentElement.scrollHeight"
MOST_SCREENS, API_SCREENS = 15, 20
ANY_LENGTH = "book/paper-map|genindex|py-modindex|prf-prf"
LOCAL = ("file:", "data:", "blob:")
NO_MOTION = "* { transition: none !important; animation: none !important; scroll-behavior: auto !important; }"
AT_REST = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
LESS_OF_THE_SAME = """() => {
  document.querySelectorAll("mjx-container").forEach((each) => each.replaceChildren());
  [...document.querySelectorAll("span.math")].slice(20).forEach((each) => each.replaceWith("x"));
  [...document.querySelectorAll(".highlight pre")].slice(5).forEach((each) => each.replaceChildren(each.textContent));
  [...document.querySelectorAll("dl.py")].slice(40).forEach((each) => each.remove());
  [...document.querySelectorAll(".genindextable li")].slice(200).forEach((each) => each.remove());
}"""
"""Nine of ten elements are parts of formulas, code, or one of a thousand signatures: axe would take minutes."""
SERIOUS = """() => axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"], preload: false})
  .then((found) => found.violations.filter((each) => ["serious", "critical"].includes(each.impact))
    .flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 120)}`)))"""


FAULTS = ["errors", "outside", "tex", "too_wide", "loose", "formulas", "serious"]
FAULTS += ["cut", "stops", "twice", "icons", "shift", "screens"]


def look(tab, address, windows=WINDOWS):
    """The faults of one page, which is loaded once: by name what there is of each, and nothing where there is none."""
    seen = {each: [] for each in FAULTS}
    handlers = {
        "console": lambda message: seen["errors"].extend(
            [message.text] * (message.type == "error")
        ),
        "pageerror": lambda error: seen["errors"].append(str(error)),
        "request": lambda asked: seen["outside"].extend(
            [asked.url] * (not asked.url.startswith(LOCAL))
        ),
    }
    for event, handler in handlers.items():
        tab.on(event, handler)
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto(address)
    tab.evaluate(WHEN_SET)
    shift, screens = tab.evaluate(SHIFT), tab.evaluate(HEIGHT) / 900
    seen["shift"] = [shift] * (shift > MOST_SHIFT)
    most = API_SCREENS if "/book/api/" in address else MOST_SCREENS
    seen["screens"] = [screens] * (
        screens > most and not re.search(ANY_LENGTH, address)
    )
    tab.add_style_tag(content=NO_MOTION)  # a page is checked when it has come to rest
    for theme, width in LOOKS:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate(THEME, theme)
        seen["too_wide"] += [(theme, width)] * (tab.evaluate(TOO_WIDE) > 0)
        seen["loose"] += [(width, each) for each in tab.evaluate(LOOSE_MARKS)]
        if width == 1440 and "/notebooks/" in address:
            seen["formulas"] = tab.evaluate(WIDE_FORMULAS)
    for name, asked in {
        "tex": RAW_TEX,
        "stops": STOPS_IN_FORMULAS,
        "twice": TWICE,
        "icons": ICONS_WITHOUT_PICTURE,
    }.items():
        seen[name] = tab.evaluate(asked)
    tab.evaluate(LESS_OF_THE_SAME)
    for theme, width in windows:
        tab.evaluate(AXE.read_text())
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate(THEME, theme)
        tab.evaluate(AT_REST)
        seen["serious"] += [(theme, width, each) for each in tab.evaluate(SERIOUS)]
    tab.set_viewport_size({"width": 718, "height": 1000})  # A4 within its margins
    tab.emulate_media(media="print")
    seen["cut"] = tab.evaluate(CUT_ON_PAPER)
    tab.emulate_media(media="screen")
    for event, handler in handlers.items():
        tab.remove_listener(event, handler)
    return seen


def varied(paths):
    """The few of these pages that together have every kind of element: its name, its classes and what else it says."""
    tags = {path: re.findall(r"<(\w[^>]*)>", path.read_text()) for path in paths}
    kinds = {
        path: {re.sub(r'(?<! class)="[^"]*"', "", tag) for tag in tags[path]}
        for path in paths
    }
    found, left = set(), set().union(*kinds.values())
    while left:
        best = max(paths, key=lambda path: len(kinds[path] & left))
        found.add(best)
        left -= kinds[best]
    return found


@pytest.fixture(
    scope="module", params=["even", "odd", pytest.param("all", marks=pytest.mark.fuzz)]
)
def pages(request, browser, html):
    """Half of the pages that people read, seen once: each half may be another worker's. Under "all", axe sees all."""
    context = browser.new_context()
    tab = context.new_page()
    paths = [
        path
        for path in sorted(html.rglob("*.html"))
        if not {"_static", "_modules"} & set(path.parts)
    ]
    paths.remove(html / "index.html")  # which only leads to the first page
    axed = (
        paths
        if request.param == "all"
        else varied(paths[::4] + paths[1::4]) | varied(paths[2::4] + paths[3::4])
    )
    mine = [
        (k, path)
        for k, path in enumerate(paths)
        if request.param in ("all", ("even", "odd")[k % 2])
    ]
    names = {
        path: path.relative_to(html).with_suffix("").as_posix() for _, path in mine
    }
    yield {
        names[path]: look(tab, path.as_uri(), WINDOWS[k // 2 % 2 :][: path in axed])
        for k, path in mine
    }
    context.close()


def test_axe_sees_an_image_without_words_on_whichever_page_it_is(tmp_path):
    paths = [tmp_path / f"{name}.html" for name in "abcd"]
    for path in paths:
        path.write_text('<p class="x"><img src="a.png" alt="words"></p>')
    assert len(varied(paths)) == 1
    paths[2].write_text('<p class="x"><img src="a.png"></p><b>')
    assert paths[2] in varied(paths)


def test_the_judge_is_the_file_that_was_published():
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == AXE_SHA256
    assert b"axe v4.14.1" in AXE.read_bytes()[:40]
    assert "Mozilla Public License" in (AXE.parent / "LICENSE").read_text()


@pytest.mark.parametrize("what", FAULTS)
def test_no_page_has_this_fault(pages, what):
    assert {name: seen[what] for name, seen in pages.items() if seen[what]} == {}


BAD = r"""<!doctype html><html lang="en" data-theme="light"><head><title>Bad</title></head>
<body><main class="bd-article"><h1>Bad</h1><p style="color:#999;background:#fff">Hardly to be read.</p>
<p>\(x\) is raw</p><p id="a"></p><p id="a"></p>
<div style="width:2000px">wide</div><pre style="overflow:auto;width:100px">%s</pre><i class="fa-solid fa-none">.</i>
<mjx-container tabindex="0">x</mjx-container>
<p style="width:0"><span class="math"><mjx-container style="display:inline-block">x</mjx-container></span>, too</p>
<div class="math" style="width:100px;overflow:auto"><div style="width:200px">long</div></div>
<div style="height:14000px"></div>
<script>setTimeout(() => document.querySelector("h1").style.marginTop = "500px", 50);
console.error("said"); fetch("http://127.0.0.1:9/").catch(() => 0);</script></main></body></html>"""


def test_a_bad_page_is_seen_to_be_bad(page, tmp_path):
    path = tmp_path / "notebooks" / "bad.html"
    path.parent.mkdir()
    path.write_text(BAD % ("long " * 60))
    seen = look(page, path.as_uri())
    assert [name for name in FAULTS if not seen[name]] == []
    assert "said" in seen["errors"]
    assert seen["outside"] == ["http://127.0.0.1:9/"]
    assert seen["too_wide"] == [*LOOKS]
    assert {width for width, _ in seen["loose"]} == {width for _, width in LOOKS}
    assert {each[:2] for each in seen["serious"] if "color-contrast" in each[2]} == {
        *WINDOWS
    }
    assert seen["formulas"] == ["long"]
    assert seen["stops"] == 1
    assert seen["twice"] == ["a"]
    assert seen["icons"] == ["fa-solid fa-none"]


# Search.


def results(page, html, query):
    """Where the search page leads, best first."""
    page.goto(f"{(html / 'search.html').as_uri()}?q={query.replace(' ', '+')}")
    page.wait_for_function(
        "document.querySelector('.search-summary')?.innerText.match(/finished|did not match/)"
    )
    return [
        link.get_attribute("href") for link in page.query_selector_all("ul.search li a")
    ]


@pytest.mark.parametrize(
    ("queries", "leads"),
    [
        (("renyi", "rényi", "Rényi"), "notebooks/02_privacy.html"),
        (
            ("waterfilling", "water-filling", "water filling"),
            "notebooks/04_problem.html",
        ),
    ],
)
def test_search_takes_every_spelling(page, html, queries, leads):
    found = [
        {link.split("?")[0].split("#")[0] for link in results(page, html, query)}
        for query in queries
    ]
    assert all(leads in each for each in found)
    # in the index of names an accent may still matter; the chapters are the same
    chapters = [
        {link for link in each if link.startswith("notebooks/")} for each in found
    ]
    assert all(each == chapters[0] for each in chapters)


@pytest.mark.parametrize(
    ("query", "leads"),
    [
        ("renyi", "notebooks/02_privacy.html"),
        ("epsilon", "notebooks/02_privacy.html"),
        ("water filling", "notebooks/04_problem.html"),
        ("opacus", "book/migration.html"),
    ],
)
def test_search_finds_the_right_page_first(page, html, query, leads):
    assert results(page, html, query)[0].startswith(leads)


@pytest.mark.parametrize("query", ["epsilon", "queue", "adascale"])
def test_search_puts_chapters_before_the_api(page, html, query):
    found = results(page, html, query)
    is_api = [link.startswith("book/api") for link in found]
    assert is_api == sorted(is_api)
    assert any(is_api)
    assert found[0].startswith(("notebooks/0", "notebooks/1"))


def test_the_magnifier_of_the_search_page_overlaps_no_word(page, html):
    results(page, html, "renyi")
    left = page.evaluate("""() => {
      const box = document.querySelector("main input[type=search]");
      return box.getBoundingClientRect().left + parseFloat(getComputedStyle(box).paddingLeft);
    }""")
    icon = page.locator("main .bd-search .fa-magnifying-glass").bounding_box()
    assert icon["x"] + icon["width"] <= left


@pytest.mark.parametrize(
    ("name", "typed", "left"),
    [
        ("notation", "Renyi order", r"order of a Rényi divergence"),
        ("paper-map", "equation 30b", "Equation 30b"),
    ],
)
def test_a_long_table_can_be_filtered(page, html, name, typed, left):
    page.goto((html / "book" / f"{name}.html").as_uri())
    page.evaluate(WHEN_SET)
    rows = page.locator("article tbody tr")
    count = rows.count()
    page.get_by_label("Filter").fill(typed)
    shown = [row.inner_text() for row in rows.all() if row.is_visible()]
    assert any(left in text for text in shown)
    assert 0 < len(shown) < 6
    assert page.locator(".filter output").inner_text() == f"{len(shown)} of {count}"
    page.get_by_label("Filter").fill("")
    assert all(row.is_visible() for row in rows.all())


def test_search_finds_an_item_of_the_paper_by_its_number(page, html):
    assert results(page, html, "xylophone") == []  # the control
    rows = BeautifulSoup((html / "book" / "paper-map.html").read_text(), "html.parser")
    for item in ("equation 30", "Equation 30a", "theorem 2", "equation 5"):
        name, _, place = results(page, html, item)[0].partition("#item-")
        kind, number = item.lower().split()
        assert name == "book/paper-map.html"
        assert (
            rows.find(id=f"item-{place}")
            .get_text()
            .strip()
            .lower()
            .startswith((f"{kind} {number}", f"{kind}s "))
        )


# Keyboard.

IN_CONTENT = "() => !!document.activeElement.closest('main')"


def test_the_first_stop_leads_past_the_side_bar(page, html):
    page.goto((html / "notebooks" / "02_privacy.html").as_uri())
    page.evaluate(WHEN_SET)
    page.keyboard.press("Tab")
    assert (
        page.evaluate("() => document.activeElement.innerText")
        == "Skip to main content"
    )
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(IN_CONTENT)


def test_search_opens_and_answers_by_keyboard(page, html):
    page.goto((html / "notebooks" / "02_privacy.html").as_uri())
    page.evaluate(WHEN_SET)
    page.keyboard.press("Control+k")
    page.keyboard.type("renyi")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=renyi*")
    page.wait_for_function(
        "document.querySelector('.search-summary')?.innerText.match(/finished|did not match/)"
    )
    links = {
        link.get_attribute("href").split("?")[0]
        for link in page.query_selector_all("ul.search li a")
    }
    assert (
        "../notebooks/02_privacy.html" in links or "notebooks/02_privacy.html" in links
    )


def test_side_bar_and_search_are_stops_of_the_tab_key(page, html):
    page.goto((html / "book" / "notation.html").as_uri())
    page.evaluate(WHEN_SET)
    met = []
    for _ in range(12):
        page.keyboard.press("Tab")
        met.append(
            page.evaluate("() => document.activeElement.outerHTML.slice(0, 300)")
        )
    assert any("search" in each for each in met), met
    assert any('href="../notebooks/01_system_model.html"' in each for each in met), met


# Links that one can keep.


def test_a_theorem_has_a_link_of_its_own(page, html):
    page.goto((html / "notebooks" / "03_convergence.html").as_uri())
    title = page.locator("#thm-convergence > .admonition-title")
    title.hover()
    link = title.locator("a.headerlink")
    assert link.is_visible()
    link.click()
    assert page.url.endswith("#thm-convergence")


def test_a_link_to_a_formula_opens_the_box_that_it_is_in(page, html):
    address = (html / "notebooks" / "A3_causal_proofs.html").as_uri()
    formula = page.locator("#equation-eq-queue-identity")
    page.goto(address)
    page.evaluate(WHEN_SET)
    assert not formula.is_visible()  # the control
    page.goto(f"{address}#equation-eq-queue-identity")
    assert formula.is_visible()
    assert 0 <= formula.bounding_box()["y"] < page.viewport_size["height"]


def test_paper_shows_what_is_folded(page, html):
    page.goto((html / "notebooks" / "A3_causal_proofs.html").as_uri())
    page.evaluate(WHEN_SET)
    folded = page.locator(".bd-article details:not([open]) div.math").all()
    assert len(folded) > 10
    assert not any(each.is_visible() for each in folded)  # the control
    page.emulate_media(media="print")
    assert all(each.is_visible() for each in folded)
