"""A result as a report: one HTML page that needs nothing else, readable in light and dark and on a phone.

Whatever came from an engine or a command line is escaped. The forms for a terminal and for programs are here
by name too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from router import __version__
from router.calibrate.plots import Plot, plots
from router.calibrate.result import Result
from router.calibrate.sheet import Sheet
from router.calibrate.sheets import sheets
from router.calibrate.terminal import as_json, as_table
from router.calibrate.verdict import Kind
from router.config.errors import printable
from router.plotting import PlotsMissing

__all__ = ["as_json", "as_page", "as_table"]

_TONES = {Kind.REFUSED: "bad", Kind.UNSURE: "warn", Kind.PART: "good", Kind.ALWAYS: "good"}
_LONG = ("problems", "problems and failures", "")


def as_page(result: Result, policy: str | None) -> str:
    """The page.

    Args:
        policy: the section for the configuration (`policy_block`), if there is one.
    """
    drawn, missing = _drawn(result)
    body = [
        _verdict(result),
        _plots(drawn) if drawn else "",
        _note(missing) if missing else "",
        _policy(policy),
        *(_sheet(sheet) for sheet in sheets(result)),
    ]
    css = files("router.calibrate").joinpath("report.css").read_text("utf-8")
    model = printable(result.measured.key.model or "two engines")
    about = f"{model}, {printable(result.measured.started)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>spec-router calibrate: {escape(model)}</title>
<style>
{css}</style>
</head>
<body>
<header><h1>spec-router calibrate <small>{escape(about)}</small></h1></header>
<main>
{"".join(body)}</main>
<footer>spec-router {escape(__version__)}</footer>
</body>
</html>
"""


def _drawn(result: Result) -> tuple[tuple[Plot, ...], str]:
    """The plots, or why there are none."""
    if result.derived is None:
        return (), ""
    try:
        return plots(result.measured, result.derived), ""
    except PlotsMissing as error:
        return (), str(error)


def _verdict(result: Result) -> str:
    verdict = result.verdict
    tone = _TONES.get(verdict.kind, "")
    reasons = _list(verdict.reasons, "reasons")
    warnings = _list(result.warnings, "warn")
    text = escape(printable(verdict.sentence))
    return _section("Verdict", f'<p class="verdict {tone}">{text}</p>\n{reasons}{warnings}')


def _list(texts: Sequence[str], css: str) -> str:
    items = "".join(f"<li>{escape(printable(text))}</li>\n" for text in texts)
    return f'<ul class="{css}">\n{items}</ul>\n' if texts else ""


def _plots(drawn: Sequence[Plot]) -> str:
    figures = "".join(
        _section(plot.title, f"<figure>{plot.svg}<figcaption>{escape(plot.caption)}</figcaption></figure>")
        for plot in drawn
    )
    return f'<div class="plots">\n{figures}</div>\n'


def _note(text: str) -> str:
    return _section("Plots", f"<p>{escape(text)}</p>")


def _policy(block: str | None) -> str:
    if block is None:
        return ""
    return _section("For the configuration", f"<pre>{escape(block)}</pre>")


def _sheet(sheet: Sheet) -> str:
    head = "".join(_cell("th", sheet, place, name) for place, name in enumerate(sheet.columns))
    rows = "".join(_row(sheet, place) for place in range(len(sheet.rows)))
    head = f"<thead><tr>{head}</tr></thead>" if any(sheet.columns) else ""
    note = f'<p class="note">{escape(sheet.note)}</p>' if sheet.note else ""
    table = f'<div class="scroll"><table>{head}<tbody>\n{rows}</tbody></table></div>'
    return _section(sheet.title, table + note)


def _row(sheet: Sheet, place: int) -> str:
    row = sheet.rows[place]
    css = " class=bad" if place in sheet.marked else " class=here" if row[0].startswith("▶") else ""
    cells = "".join(_cell("td", sheet, column, text) for column, text in enumerate(row))
    return f"<tr{css}>{cells}</tr>\n"


def _cell(tag: str, sheet: Sheet, place: int, text: str) -> str:
    long = place and sheet.columns[place] in _LONG
    css = ["text"] if place < sheet.texts or long else []
    css += ["long"] if long and tag == "td" and text else []
    attributes = f' class="{" ".join(css)}"' if css else ""
    scope = ' scope="col"' if tag == "th" else ""
    return f"<{tag}{scope}{attributes}>{escape(text)}</{tag}>"


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>\n"
