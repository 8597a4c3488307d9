"""Every page as its readers open it: in Chromium, wide and narrow, light, dark and printed, by mouse and keyboard."""

import re
from pathlib import Path

import pytest

# axe-core 4.14.1 from npm, under the Mozilla Public License 2.0
AXE = Path(__file__).parent / "axe" / "axe.min.js"
LOOKS = (("light", 1440), ("dark", 390))
WINDOWS = (("light", 390), ("dark", 1440))
"""Axe checks a page in one of them."""
AXED = """book/introduction book/epsilon book/explorer book/api/policies book/paper-map book/glossary book/status
notebooks/02_privacy notebooks/05_adascale notebooks/A3_causal_proofs notebooks/A15_measured search genindex"""
"""Together they have nearly every kind of element; under --fuzz axe checks every page."""

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
STOPS_IN_FORMULAS = """() => [...document.querySelectorAll("mjx-container:is([tabindex='0'], :has([tabindex='0']))")]
  .map((each) => each.outerHTML.slice(0, 60))"""
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


def most_screens(address):
    """Return how long a page may be."""
    if re.search(ANY_LENGTH, address):
        return float("inf")
    return API_SCREENS if "/book/api/" in address else MOST_SCREENS


def watch(tab):
    """Return what will go wrong on a page: errors, and requests to anything but files."""
    errors, outside = [], []
    tab.on("console", lambda line: line.type == "error" and errors.append(line.text))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("request", lambda asked: asked.url.startswith(LOCAL) or outside.append(asked.url))  # fmt: skip
    return errors, outside


def look(context, address, windows=WINDOWS):
    """Return the faults of one page, which is loaded once: by name, nothing where there is none."""
    tab = context.new_page()
    errors, outside = watch(tab)
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto(address)
    tab.evaluate(WHEN_SET)
    faults = {name: [] for name in FAULTS} | {"errors": errors, "outside": outside}
    shift, screens = tab.evaluate(SHIFT), tab.evaluate(HEIGHT) / 900
    faults["shift"] += [shift] * (shift > MOST_SHIFT)
    faults["screens"] += [screens] * (screens > most_screens(address))
    tab.add_style_tag(content=NO_MOTION)  # a page is checked when it has come to rest
    for theme, width in LOOKS:
        show(tab, theme, width)
        faults["too_wide"] += [(theme, width)] * (tab.evaluate(TOO_WIDE) > 0)
        faults["loose"] += [(width, text) for text in tab.evaluate(LOOSE_MARKS)]
        if width == 1440 and "/notebooks/" in address:
            faults["formulas"] = tab.evaluate(WIDE_FORMULAS)
    for name, question in QUESTIONS.items():
        faults[name] += tab.evaluate(question)
    tab.evaluate(LESS_OF_THE_SAME)
    tab.evaluate(AXE.read_text())
    for theme, width in windows:
        show(tab, theme, width)
        faults["serious"] += [(theme, width, text) for text in tab.evaluate(SERIOUS)]
    tab.set_viewport_size({"width": 718, "height": 1000})  # A4 within its margins
    tab.emulate_media(media="print")
    faults["cut"] += tab.evaluate(CUT_ON_PAPER)
    tab.close()
    return faults


def show(tab, theme, width):
    """Show a page in a theme on a screen of some width."""
    tab.set_viewport_size({"width": width, "height": 900})
    tab.evaluate(THEME, theme)
    tab.evaluate(AT_REST)


@pytest.fixture(
    scope="module", params=["even", "odd", pytest.param("all", marks=pytest.mark.fuzz)]
)
def pages(request, browser, html):
    """Half of the pages that people read, seen once: each half may be another worker's. Under "all", axe sees all."""
    paths = {
        path.relative_to(html).with_suffix("").as_posix(): path
        for path in sorted(html.rglob("*.html"))
        if not {"_static", "_modules"} & {*path.parts}
    }
    del paths["index"]  # which only leads to the first page
    part = {"even": slice(0, None, 2), "odd": slice(1, None, 2), "all": slice(None)}
    axed = paths if request.param == "all" else AXED.split()
    context, faults = browser.new_context(), {}
    for k, name in enumerate([*paths][part[request.param]]):
        windows = WINDOWS[k % 2 :][:1] if name in axed else ()
        faults[name] = look(context, paths[name].as_uri(), windows)
    yield faults
    context.close()


QUESTIONS = {
    "tex": RAW_TEX,
    "stops": STOPS_IN_FORMULAS,
    "twice": TWICE,
    "icons": ICONS_WITHOUT_PICTURE,
}
FAULTS = ["errors", "outside", "too_wide", "loose", "formulas", "serious", "cut"]
FAULTS += ["shift", "screens", *QUESTIONS]


@pytest.mark.parametrize("fault", FAULTS)
def test_no_page_has_this_fault(pages, fault):
    assert {
        name: faults[fault] for name, faults in pages.items() if faults[fault]
    } == {}


BAD = r"""<!doctype html><html lang="en" data-theme="light"><head><title>Bad</title></head>
<body><main class="bd-article"><h1>Bad</h1><p style="color:#999;background:#fff">Hardly to be read.</p>
<p>\(x\) is raw</p><p id="a"></p><p id="a"></p>
<div style="width:2000px">wide</div><pre style="overflow:auto;width:100px">%s</pre><i class="fa-solid fa-none">.</i>
<mjx-container tabindex="0">x</mjx-container>
<p style="width:0"><span class="math"><mjx-container style="display:inline-block">x</mjx-container></span>, too</p>
<div class="math" style="width:100px;overflow:auto"><div style="width:200px">long</div></div>
<div style="height:14000px"></div>
<script>requestAnimationFrame(() => requestAnimationFrame(() =>  // after the first picture
  document.querySelector("h1").style.marginTop = "500px"));
console.error("said"); fetch("http://127.0.0.1:9/").catch(() => 0);</script></main></body></html>"""


def test_a_bad_page_is_seen_to_be_bad(browser, tmp_path):
    path = tmp_path / "notebooks" / "bad.html"
    path.parent.mkdir()
    path.write_text(BAD % ("long " * 60))
    faults = look(browser, path.as_uri())
    assert [name for name in FAULTS if not faults[name]] == []
    assert "said" in faults["errors"]
    assert faults["outside"] == ["http://127.0.0.1:9/"]
    assert faults["too_wide"] == [*LOOKS]
    contrast = {place[:2] for place in faults["serious"] if "color-con" in place[2]}
    assert contrast == {*WINDOWS}
    assert faults["formulas"] == ["long"]
    assert faults["twice"] == ["a"]
    assert faults["icons"] == ["fa-solid fa-none"]


# Search.


def results(page, html, query):
    """Return where the search page leads, best first."""
    page.goto(f"{(html / 'search.html').as_uri()}?q={query.replace(' ', '+')}")
    page.wait_for_function(FOUND)
    links = page.query_selector_all("ul.search li a")
    return [link.get_attribute("href") for link in links]


FOUND = """document.querySelector('.search-summary')?.innerText.match(/finished|did not match/)"""


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("renyi", "notebooks/02_privacy.html"),
        ("rényi", "notebooks/02_privacy.html"),
        ("epsilon", "notebooks/02_privacy.html#index-epsilon"),
        ("what does epsilon mean", "notebooks/02_privacy.html#index-epsilon"),
        ("waterfilling", "notebooks/04_problem.html"),
        ("water-filling", "notebooks/04_problem.html"),
        ("water filling", "notebooks/04_problem.html"),
        ("opacus", "notebooks/H1_accountant.html"),
    ],
)
def test_search_finds_the_right_page_first_in_every_spelling(page, html, query, target):
    assert results(page, html, query)[0].startswith(target)


def test_a_long_table_can_be_filtered(page, html):
    page.goto((html / "book" / "notation.html").as_uri())
    page.evaluate(WHEN_SET)
    rows = page.locator("article tbody tr").all()
    page.get_by_label("Filter").fill("Renyi order")
    shown = [row.inner_text() for row in rows if row.is_visible()]
    assert any("order of a Rényi divergence" in row for row in shown)
    assert 0 < len(shown) < 6
    page.get_by_label("Filter").fill("")
    assert all(row.is_visible() for row in rows)


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


# Links that one can keep.


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
    assert not any(formula.is_visible() for formula in folded)  # the control
    page.emulate_media(media="print")
    assert all(formula.is_visible() for formula in folded)
