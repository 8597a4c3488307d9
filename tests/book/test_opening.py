"""The first page, the calculator and the bet in a browser: their numbers are the package's, by mouse and keyboard."""

import json
import shlex
from ast import literal_eval

import numpy as np
import pytest
from playwright.sync_api import expect

from adascale.accounting import beta, calibrate, epsilon, largest_count
from adascale.cli import main
from adascale.problem import RoundLeakage
from companion import explorer
from companion.figures.opening import START, pours

from .test_browser import AT_REST, SHIFT, watch

pytestmark = pytest.mark.book

MNIST = explorer.SCENARIOS["mnist"]
UNIT, RATE = float(RoundLeakage(MNIST).unit_energy[0]), float(MNIST.sampling_rate)
DATA = "name => ({...document.querySelector(name).dataset})"
INPUT = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})); }"


def events(energy):
    count = MNIST.num_rounds // energy.size
    return [(RATE, float(np.sqrt(w / UNIT)), count) for w in energy]


def data(page, name):
    page.evaluate(AT_REST)
    values = page.evaluate(DATA, name)
    return {key: float(value) for key, value in values.items() if value[:1].isdigit()}


@pytest.fixture
def first(page, html):
    """The first page; afterwards, nothing went wrong and nothing came from elsewhere."""
    wrong = watch(page)
    page.goto(f"file://{html}/book/introduction.html")
    yield page
    assert wrong == ([], [])


@pytest.mark.parametrize("step", [4, 6, 24])
def test_title_has_the_epsilons_of_the_package(first, step):
    first.locator("#pour-nu").evaluate(INPUT, step)
    shown = data(first, "#pour-root")
    energies = pours(explorer.typical_floors(), explorer.LEVELS[step])
    for name, energy in zip(("even", "level"), energies.values(), strict=True):
        expected = epsilon(events(energy), explorer.DELTA).estimate
        assert shown[name] == pytest.approx(expected, rel=1e-4)
        assert f"{expected}"[:3] in first.locator(".bd-article h1").inner_text()
    found = 1 - beta(events(energies["even split"]), 0.01).estimate
    assert shown["hits"] == pytest.approx(found, rel=3e-3)


@pytest.mark.parametrize("budget", [START, 0.04, 0.16])
def test_twenty_rounds_stand_for_all_within_two_per_cent(budget):
    codes = explorer.loss_codes("rayleigh", 0)[: MNIST.num_rounds]
    floor = MNIST.noise_scale / MNIST.x_max * MNIST.batch_second_moment
    floor = float(floor) * 10 ** (codes / explorer.GAIN_STEPS)
    few = pours(explorer.typical_floors(), budget).values()
    for energy, other in zip(pours(floor, budget).values(), few, strict=True):
        expected = epsilon(events(energy), explorer.DELTA).estimate
        found = epsilon(events(other), explorer.DELTA).estimate
        assert found == pytest.approx(expected, rel=0.02)


def test_dragged_bar_never_beats_the_level(first):
    plot = first.locator("#pour")
    box = plot.bounding_box()
    first.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.6 * box["height"])
    first.mouse.down()
    first.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    first.mouse.up()
    shown = data(first, "#pour-root")
    assert shown["now"] != shown["even"]
    assert shown["now"] > shown["level"]


def test_bars_obey_the_keyboard(first):
    first.locator("#pour").focus()
    for key in ("ArrowRight", "ArrowUp"):
        first.keyboard.press(key)
    shown = data(first, "#pour-root")
    assert shown["now"] != shown["even"]
    text = first.locator("#pour").get_attribute("aria-valuetext")
    assert text.startswith("Round 2: floor ")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", ["introduction", "epsilon", "explorer"])
def test_interactive_pages_stand_still_while_they_load(page, html, name, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"file://{html}/book/{name}.html")
    if name == "epsilon":
        answered(page)
    assert page.evaluate(SHIFT) <= 0.02


def test_first_page_fits_a_screen(first):
    bottom = "() => document.querySelector('.lab-finds').getBoundingClientRect().bottom"
    assert first.evaluate(bottom) <= 900


def test_a_dark_page_is_printed_light(first):
    first.evaluate("document.documentElement.dataset.theme = 'dark'")
    background = "background-color", "rgb(255, 255, 255)"
    first.emulate_media(media="print")
    expect(first.locator("body")).to_have_css(*background)
    first.emulate_media(media="screen")  # the control
    expect(first.locator("body")).not_to_have_css(*background)


@pytest.mark.parametrize("name", ["introduction", "epsilon", "explorer"])
def test_without_javascript_a_picture_or_a_link_stands_in(browser, html, name):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"file://{html}/book/{name}.html")
    assert page.locator("article noscript :is(img, a)").first.is_visible()
    assert not page.locator("#pour-root, #calc, #explorer").is_visible()
    page.close()


CALCULATED = [  # the address, then what is left to run and what has run
    ("n=60000&delta=1e-5&want=2&phases=256,60,1.1", [(0.00426667, 1.1, 14063)], []),
    (
        "n=50000&delta=1e-6&want=3&phases=500,20,0.9;1000,10,2",
        [(0.01, 0.9, 2000), (0.02, 2.0, 500)],
        [],
    ),
    (
        "n=50000&delta=1e-5&want=4&phases=250,10,1,run;500,5,0.6",
        [(0.01, 0.6, 500)],
        [(0.005, 1.0, 2000)],
    ),
    (
        "n=1200&delta=1e-5&want=8&phases=40,300,0.8&unit=rounds",
        [(0.0333333, 0.8, 300)],
        [],
    ),
]


@pytest.fixture
def calculator(page, html):
    """Open the calculator at a state and wait for all of its answer; nothing may go wrong on it."""
    wrong = watch(page)

    def opened(state=""):
        page.goto(f"file://{html}/book/epsilon.html#{state}")
        return answered(page)

    yield opened
    assert wrong == ([], [])


def answered(page):
    page.wait_for_function("() => document.querySelector('#calc').dataset.factor")
    return page


@pytest.mark.parametrize(("state", "left", "past"), CALCULATED)
def test_calculator_computes_what_the_package_proves(calculator, state, left, past):
    page = calculator(state)
    told = dict(part.split("=") for part in state.split("&"))
    shown, delta = data(page, "#calc"), float(told["delta"])
    exact = epsilon([*past, *left], delta)
    assert shown["epsilon"] == pytest.approx(exact.estimate, rel=1e-4)
    wanted = calibrate(left, epsilon=float(told["want"]), delta=delta, fixed=past)
    assert shown["factor"] == pytest.approx(wanted.scale, rel=2e-3)
    taken = [(q, shown["factor"] * sigma, count) for q, sigma, count in left]
    assert epsilon([*past, *taken], delta).upper <= float(told["want"])
    if len(left) == 1:
        rate, sigma, _ = left[0]
        most = largest_count([(rate, sigma)], float(told["want"]), delta, fixed=past)
        assert shown["epochs"] == pytest.approx(most.count * rate, rel=3e-3)
    assert page.url.endswith(state)


@pytest.mark.parametrize(("state", "left", "past"), CALCULATED)
def test_lines_of_the_calculator_run_as_they_are(calculator, state, left, past, capsys):
    page = calculator(state)
    exec(page.locator("#calc-python").inner_text(), {})
    interval, noise = capsys.readouterr().out.splitlines()
    lower, upper = json.loads(interval)
    assert lower < data(page, "#calc")["epsilon"] < upper
    told = dict(part.split("=") for part in state.split("&"))
    options = {"epsilon": float(told["want"]), "delta": float(told["delta"])}
    wanted = calibrate(left, **options, fixed=past)
    assert literal_eval(noise) == wanted.noise_multiplier
    for line in page.locator("#calc-shell").inner_text().splitlines():
        program, *arguments = shlex.split(line)
        assert (program, main(arguments)) == ("adascale", 0)


def test_noise_for_the_wanted_epsilon_is_taken_into_phases_that_are_left(calculator):
    page = calculator(CALCULATED[2][0])
    page.locator("#calc-take").click()
    page.wait_for_function("() => document.querySelector('#calc').dataset.factor")
    assert data(page, "#calc")["epsilon"] == pytest.approx(4, rel=1e-3)
    first, _ = page.locator("[name=sigma]").all()
    assert first.input_value() == "1"  # has run


def test_no_noise_helps_once_the_past_leaks_more(calculator):
    page = calculator(CALCULATED[2][0])
    page.locator("[name=want]").fill("0.5")
    page.wait_for_function("() => location.hash.includes('want=0.5')")
    assert page.locator("#calc-take").is_disabled()
    assert "calibrate" not in page.locator("#calc-python").inner_text()
    assert "σ" not in page.locator("#calc-noise").inner_text()


@pytest.mark.parametrize(
    ("field", "typed", "means"),
    [
        ("sigma", "1,125", "1.125"),  # not 1125, which no field of noise may be
        ("delta", "0,00001", "0.00001"),
        ("delta", "1,5e−5", "0.000015"),
        ("delta", "10^-5", "0.00001"),
        ("samples", "50,000", "50000"),
        ("samples", "50.000", "50000"),
        ("samples", "50 000", "50000"),
        ("batch", "256,5", "256.5"),
    ],
)
def test_numbers_are_read_as_people_type_them(calculator, field, typed, means):
    page = calculator()
    shown = []
    for text in (typed, means):
        page.locator(f"[name={field}]").fill(text)
        page.evaluate(AT_REST)
        shown.append(page.locator("#calc").get_attribute("data-epsilon"))
    assert shown[0] == shown[1] is not None


def test_steps_are_those_of_the_epochs(calculator):
    page = calculator()
    epsilon_of_epochs = page.locator("#calc").get_attribute("data-epsilon")
    for unit in ("steps", "rounds", "epochs"):
        page.locator("[name=unit]").select_option(unit)
        page.evaluate(AT_REST)
        assert page.locator("#calc").get_attribute("data-epsilon") == epsilon_of_epochs


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        *((name, "-1") for name in ("samples", "delta", "batch", "length", "sigma")),
        ("batch", "1,024"),
        ("length", "1,024"),
        ("samples", "1.5"),
        ("sigma", "1,1,1"),
    ],
)
def test_calculator_says_beside_a_field_what_is_no_training(calculator, field, typed):
    page = calculator()
    control = page.locator(f"[name={field}]")
    before = control.input_value()
    control.fill(typed)
    page.evaluate(AT_REST)
    beside = page.locator(f"#{control.get_attribute('aria-describedby')}")
    assert typed in beside.inner_text()
    below = beside.bounding_box()["y"] - control.bounding_box()["y"]
    assert 0 < below < 60
    assert control.get_attribute("aria-invalid") == "true"
    assert page.locator("#calc-epsilon").inner_text() == "–"
    assert page.locator("[aria-invalid=true]").count() == 1
    control.fill(before)
    page.evaluate(AT_REST)
    assert page.locator("#calc-epsilon").inner_text() != "–"
    assert beside.inner_text() == ""


def test_each_example_of_the_calculator_is_a_training(calculator):
    page = calculator()
    for link in page.locator("#calc a[href^='#']").all():
        link.click()
        page.wait_for_function(
            "state => location.hash === state", arg=link.get_attribute("href")
        )
        assert data(answered(page), "#calc")["epsilon"] > 0


@pytest.mark.parametrize("name", ["00_start", "02_privacy"])
def test_bet_follows_its_slider(page, html, name):
    page.goto(f"file://{html}/notebooks/{name}.html")
    slider = page.locator(".lab-bet input")
    before = data(page, ".lab-bet")
    slider.evaluate(INPUT, 0.5)
    after = data(page, ".lab-bet")
    assert after["epsilon"] == pytest.approx(10**0.5)
    noise = calibrate([(0.01, 1.0, 500)], epsilon=10**0.5, delta=1e-5).scale
    found = 1 - beta([(0.01, noise, 500)], 0.01).estimate
    assert after["hits"] == pytest.approx(found, rel=5e-3)
    assert after["hits"] > before["hits"]
