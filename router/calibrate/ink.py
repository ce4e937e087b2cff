"""Colours and shapes of the plots, and how matplotlib's SVG becomes a part of a page.

matplotlib draws with the fixed colours of a light page; in the page they become CSS variables, so that one
picture serves light and dark. Text stays text, in the page's font.

The two engines are blue and orange, which all common kinds of colour blindness tell apart, and differ in
marker and line as well.
"""

from __future__ import annotations

import io
import re
import warnings
from html import escape
from importlib import import_module
from typing import Any

from router.config.errors import printable
from router.core.words import Path

TEXT, DIM, GRID, AREA, MARK = "#1d1f24", "#5c6270", "#dcdfe6", "#8d94a3", "#1b7a3d"
COLOUR = {Path.BASELINE: "#0a6cc9", Path.SPECULATIVE: "#c24e00"}
MARKER = {Path.BASELINE: "o", Path.SPECULATIVE: "^"}
LINE = {Path.BASELINE: "-", Path.SPECULATIVE: (0, (6, 1.5))}

_VARIABLES = {
    TEXT: "--text",
    DIM: "--dim",
    GRID: "--line",
    AREA: "--area",
    MARK: "--mark",
    COLOUR[Path.BASELINE]: "--baseline",
    COLOUR[Path.SPECULATIVE]: "--speculative",
}
_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with $ in it is no formula
    "font.size": 10.5,
    "text.color": TEXT,
    "axes.labelcolor": DIM,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": DIM,
    "ytick.labelcolor": DIM,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.8,
}
_LONGEST_NAME = 28


def style() -> Any:
    """matplotlib's settings for a plot, as a context."""
    return import_module("matplotlib").rc_context(_STYLE)


def label(name: str) -> str:
    """A name that came from elsewhere, fit for a legend."""
    name = printable(name)
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def svg(figure: Any, name: str, title: str) -> str:
    """The figure as an element of a page.

    Args:
        name: unique in the page; ids begin with it.
        title: what it shows, for those who do not see it.
    """
    with io.StringIO() as out, warnings.catch_warnings():
        # Of letters that matplotlib's own font lacks only the width is guessed; the page has its own fonts.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(out, format="svg", metadata={"Date": None})
        text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    head = f'<svg role="img" aria-label="{escape(title)}" '
    box = re.search(r'viewBox="[^"]*"', text)
    return head + (box.group() if box else "") + text[text.index(">") :]
