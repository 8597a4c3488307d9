"""The first page, the calculator and the bet in a browser: their numbers are the package's, by mouse and keyboard."""

import json
import shlex

import numpy as np
import pytest

from adascale.accounting import beta, calibrate, epsilon, largest_count
from adascale.cli import main
from adascale.policies import water_level
from adascale.problem import RoundLeakage
from companion import explorer
from companion.figures.opening import START, pours

from .test_browser import AT_REST, LOCAL, SHIFT

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
    wrong = []
    page.on("console", lambda line: line.type == "error" and wrong.append(line.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(LOCAL) or wrong.append(asked.url))  # fmt: skip
    page.goto(f"file://{html}/book/introduction.html")
    yield page
    assert not wrong


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


def test_dragged_bar_keeps_the_total_and_never_beats_the_level(first):
    plot = first.locator("#pour")
    box = plot.bounding_box()
    first.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.6 * box["height"])
    first.mouse.down()
    first.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    first.mouse.up()
    shown = data(first, "#pour-root")
    assert shown["now"] != shown["even"]
    assert shown["now"] > shown["level"]
    blue = "rects => rects.map((each) => Number(each.getAttribute('height')))"
    heights = first.locator("#pour rect[fill='var(--lab-you)']").evaluate_all(blue)
    first.locator("[data-who=even]").click()
    even = first.locator("#pour rect[fill='var(--lab-water)']").evaluate_all(blue)
    assert sum(heights) == pytest.approx(sum(even), rel=0.3)  # tall bars are broken


def test_bars_obey_the_keyboard(first):
    first.locator("#pour").focus()
    for key in ("ArrowRight", "ArrowUp"):
        first.keyboard.press(key)
    shown = data(first, "#pour-root")
    assert shown["now"] != shown["even"]
    text = first.locator("#pour").get_attribute("aria-valuetext")
    assert text.startswith("Round 2: floor ")


def test_first_page_is_still_and_fits_a_screen(first):
    assert first.evaluate(SHIFT) <= 0.02
    bottom = "() => document.querySelector('.lab-finds').getBoundingClientRect().bottom"
    assert first.evaluate(bottom) <= 900


def test_a_dark_page_is_printed_light(first):
    theme = "document.documentElement.dataset.theme"
    first.evaluate(f"{theme} = 'dark'")
    first.emulate_media(media="print")
    first.wait_for_function(f"{theme} === 'light'")
    paper = "getComputedStyle(document.body).backgroundColor"
    first.wait_for_function(f"{paper} === 'rgb(255, 255, 255)'")
    assert first.evaluate(paper) == "rgb(255, 255, 255)"
    first.emulate_media(media="screen")
    first.wait_for_function(f"{theme} === 'dark'")
    assert first.evaluate(paper) != "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["introduction", "epsilon"])
def test_without_javascript_a_picture_or_a_link_stands_in(browser, html, name):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"file://{html}/book/{name}.html")
    assert page.locator("article noscript :is(img, a)").first.is_visible()
    assert not page.locator("#pour-root, #calc").is_visible()
    page.close()


CALCULATED = [
    ("n=60000&delta=1e-5&want=2&phases=256,60,1.1", [(0.00426667, 1.1, 14063)]),
    (
        "n=50000&delta=1e-6&want=3&phases=500,20,0.9;1000,10,2",
        [(0.01, 0.9, 2000), (0.02, 2.0, 500)],
    ),
]


@pytest.mark.parametrize(("state", "phases"), CALCULATED)
def test_calculator_computes_what_the_package_proves(page, html, state, phases, capsys):
    page.goto(f"file://{html}/book/epsilon.html#{state}")
    told = dict(part.split("=") for part in state.split("&"))
    page.wait_for_function("() => document.querySelector('#calc').dataset.factor")
    shown, delta = data(page, "#calc"), float(told["delta"])
    assert shown["epsilon"] == pytest.approx(epsilon(phases, delta).estimate, rel=1e-4)
    scale = calibrate(phases, epsilon=float(told["want"]), delta=delta).scale
    assert shown["factor"] == pytest.approx(scale, rel=2e-3)
    if len(phases) == 1:
        rate, sigma, _ = phases[0]
        most = largest_count([(rate, sigma)], float(told["want"]), delta).count
        assert shown["epochs"] == pytest.approx(most * rate, rel=3e-3)
    exec(page.locator("#calc-python").inner_text(), {})
    lower, upper = json.loads(capsys.readouterr().out)
    assert lower < shown["epsilon"] < upper
    program, *arguments = shlex.split(page.locator("#calc-shell").inner_text())
    assert (program, main(arguments)) == ("adascale", 0)
    assert page.url.endswith(state)


@pytest.mark.parametrize("field", ["samples", "delta", "batch", "epochs", "sigma"])
def test_calculator_refuses_what_is_no_training(page, html, field):
    page.goto(f"file://{html}/book/epsilon.html")
    page.locator(f"[name={field}]").fill("-1")
    page.evaluate(AT_REST)
    assert "-1" in page.locator("#calc-warn").inner_text()
    assert page.locator("#calc-epsilon").inner_text() == "–"
    assert page.locator("[aria-invalid=true]").count() >= 1


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


def test_level_of_the_water_is_that_of_the_policy():
    floor = explorer.typical_floors()
    energy = pours(floor, START)["one water level"]
    assert (energy - floor).mean() == pytest.approx(START)
    assert energy.min() == pytest.approx(float(water_level(floor, START)))
