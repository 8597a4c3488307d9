"""The explorer in a browser: each control gives the numbers of the package, by mouse and keyboard, wide and narrow,
in each of its four modes; every state has an address."""

import csv
import re
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest

from companion.tests.test_explorer import START, TOLERANCE, by_package, exact_epsilon

from .test_browser import AT_REST, AXE, SERIOUS, THEME, TOO_WIDE, watch

pytestmark = pytest.mark.book

TABLE = """() => Object.fromEntries([...document.querySelectorAll("#ex-rows tr:not([hidden])")].map((row) =>
  [row.dataset.method, Object.fromEntries([...row.querySelectorAll("td")].map((cell) =>
    [cell.dataset.column, [Number(cell.dataset.value), cell.textContent]]))]))"""
READ = """() => [...document.querySelectorAll("#ex-readout tr[data-of]")].map((row) =>
  [row.dataset.of, [...row.querySelectorAll("td[data-value]")].map((cell) => Number(cell.dataset.value))])"""
OUT_OF_SIGHT = """() => [...document.querySelectorAll("#ex-noise, .ex-modes label, .ex-controls :is(input, select)")]
  .filter((each) => each.getClientRects().length).filter((each) => {
    const {top, bottom, left, right} = each.getBoundingClientRect();
    return top < 48 || bottom > innerHeight || left < 0 || right > innerWidth;
  }).map((each) => each.id || each.textContent)"""
MARKS = "() => [...document.querySelectorAll('#ex-noise text')].map((each) => each.textContent)"
# every control as it is set on the page, and what that means to the package
CHOSEN = {"channel": "rician", "scenario": "cifar10"}
CONTROLS = CHOSEN | {
    "level": "4",
    "order": "8",
    "multiple": "1",
    "draw": "2",
    "plain": True,
    "cap": "3",
}
POSITION = CHOSEN | {"level": 4, "order": 8, "multiple": 10, "draw": 2, "cap": 1000}
RESTART = """() => {
  document.activeElement.blur();
  history.replaceState(null, "", location.pathname);
  dispatchEvent(new Event("hashchange"));
  scrollTo({ top: 0, behavior: "instant" });
}"""


MORE = "open => { document.querySelector('#ex-more').open = open; }"


@pytest.fixture(scope="module")
def loaded(browser, html):
    """The page of the explorer, which takes seconds to load, and what goes wrong on it."""
    size = {"width": 1366, "height": 768}
    context = browser.new_context(viewport=size, has_touch=True)
    page = context.new_page()
    wrong = watch(page)
    page.goto(f"file://{html}/book/explorer.html")
    return page, wrong


@pytest.fixture
def opened(loaded):
    """The page as it starts; afterwards, no error on its console and no request to anything but files."""
    page, wrong = loaded
    for faults in wrong:
        faults.clear()
    page.set_viewport_size({"width": 1366, "height": 768})
    page.mouse.move(5, 5)
    page.evaluate(THEME, "light")
    page.evaluate(RESTART)
    page.evaluate(MORE, True)
    page.evaluate(AT_REST)
    yield page
    assert wrong == ([], [])


def turn(page, controls):
    """Set controls as a hand would, and wait for the answer."""
    for name, value in controls.items():
        control = page.locator(f"#ex-{name}")
        if name == "mode":
            page.locator(f".ex-modes label:has([value={value}])").click()
        elif value is True:
            control.check()
        elif name in ("channel", "scenario"):
            control.select_option(value)
        else:
            control.fill(value)
    page.evaluate(AT_REST)


def go(page, html, state):
    """Open an address of the page, and wait for the answer."""
    page.goto(f"file://{html}/book/explorer.html#{state}")
    page.evaluate(AT_REST)


def test_the_table_has_the_numbers_of_the_package(opened):
    turn(opened, CONTROLS)
    problem, schedules = by_package(**START | POSITION)
    table = opened.evaluate(TABLE)
    assert set(table) == set(schedules)
    least = problem.rdp(schedules["optimal"])
    for name, w in schedules.items():
        rdp = problem.rdp(w)
        expected = {
            "cost": problem.cost(w) / problem.budget,
            "rdp": rdp,
            "ratio": rdp / least,
            "epsilon": exact_epsilon(problem, w),
        }
        for column, value in expected.items():
            all_digits, text = table[name][column]
            assert all_digits == pytest.approx(float(value), rel=1e-4), column
            shown = float(text.strip("▲▼\u2009"))
            assert shown == pytest.approx(all_digits, rel=6e-3), column


def said(page):
    return page.locator("#ex-say").inner_text()


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
@pytest.mark.parametrize("mode", ["explore", "guess", "replay", "game"])
def test_controls_and_picture_are_on_one_screen(opened, width, height, mode):
    opened.set_viewport_size({"width": width, "height": height})
    opened.evaluate(MORE, False)
    opened.evaluate(
        "name => document.querySelector(`.ex-modes [value=${name}]`).click()", mode
    )  # a mouse may scroll
    opened.evaluate(AT_REST)
    assert opened.evaluate("() => scrollY") == 0
    assert opened.evaluate(OUT_OF_SIGHT) == []


def test_a_round_is_read_by_keyboard(opened):
    plot = opened.locator("#ex-noise")
    plot.focus()
    for key in ("Home", "PageUp", "ArrowRight"):
        opened.keyboard.press(key)
    problem, schedules = by_package(**START)
    t = np.argsort(problem.min_noise_energy, kind="stable")[21]
    assert plot.get_attribute("aria-valuetext").startswith(f"Round {t + 1}: floor ")
    for name, (energy, sigma, _) in opened.evaluate(READ):
        w = schedules[name]
        assert energy == pytest.approx(w[t], rel=1e-7)
        expected = problem.noise_multiplier(w)[0, t]
        assert sigma == pytest.approx(expected, rel=1e-7)


def test_a_touch_reads_a_round(opened):
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.evaluate(AT_REST)
    picture = opened.locator("#ex-noise")
    # a tap at a place would meet a link where the page has not come to rest
    picture.tap(position={"x": picture.bounding_box()["width"] / 2, "y": 50})
    assert len(opened.evaluate(READ)) == 5
    assert opened.evaluate(TOO_WIDE) <= 0


TOP = "() => document.querySelector('#ex-noise').getBoundingClientRect().top"


@pytest.mark.parametrize(("width", "height"), [(320, 568), (844, 390), (1440, 900)])
def test_every_experiment_brings_its_answer_and_the_picture_into_sight(
    opened, width, height
):
    opened.set_viewport_size({"width": width, "height": height})
    table = opened.evaluate(TABLE)
    for link in opened.locator(".ex-try a").all():
        link.focus()
        link.press("Enter")
        opened.wait_for_function("() => document.activeElement.id === 'ex-say'")
        assert opened.evaluate(TOP) > 48
        assert opened.evaluate(TABLE) != table
    opened.locator("#ex-reset").click()
    assert opened.evaluate(TABLE) == table


# The reader's own decisions.


STOPPED = "() => document.querySelector('#ex-play').textContent === 'Play'"


def test_replay_plays_to_its_end(opened):
    turn(opened, {"mode": "replay"})
    opened.locator("#ex-round").fill("495")
    opened.evaluate(AT_REST)
    opened.locator("#ex-play").click()
    opened.wait_for_function(STOPPED)
    problem, schedules = by_package(**START)
    assert f"{exact_epsilon(problem, schedules['adascale']):.2f}" in said(opened)
    for chart in ("#ex-queue", "#ex-leaked"):
        line = opened.locator(f"{chart} path[stroke='var(--ex-adascale)']")
        assert line.get_attribute("d").count("L") == 499


def test_the_game_is_played_by_keyboard_and_judged_by_the_package(opened):
    turn(opened, {"mode": "game"})
    problem, schedules = by_package(**START | {"rounds": 20})
    for _ in range(20):
        assert opened.evaluate(TABLE) == {}
        opened.locator("#ex-pour").fill("30")  # 20 is an even share
        opened.locator("#ex-send").focus()
        opened.keyboard.press("Enter")
    spent = np.diff(np.minimum(1.5 * np.arange(21), 20))
    w = problem.min_noise_energy + spent * problem.budget
    table = opened.evaluate(TABLE)
    for name, energy in (schedules | {"you": w}).items():
        rdp = float(problem.rdp(energy))
        assert table[name]["rdp"][0] == pytest.approx(rdp, rel=TOLERANCE)
    assert table["you"]["cost"][0] == pytest.approx(1)  # what is left, and no more
    is_better = table["you"]["rdp"][0] < table["learn"]["rdp"][0]
    assert ("You beat Learn" in said(opened)) == is_better


# Every state is an address, and can be taken away.

STATES = [
    "level=8&channel=rician&answer=rician&multiple=2&linear=0&see-equal=0",
    "plain=1&cap=3&scenario=cifar10&order=8&draw=2&beyond=0&pours=equal",
    "mode=guess&guess=-1.2&shown=1",
    "mode=replay&round=137",
    "mode=game&moves=" + ".".join(["20"] * 20),
]
STATE = f"() => [({TABLE})(), document.querySelector('#ex-say').innerText, ({MARKS})(), location.hash]"


def test_every_state_comes_back_by_its_link(opened, html):
    shown = []
    for state in STATES:
        go(opened, html, state)
        opened.locator("#ex-link").click()  # which may write the same in another order
        shown.append(opened.evaluate(STATE))
    assert len({str(parts[:2]) for parts in shown}) == len(STATES)
    fresh = opened.context.new_page()
    for parts in shown:
        fresh.goto("about:blank")
        go(fresh, html, parts[-1][1:])
        assert fresh.evaluate(STATE) == parts
    fresh.close()


LINKED = [
    state
    for chapter in sorted((Path(__file__).parents[2] / "notebooks").glob("*.md"))
    for state in re.findall(r'explorer\.html#([^"]*)', chapter.read_text())
]


NONSENSE = [
    "level=99",
    "answer=none",
    "mode=fly&channel=fog&level=x&moves=a&elements=1",
]


def accepts(page, html, state):
    """Check that a page takes a state from its address: it writes the same again, and answers where it should."""
    go(page, html, state)
    is_answered = "answer=" not in state or page.locator("#ex-say strong").count() == 1
    page.locator("#ex-link").click()
    written = page.evaluate("() => location.hash.slice(1)")
    return is_answered and parse_qs(written) == parse_qs(state)


@pytest.mark.parametrize("state", LINKED)
def test_chapters_link_to_states_that_there_are(opened, html, state):
    assert accepts(opened, html, state)


@pytest.mark.parametrize("state", NONSENSE)
def test_nonsense_is_not_taken_from_an_address(opened, html, state):
    assert not accepts(opened, html, state)


def download(page, name, path):
    with page.expect_download() as waiting:
        page.locator(name).click()
    waiting.value.save_as(path)
    return path


def test_rounds_can_be_saved(opened, tmp_path):
    with download(opened, "#ex-csv", tmp_path / "explorer.csv").open() as file:
        rows = list(csv.DictReader(file))
    problem, schedules = by_package(**START)
    assert len(rows) == problem.min_gain.size
    for name, w in schedules.items():
        noise = [float(row[f"{name}_noise"]) for row in rows]
        leakage = sum(float(row[f"{name}_leakage"]) for row in rows)
        assert noise == pytest.approx(w, rel=TOLERANCE)
        assert leakage == pytest.approx(float(problem.rdp(w)), rel=1e-8)


def test_no_mode_has_a_serious_fault_in_either_theme(opened):
    opened.evaluate(AXE.read_text())
    for theme, state in (("dark", 0), ("light", 2), ("dark", 3), ("light", 4)):
        opened.evaluate("(state) => { location.hash = state }", STATES[state])
        opened.evaluate(THEME, theme)
        opened.evaluate(AT_REST)
        assert opened.evaluate(SERIOUS.replace("document,", "'#explorer',")) == [], (
            theme,
            STATES[state],
        )
