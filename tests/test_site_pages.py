"""What pages get: a description, a card and an address; tests/book sees the rest on the built pages."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils.core import publish_doctree

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import site_pages


def page(text):
    return publish_doctree(
        f"Title\n=====\n\n{text}\n", settings_overrides={"doctitle_xform": False}
    )


def test_a_page_is_described_by_its_first_sentences_with_formulas_as_text():
    formulas = r"Are :math:`\nu`, :math:`\eta_t \le 1`, :math:`\mathbf{w}_t` and :math:`10^{-5}` small?"
    assert (
        site_pages.described(page(f"**Question.** {formulas}\n\nAnother paragraph."))
        == "Are ν, η_t ≤ 1, w_t and 10^-5 small?"
    )
    assert site_pages.described(page("This is a sentence. " * 40)).endswith("sentence.")
    cut = site_pages.described(page("word " * 200))
    assert cut.endswith(" word…")
    assert len(cut) <= 300
    assert site_pages.described(publish_doctree("")) == ""


@pytest.mark.parametrize("base", ["", "https://example.org/book/"])
def test_a_picture_stands_on_a_card_where_there_is_an_absolute_address(base):
    app = SimpleNamespace(
        config=SimpleNamespace(html_title="The book", html_baseurl=base)
    )
    context = {"title": '<span class="number">2. </span>Privacy &amp; "noise"'}
    site_pages.describe(app, "notebooks/02", "page.html", context, page("A < B."))
    marks = context["metatags"]
    assert '<meta name="description" content="A &lt; B." />' in marks
    assert (
        '<meta property="og:title" content="2. Privacy &amp; &quot;noise&quot;" />'
        in marks
    )
    assert ("og:image" in marks) == bool(base)
    assert ('content="https://example.org/book/_static/card.png"' in marks) == bool(
        base
    )


def test_one_address_gives_base_and_launch_buttons():
    for url, base in (
        ("https://github.com/Someone/adascale", "https://someone.github.io/adascale/"),
        ("", ""),
    ):
        config = SimpleNamespace(
            html_theme_options={"repository_url": url, "launch_buttons": {}},
            html_baseurl="",
        )
        site_pages.take_address(None, config)
        assert config.html_baseurl == base
        assert {*config.html_theme_options["launch_buttons"]} == (
            {"colab_url", "binderhub_url"} if url else set()
        )
