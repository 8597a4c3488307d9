"""Tables and figures as HTML that needs no file and no network."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from IPython.display import HTML


def download_link(table: pd.DataFrame, filename: str) -> HTML:
    """Return the table as a CSV of six significant digits behind a link that needs no file and no network."""
    from IPython.display import HTML

    data = base64.b64encode(
        table.to_csv(index=False, float_format="%.6g").encode()
    ).decode()
    return HTML(
        f'<a download="{filename}" href="data:text/csv;base64,{data}">Download the data ({filename})</a>'
    )


def embedded(figure: Figure, alt: str) -> HTML:
    """Return the figure as HTML with its picture and its alternative text, to paste into another page."""
    from IPython.display import HTML

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode()
    return HTML(f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{picture}">')
