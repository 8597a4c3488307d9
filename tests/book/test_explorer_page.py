"""The explorer in a browser: each control gives the numbers of the package, by mouse and keyboard, wide and narrow."""

import numpy as np
import pytest

from companion import explorer
from companion.tests.test_explorer import START, TOLERANCE, by_package

pytestmark = [
    pytest.mark.book,
    # the page takes the end of the list of orders without a word, too
    pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew"),
]

TABLE = """() => Object.fromEntries([...document.querySelectorAll("#ex-rows tr:not([hidden])")].map((row) =>
  [row.dataset.method, Object.fromEntries([...row.querySelectorAll("td")].map((cell) =>
    [cell.dataset.column, [Number(cell.dataset.value), cell.textContent]]))]))"""
PICTURES = '() => [...document.querySelectorAll("#explorer canvas")].map((canvas) => canvas.toDataURL())'
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"
PLACES = """() => [...document.querySelectorAll("#explorer input, #explorer th")].map((each) => {
  const {x, y, width} = each.getBoundingClientRect();
  return [x, y + scrollY, width].map(Math.round);
})"""
CHART_IN_SIGHT = """() => {
  const {top, bottom} = document.querySelector("#ex-noise").getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight + 1;
}"""
SCROLLED = """async () => {
  for (let before = NaN; scrollY !== before; await new Promise((done) => setTimeout(done, 100))) before = scrollY;
  return scrollY;
}"""
TABLE_END = "() => document.querySelector('#ex-rows').getBoundingClientRect().bottom"
ANSWERS = ["ex-share", "ex-hundred", "ex-collapse", "ex-rician"]
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

# what is done to the page, and what that means to the package
MOVES = [
    ({}, {}),
    ({"level": "4"}, {"level": 4}),
    ({"order": "8"}, {"order": 8}),
    ({"multiple": "1"}, {"multiple": 10}),
    ({"draw": "2"}, {"draw": 2}),
    ({"channel": "rician"}, {"channel": "rician"}),
    ({"scenario": "cifar10"}, {"scenario": "cifar10"}),
    ({"plain": True}, {"cap": 10}),
    ({"plain": True, "cap": "3"}, {"cap": 1000}),
]


@pytest.fixture
def opened(page, html):
    """The page of the explorer; afterwards, no error on its console and no request to anything but files."""
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
    page.goto(f"file://{html}/book/explorer.html")
    yield page
    assert not wrong


def turn(page, controls):
    """Set controls as a hand would; the page has answered when this returns."""
    for name, value in controls.items():
        control = page.locator(f"#ex-{name}")
        if value is True:
            control.check()
        elif name in ("channel", "scenario"):
            control.select_option(value)
        else:
            control.fill(value)
    page.evaluate(FRAME)


def test_the_table_has_the_numbers_of_the_package(opened):
    for controls, position in MOVES:
        opened.locator(".ex-reset").click()
        turn(opened, controls)
        problem, schedules = by_package(**START | position)
        table = opened.evaluate(TABLE)
        assert set(table) == set(schedules)
        best = problem.rdp(schedules["optimal"])
        for name, eta in schedules.items():
            expected = {
                "cost": problem.cost(eta) / problem.budget,
                "rdp": problem.rdp(eta),
                "ratio": problem.rdp(eta) / best,
                "epsilon": problem.dp_epsilon(eta, explorer.DELTA),
            }
            for column, value in expected.items():
                all_digits, shown = table[name][column]
                assert abs(all_digits / value - 1) < TOLERANCE, (controls, name, column)
                assert float(shown.strip("▲▼\u2009")) == pytest.approx(float(value), rel=6e-3), (controls, name, shown)


def test_every_experiment_shows_its_answer_and_the_start_comes_back(opened):
    before = opened.evaluate(TABLE)
    for number, button in enumerate(opened.locator(".ex-try button").all()):
        button.click()
        opened.evaluate(FRAME)
        shown = [answer.get_attribute("id") for answer in opened.locator(".ex-answer").all() if answer.is_visible()]
        assert shown == [ANSWERS[number]]
        assert opened.evaluate(TABLE) != before
    assert opened.locator("#ex-cap").is_visible()
    assert opened.locator("[data-method=plain] th").inner_text() == "plain Lyapunov"
    opened.locator(".ex-reset").click()
    opened.evaluate(FRAME)
    assert opened.evaluate(TABLE) == before
    assert not opened.locator("#ex-cap").is_visible()
    assert not any(answer.is_visible() for answer in opened.locator(".ex-answer").all())


@pytest.mark.parametrize(
    ("width", "height", "motion"),
    [(390, 844, "no-preference"), *((*each, "reduce") for each in ((390, 844), (320, 568), (844, 390), (1440, 900)))],
)
def test_a_tap_on_an_experiment_brings_answer_and_chart_into_sight(browser, html, width, height, motion):
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion=motion)
    page = context.new_page()
    page.goto(f"file://{html}/book/explorer.html")
    for button in page.locator(".ex-try button").all():
        page.evaluate("() => scrollTo({top: 0, behavior: 'instant'})")
        button.evaluate("(button) => button.scrollIntoView({block: 'nearest', behavior: 'instant'})")
        before, at_once = button.evaluate("(button) => [scrollY, (button.click(), scrollY)]")
        page.wait_for_function(CHART_IN_SIGHT)
        after = page.evaluate(SCROLLED)
        if width == 1440:  # all of it was in sight
            assert before == at_once == after == 0
        else:
            assert after > before
            assert at_once == pytest.approx(after if motion == "reduce" else before, abs=2)
        assert page.evaluate("() => document.activeElement.getBoundingClientRect().bottom") > 48  # below the header
        if width == 390:
            assert page.evaluate(TABLE_END) < height
    context.close()


def test_keyboard_goes_on_from_the_answer(opened):
    for number, leads in enumerate(["Now with Rician fading", "ex-scenario", "ex-scenario"]):
        opened.locator(".ex-try button").nth(number).focus()
        opened.keyboard.press("Enter")
        assert opened.evaluate("() => document.activeElement.id") == ANSWERS[number]
        opened.keyboard.press("Tab")
        assert opened.evaluate("() => document.activeElement.id || document.activeElement.innerText") == leads
    opened.locator(".ex-try button").first.press("Enter")
    opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    assert opened.evaluate("() => document.activeElement.id") == ANSWERS[3]
    problem, schedules = by_package(**START | {"level": 4, "channel": "rician"})
    ratio = problem.rdp(schedules["equal"]) / problem.rdp(schedules["optimal"])
    assert opened.evaluate(TABLE)["equal"]["ratio"][0] == pytest.approx(float(ratio), rel=TOLERANCE)


def at_rest(page):
    """Where everything is once a new width moves nothing any more."""
    before = None
    while (places := page.evaluate(PLACES)) != before:
        before = places
        page.wait_for_timeout(200)
    return places


def test_nothing_moves_while_a_slider_does_or_is_wider_than_the_screen(opened):
    turn(opened, {"plain": True})
    brief = opened.locator("#ex-brief")
    for width in (320, 390, 700, 1024, 1200, 1440):
        opened.set_viewport_size({"width": width, "height": 844})
        places = at_rest(opened)
        for slider in opened.locator("#explorer input[type=range]").all():
            middle = slider.input_value()
            for end in ("min", "max"):
                slider.fill(slider.get_attribute(end))
                opened.evaluate(FRAME)
                assert opened.evaluate(PLACES) == places, (width, slider.get_attribute("id"), end)
                assert opened.evaluate(TOO_WIDE) <= 0
            slider.fill(middle)
        box = opened.locator("#ex-noise canvas").bounding_box()
        assert np.isclose(box["width"], opened.locator("#ex-noise").bounding_box()["width"], atol=2)
        assert brief.is_visible() or width > 390
    assert not brief.is_visible()  # on a wide screen the table is beside the chart
    shown = [opened.evaluate(TABLE)[name]["epsilon"][1] for name in ("optimal", "adascale")]
    opened.set_viewport_size({"width": 390, "height": 844})
    assert brief.inner_text() == "ε: optimum {}, AdaScale {}".format(*shown)


def test_sliders_obey_the_keyboard_and_say_what_they_stand_for(opened):
    slider = opened.locator("#ex-level")
    slider.focus()
    opened.keyboard.press("ArrowRight")
    opened.evaluate(FRAME)
    assert (
        opened.locator("output[for=ex-level]").inner_text() == f"{explorer.LEVELS[START['level'] + 1]:.3f}" == "0.048"
    )
    assert slider.get_attribute("aria-valuetext") == "0.048"
    opened.wait_for_function(
        'document.querySelector("#ex-status").textContent.includes("At nu 0.048 the optimum leaks")'
    )
    for control in opened.locator("#explorer form :is(input, select)").all():
        name = control.get_attribute("id")
        assert opened.locator(f"label[for={name}], label:has(#{name})").count() == 1
        assert opened.locator(f"#{control.get_attribute('aria-describedby')}").inner_text()


def test_a_method_can_be_hidden_and_the_theme_repaints_both_charts(opened):
    repainted = f"(before) => ({PICTURES})().every((picture, i) => picture !== before[i])"
    before = opened.evaluate(PICTURES)
    opened.locator("[data-method=equal] input").uncheck()
    opened.wait_for_function(repainted, arg=before)
    before = opened.evaluate(PICTURES)
    opened.evaluate("() => { document.documentElement.dataset.theme = 'dark' }")
    opened.wait_for_function(repainted, arg=before)


def test_without_javascript_the_reader_is_sent_to_the_chapters(browser, html):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{html}/book/explorer.html")
    assert not page.locator("#explorer").is_visible()
    notice = page.locator("article noscript")
    assert "switched off" in notice.inner_text()
    context.close()
