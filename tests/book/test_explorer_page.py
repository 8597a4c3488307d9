"""The explorer in a browser: each control gives the numbers of the package, by mouse and keyboard, wide and narrow,
in each of its four modes; every state has an address."""

import csv
import re
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest

from adascale import ReceiveScalingProblem
from companion import explorer
from companion.tests.test_explorer import START, TOLERANCE, by_package

from .test_browser import AT_REST, AXE, SERIOUS, THEME, TOO_WIDE

pytestmark = [
    pytest.mark.book,
    # the page takes the end of the list of orders without a word, too
    pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew"),
]

TABLE = """() => Object.fromEntries([...document.querySelectorAll("#ex-rows tr:not([hidden])")].map((row) =>
  [row.dataset.method, Object.fromEntries([...row.querySelectorAll("td")].map((cell) =>
    [cell.dataset.column, [Number(cell.dataset.value), cell.textContent]]))]))"""
READ = """() => [...document.querySelectorAll("#ex-readout tr[data-of]")].map((row) =>
  [row.dataset.of, [...row.querySelectorAll("td[data-value]")].map((cell) => Number(cell.dataset.value))])"""
PLACES = """() => [...document.querySelectorAll("#explorer input, #explorer th")]
  .filter((each) => each.getClientRects().length).map((each) => {
  const {x, y, width} = each.getBoundingClientRect();
  return [x, y + scrollY, width].map(Math.round);
})"""
OUT_OF_SIGHT = """() => [...document.querySelectorAll("#ex-noise, .ex-modes label, .ex-controls :is(input, select)")]
  .filter((each) => {
    const {top, bottom, left, right} = each.getBoundingClientRect();
    return top < 48 || bottom > innerHeight || left < 0 || right > innerWidth;
  }).map((each) => each.id || each.textContent)"""
MARKS = "() => [...document.querySelectorAll('#ex-noise text')].map((each) => each.textContent)"
WATER = """() => Number(document.querySelector("#ex-noise path[stroke='var(--ex-optimal)']")
  .getAttribute("d").match(/M\\S+ ([\\d.]+)/)[1])"""
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


@pytest.fixture(scope="module")
def loaded(browser, html):
    """The page of the explorer, which takes seconds to load, and what goes wrong on it."""
    context = browser.new_context(
        viewport={"width": 1366, "height": 768}, has_touch=True
    )
    page, wrong = context.new_page(), []
    page.on(
        "console",
        lambda message: wrong.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(("file:", "data:"))
            else wrong.append(asked.url)
        ),
    )
    page.goto(f"file://{html}/book/explorer.html")
    return page, wrong


@pytest.fixture
def opened(loaded):
    """The page as it starts; afterwards, no error on its console and no request to anything but files."""
    page, wrong = loaded
    wrong.clear()
    page.set_viewport_size({"width": 1366, "height": 768})
    page.mouse.move(5, 5)
    page.evaluate(THEME, "light")
    page.evaluate(RESTART)
    page.evaluate(AT_REST)
    yield page
    assert not wrong


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
    best = problem.rdp(schedules["optimal"])
    for name, schedule in schedules.items():
        rdp, epsilon = (
            problem.rdp(schedule),
            problem.epsilon(schedule, delta=explorer.DELTA),
        )
        expected = {
            "cost": problem.cost(schedule) / problem.budget,
            "rdp": rdp,
            "ratio": rdp / best,
            "epsilon": epsilon,
        }
        for column, value in expected.items():
            all_digits, shown = table[name][column]
            assert abs(all_digits / value - 1) < TOLERANCE, (name, column)
            assert float(shown.strip("▲▼\u2009")) == pytest.approx(
                float(value), rel=6e-3
            ), (name, column, shown)


def said(page):
    return page.locator("#ex-say").inner_text()


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
@pytest.mark.parametrize("mode", ["explore", "guess", "replay", "game"])
def test_controls_and_picture_are_on_one_screen(opened, width, height, mode):
    opened.set_viewport_size({"width": width, "height": height})
    opened.evaluate(
        "name => document.querySelector(`.ex-modes [value=${name}]`).click()", mode
    )  # a mouse may scroll
    opened.evaluate(AT_REST)
    assert opened.evaluate("() => scrollY") == 0
    assert opened.evaluate(OUT_OF_SIGHT) == []


@pytest.mark.parametrize("linear", [False, True])
def test_water_rises_on_an_axis_that_stays(opened, linear):
    opened.locator("#ex-linear").set_checked(linear)
    opened.evaluate(AT_REST)
    marks, heights = opened.evaluate(MARKS), []
    for level in range(0, 25, 6):
        turn(opened, {"level": str(level)})
        assert opened.evaluate(MARKS) == marks
        heights.append(opened.evaluate(WATER))
    assert heights == sorted(heights, reverse=True)  # downwards is positive
    assert heights[0] - heights[-1] > 30
    turn(opened, {"channel": "rician", "scenario": "cifar10"})
    assert (
        opened.evaluate(MARKS) != marks
    )  # the control: another channel has another axis


@pytest.mark.parametrize("width", [320, 700, 1200])
def test_nothing_moves_while_a_slider_does_or_is_wider_than_the_screen(opened, width):
    opened.set_viewport_size({"width": width, "height": 844})
    turn(opened, {"plain": True})
    places = opened.evaluate(PLACES)
    for slider in opened.locator(".ex-controls input[type=range]").all():
        middle = slider.input_value()
        for end in ("min", "max"):
            slider.fill(slider.get_attribute(end))
            opened.evaluate(AT_REST)
            assert opened.evaluate(PLACES) == places, (slider.get_attribute("id"), end)
            assert opened.evaluate(TOO_WIDE) <= 0
        slider.fill(middle)


def test_a_round_is_read_by_mouse_and_by_keyboard(opened):
    plot = opened.locator("#ex-noise")
    box = plot.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 3, box["y"] + 60)
    by_mouse = opened.evaluate(READ)
    assert len(by_mouse) == 5
    opened.mouse.move(5, 5)
    assert not opened.locator("#ex-readout").is_visible()
    plot.focus()
    opened.keyboard.press("Home")
    opened.keyboard.press("PageUp")
    opened.keyboard.press("ArrowRight")
    problem, schedules = by_package(**START)
    t = np.argsort(problem.min_noise_energy, kind="stable")[21]
    assert plot.get_attribute("aria-valuenow") == "22"
    assert plot.get_attribute("aria-valuetext").startswith(f"Round {t + 1}: floor ")
    for name, values in opened.evaluate(READ):
        schedule = schedules[name]
        alone = ReceiveScalingProblem(
            problem.scenario, problem.min_gain[[t]], problem.budget
        )
        wanted = [
            schedule[t],
            float(np.ravel(problem.noise_multiplier(schedule)[..., t])[0]),
        ]
        assert values == pytest.approx(
            [*wanted, float(alone.rdp(schedule[[t]]))], rel=1e-7
        )
    opened.keyboard.press("Escape")
    assert not opened.locator("#ex-readout").is_visible()


def test_a_touch_reads_a_round(opened):
    opened.set_viewport_size({"width": 390, "height": 844})
    box = opened.locator("#ex-noise").bounding_box()
    opened.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 50)
    assert len(opened.evaluate(READ)) == 5
    assert opened.evaluate(TOO_WIDE) <= 0


def test_a_method_that_beats_the_optimum_is_said_to_overspend(opened):
    note = opened.locator("#ex-over")
    assert opened.evaluate(TABLE)["constant"]["ratio"][0] < 1
    assert note.inner_text().startswith("▲ constant level: ")
    turn(opened, {"channel": "rician"})
    assert opened.evaluate(TABLE)["constant"]["ratio"][0] > 1
    assert note.inner_text() == ""


EXPERIMENTS = ["An even share.", "A hundred times V.", "The collapse."]


@pytest.mark.parametrize(("width", "height"), [(320, 568), (844, 390), (1440, 900)])
def test_every_experiment_brings_its_answer_and_the_picture_into_sight(
    opened, width, height
):
    opened.set_viewport_size({"width": width, "height": height})
    before = opened.evaluate(TABLE)
    for title, link in zip(EXPERIMENTS, opened.locator(".ex-try a").all(), strict=True):
        link.focus()
        link.press("Enter")
        opened.wait_for_function(
            "(title) => document.querySelector('#ex-say').innerText.startsWith(title)",
            arg=title,
        )
        assert opened.evaluate("() => document.activeElement.id") == "ex-say"
        assert (
            opened.evaluate(
                "() => document.querySelector('#ex-noise').getBoundingClientRect().top"
            )
            > 48
        )
        assert opened.evaluate(TABLE) != before
    assert opened.locator("#ex-cap").is_enabled()
    opened.locator("#ex-reset").click()
    assert opened.evaluate(TABLE) == before
    assert opened.locator("#ex-cap").is_disabled()


def test_sliders_obey_the_keyboard_and_say_what_they_stand_for(opened):
    slider = opened.locator("#ex-level")
    slider.focus()
    opened.keyboard.press("ArrowRight")
    opened.evaluate(AT_REST)
    shown = opened.locator("output[for=ex-level]").inner_text()
    assert shown == f"{explorer.LEVELS[START['level'] + 1]:.3f}" == "0.048"
    assert slider.get_attribute("aria-valuetext") == "0.048"
    opened.wait_for_function(
        'document.querySelector("#ex-status").textContent.includes("At nu 0.048 the optimum leaks")'
    )
    for control in opened.locator(".ex-controls :is(input, select)").all():
        name = control.get_attribute("id")
        assert opened.locator(f"label[for={name}], label:has(#{name})").count() == 1
        assert opened.locator(
            f"#{control.get_attribute('aria-describedby')}"
        ).text_content()


def test_a_method_can_be_hidden_and_the_theme_recolours_the_picture(opened):
    line = opened.locator("#ex-noise path[stroke='var(--ex-equal)']")
    light = line.evaluate("(path) => getComputedStyle(path).stroke")
    opened.evaluate(THEME, "dark")
    assert line.evaluate("(path) => getComputedStyle(path).stroke") != light
    opened.locator("[data-method=equal] input").uncheck()
    assert line.count() == 0
    assert opened.url.endswith("#see-equal=0")


# The reader's own decisions.


def test_a_guess_is_dragged_and_then_compared_with_the_optimum(opened):
    turn(opened, {"mode": "guess"})
    assert opened.evaluate(TABLE) == {}
    assert opened.locator("#ex-noise path[stroke='var(--ex-optimal)']").count() == 0
    box, guess = opened.locator("#ex-noise").bounding_box(), opened.locator("#ex-guess")
    opened.mouse.move(box["x"] + 200, box["y"] + 150)
    opened.mouse.down()
    opened.mouse.move(box["x"] + 200, box["y"] + 80, steps=3)
    opened.mouse.up()
    higher = float(guess.input_value())
    assert higher > -1.7
    guess.focus()
    opened.keyboard.press("ArrowRight")
    opened.locator("#ex-reveal").click()
    problem, schedules = by_package(**START)
    level = 10 ** (higher + 0.01)
    cost = np.maximum(level - problem.min_noise_energy, 0).mean() / problem.budget
    schedule = np.maximum(level, problem.min_noise_energy)
    ratio = problem.rdp(schedule) / problem.rdp(schedules["optimal"])
    table = opened.evaluate(TABLE)
    assert set(table) == {"optimal", "you"}
    assert table["you"]["cost"][0] == pytest.approx(float(cost), rel=TOLERANCE)
    assert table["you"]["ratio"][0] == pytest.approx(float(ratio), rel=TOLERANCE)
    assert f"{cost:.2f} times ν" in said(opened)
    turn(opened, {"level": "8"})
    assert opened.evaluate(TABLE) == {}  # another question


def test_replay_plays_to_its_end_and_stops_where_it_is_stopped(opened):
    turn(opened, {"mode": "replay"})
    slider, play = opened.locator("#ex-round"), opened.locator("#ex-play")
    play.click()
    opened.wait_for_function(
        "() => Number(document.querySelector('#ex-round').value) > 3"
    )
    play.click()
    stopped = slider.input_value()
    assert opened.url.endswith(f"#mode=replay&round={stopped}")
    assert play.inner_text() == "Play"
    slider.fill("495")
    opened.evaluate(AT_REST)
    play.click()
    opened.wait_for_function(
        "() => document.querySelector('#ex-play').textContent === 'Play'"
    )
    problem, schedules = by_package(**START)
    epsilon = problem.epsilon(schedules["adascale"], delta=explorer.DELTA)
    assert f"ε so far {epsilon:.2f}." in said(opened)
    for chart in ("#ex-queue", "#ex-epsilon"):
        assert (
            opened.locator(f"{chart} path[stroke='var(--ex-adascale)']")
            .get_attribute("d")
            .count("L")
            == 499
        )


def test_the_game_is_played_by_keyboard_and_judged_by_the_package(opened):
    turn(opened, {"mode": "game"})
    problem, schedules = by_package(**START | {"rounds": 20})
    floor, nu, left, w = (
        problem.min_noise_energy,
        problem.budget,
        20 * problem.budget,
        [],
    )
    send = opened.locator("#ex-send")
    for t in range(20):
        assert opened.evaluate(TABLE) == {}
        moves = int(np.clip(round((0.1 - floor[t]) / nu / 0.05), 0, 120))
        opened.locator("#ex-pour").fill(str(moves))
        send.focus()
        opened.keyboard.press("Enter")
        added = min(moves * 0.05 * nu, left)
        left -= added
        w.append(floor[t] + added)
    table, own = opened.evaluate(TABLE), np.array(w)
    assert table["you"]["cost"][0] == pytest.approx(
        float(problem.cost(own) / nu), rel=TOLERANCE
    )
    for name, schedule in (schedules | {"you": own}).items():
        assert table[name]["rdp"][0] == pytest.approx(
            float(problem.rdp(schedule)), rel=TOLERANCE
        )
    won = problem.rdp(own) < problem.rdp(schedules["adascale"])
    assert said(opened).startswith(
        "You beat AdaScale" if won else "AdaScale leaks less than you"
    )
    assert send.inner_text() == "Play again"


def test_nobody_plays_with_more_than_the_budget(opened, html):
    go(opened, html, "mode=game&moves=" + ".".join(["120"] * 20))
    assert opened.evaluate(TABLE)["you"]["cost"][0] == pytest.approx(1)


# Every state is an address, and can be taken away.

STATES = [
    "level=4&channel=rician&answer=rician&multiple=2&linear=1&see-equal=0",
    "plain=1&cap=3&scenario=cifar10&order=8&draw=2&beyond=1",
    "mode=guess&guess=-1.2&shown=1",
    "mode=replay&round=137",
    "mode=game&moves=" + ".".join(["20"] * 20),
]
STATE = f"() => [({TABLE})(), document.querySelector('#ex-say').innerText, ({MARKS})(), location.hash]"


def test_every_state_comes_back_by_its_link_and_by_the_back_button(opened, html):
    seen = []
    for state in STATES:
        go(opened, html, state)
        opened.locator("#ex-link").click()  # which may write the same in another order
        seen.append(opened.evaluate(STATE))
    assert len({str(each[:2]) for each in seen}) == len(STATES)
    fresh = opened.context.new_page()
    for state in seen:
        fresh.goto("about:blank")
        go(fresh, html, state[-1][1:])
        assert fresh.evaluate(STATE) == state
    fresh.close()
    turn(opened, {"mode": "explore"})
    turn(opened, {"level": "20"})
    turn(opened, {"level": "2"})
    assert "level=2" in opened.url
    opened.go_back()
    opened.wait_for_function("() => document.querySelector('#ex-level').value === '20'")


LINKED = [
    state
    for chapter in sorted((Path(__file__).parents[2] / "notebooks").glob("*.md"))
    for state in re.findall(r'explorer\.html#([^"]*)', chapter.read_text())
]


NONSENSE = [
    "level=99",
    "answer=none",
    "mode=fly&channel=fog&level=x&moves=a&answer=%22%5D&elements=1",
]


@pytest.mark.parametrize("state", [*LINKED, *NONSENSE])
def test_chapters_link_to_states_that_there_are_and_nonsense_does_no_harm(
    opened, html, state
):
    assert len(LINKED) > 2
    before = opened.evaluate(TABLE)
    go(opened, html, state)
    answered = "answer=" not in state or opened.locator("#ex-say strong").count() == 1
    assert opened.evaluate(TABLE) == before or state != NONSENSE[-1]
    opened.locator(
        "#ex-link"
    ).click()  # writes the state that the page took from the address
    accepted = parse_qs(opened.evaluate("() => location.hash.slice(1)")) == parse_qs(
        state
    )
    assert (accepted and answered) == (state in LINKED)  # the others are the control


def test_rounds_and_picture_can_be_saved(opened, tmp_path):
    with opened.expect_download() as waiting:
        opened.locator("#ex-csv").click()
    waiting.value.save_as(tmp_path / "explorer.csv")
    with (tmp_path / "explorer.csv").open() as file:
        rows = list(csv.DictReader(file))
    problem, schedules = by_package(**START)
    assert len(rows) == problem.min_gain.size
    for name, schedule in schedules.items():
        noise = np.array([float(row[f"{name}_noise"]) for row in rows])
        assert noise == pytest.approx(schedule, rel=TOLERANCE)
        assert sum(float(row[f"{name}_leakage"]) for row in rows) == pytest.approx(
            float(problem.rdp(schedule)), rel=1e-8
        )
    with opened.expect_download() as waiting:
        opened.locator("#ex-png").click()
    waiting.value.save_as(tmp_path / "explorer.png")
    picture = (tmp_path / "explorer.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


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


def test_without_javascript_the_reader_is_sent_to_the_chapters(browser, html):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"file://{html}/book/explorer.html")
    assert not page.locator("#explorer").is_visible()
    assert "switched off" in page.locator("article noscript").inner_text()
    page.close()
