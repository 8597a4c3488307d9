"""Tables and figures as HTML that needs no file beside it."""

import base64
import io
import re

import pandas as pd
from matplotlib.figure import Figure

from companion.figures.markup import download_link, embedded


def test_a_table_is_in_its_link():
    table = pd.DataFrame({"nu": [0.01, 0.16], "rdp": [1 / 3, 2.0]})
    found = download_link(table, "t.csv").data
    assert 'download="t.csv"' in found
    data = base64.b64decode(re.search(r"base64,([^\"]+)", found)[1])
    pd.testing.assert_frame_equal(pd.read_csv(io.BytesIO(data)), table, rtol=1e-5)  # six digits


def test_a_figure_is_in_its_picture_with_its_words():
    found = embedded(Figure(), 'it "falls" & falls').data
    assert 'alt="it &quot;falls&quot; &amp; falls"' in found
    assert base64.b64decode(re.search(r"base64,([^\"]+)", found)[1]).startswith(b"\x89PNG")
