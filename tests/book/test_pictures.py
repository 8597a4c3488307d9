"""Pictures of the book on their own: colours on a dark page."""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from companion.figures import STYLE, files, shades

STATIC = Path(__file__).parents[2] / "book" / "_static"

pytestmark = pytest.mark.book


def luminance(color):
    """Return the relative luminance of the web's contrast rule."""
    color = np.asarray(color)
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def stripes(colors):
    """Return a drawing of one stripe of each colour, with gaps of half its width."""
    figure = plt.figure(figsize=(len(colors), 1))
    for k, color in enumerate(colors):
        left, width = (k + 0.5) / len(colors), 0.5 / len(colors)
        figure.add_artist(plt.Rectangle((left, 0), width, 1, color=color))
    svg = files.as_svg(figure)
    plt.close(figure)
    return svg


@pytest.mark.parametrize(
    ("theme", "ground"), [("light", "#ffffff"), ("dark", "#14181e")]
)
def test_colours_stand_out_on_a_page_and_the_ground_is_the_pages(page, theme, ground):
    colors = [look["color"] for look in (*STYLE.values(), *shades(4))]
    css = (STATIC / "custom.css").read_text() + f" body {{background: {ground}}}"
    place = '<div class="bd-content"><article class="bd-article"><figure><img></figure></article></div>'
    page.set_content(f'<html data-theme="{theme}"><style>{css}</style>{place}')
    page.evaluate(
        "svg => { document.images[0].src = `data:image/svg+xml,${encodeURIComponent(svg)}`; }",
        stripes(colors),
    )
    page.wait_for_function("document.querySelector('img').complete")
    screenshot = Image.open(io.BytesIO(page.locator("img").screenshot()))
    pixels = np.asarray(screenshot.convert("RGB"))
    line, counts = np.unique(pixels[len(pixels) // 2], axis=0, return_counts=True)
    shown = line[counts > 10] / 255  # edges are mixtures
    is_ground = np.abs(shown - to_rgb(ground)).max(axis=1) < 0.02
    assert is_ground.sum() == 1
    assert (~is_ground).sum() == len(colors)
    light, dark = luminance(shown[~is_ground]) + 0.05, luminance(to_rgb(ground)) + 0.05
    assert np.maximum(light / dark, dark / light).min() >= 2


def test_figures_have_the_whole_width_of_a_phone(page, html):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((html / "notebooks" / "04_problem.html").as_uri())
    widths = page.evaluate(
        "() => [...document.querySelectorAll('figure img')].map((each) => each.clientWidth)"
    )
    assert widths
    assert set(widths) == {358}  # PHONE of test_figure_files.py


FIRST = """() => {
  const figure = document.querySelector("article figure, article img");
  return (figure.getBoundingClientRect().top + scrollY) / innerHeight;
}"""


@pytest.mark.parametrize(("width", "height", "most"), [(1440, 900, 1), (390, 844, 1.2)])
def test_chapters_open_with_a_figure(page, html, width, height, most):
    page.set_viewport_size({"width": width, "height": height})
    places = {}
    for path in sorted((html / "notebooks").glob("[01]?_*.html")):
        page.goto(path.as_uri())
        places[path.stem] = page.evaluate(FIRST)
    assert len(places) == 14
    assert not {name for name, place in places.items() if place > most}
