"""The report is one page that needs nothing else, says the verdict first and hides no failure."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from random import Random

import pytest
from rich.console import Console

from router.calibrate.measured import Measured, Routed
from router.calibrate.policy_block import policy_block
from router.calibrate.report import as_json, as_page, as_table
from router.calibrate.result import Result, assess
from router.calibrate.sheets import sheets
from router.core.words import Path
from tests.support.sweeps import SEEN_BASELINE, SEEN_EAGLE, UNSEEN_BASELINE, UNSEEN_EAGLE
from tests.unit.calibrate.build import alone, measured, profile, spoiled, swept, table, together

HOSTILE = "<script>alert(1)</script>&\"'\x1b[31m$x$"
ROUTED = (Routed(8, "chat", 2600.0, 1.0, 0.9, ()),)


def judged(found: Measured) -> Result:
    return assess(found, Random(1).random, 20)


def full() -> Measured:
    found = table(SEEN_BASELINE, SEEN_EAGLE)
    other = [replace(cell, group="code") for cell in found.alone]
    return replace(measured([*found.alone, *other]), both=together(), routed=ROUTED)


def render(result: Result, file: str = "calibration.yaml") -> str:
    return as_page(result, policy_block(result, file))


class Page(HTMLParser):
    """Tags, attributes that name something elsewhere, ids, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def test_the_verdict_comes_first_then_everything_it_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    without_plots(monkeypatch)
    result = judged(full())
    page = Page(render(result, "mine.yaml"))
    assert page.open == []
    assert page.links == []
    places = [
        page.text.index(part)
        for part in (
            result.verdict.sentence,
            "pip install 'spec-router[plots]'",
            "calibration: mine.yaml",
            "By load, at accept length",
            "By accept length",
            "By group of requests",
            "Both at once against either alone",
            "Through the router",
            "Every visit, each engine alone",
            "Every visit, both at once",
            "Drains",
            "What was measured, and how",
        )
    ]
    assert places == sorted(places)


def test_plots_are_in_the_page_as_text_and_in_the_colours_of_the_page() -> None:
    pytest.importorskip("matplotlib")
    text = render(judged(full()))
    page = Page(text)
    assert page.open == []
    assert page.tags.count("svg") == 4
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert "requests in flight" in page.text
    style = text[: text.index("</style>")]
    assert set(re.findall(r"var\((--[a-z]+)\)", text)) <= set(re.findall(r"(--[a-z]+):", style))
    assert not re.search(r"url\((?!#)|https?://(?!www\.w3\.org/)", text)


@pytest.mark.parametrize(
    "found",
    [
        table(UNSEEN_BASELINE, UNSEEN_EAGLE),
        swept(profile("seed"), (1, 30, 70, 250)),
        swept(profile("strong"), (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 256), accept_length=8.0),
    ],
    ids=["unsure", "never", "always"],
)
def test_there_are_plots_for_every_verdict(found: Measured) -> None:
    pytest.importorskip("matplotlib")
    assert render(judged(found)).count("<svg ") == 3


@pytest.mark.parametrize("plots", [True, False])
def test_names_that_come_from_elsewhere_are_only_text(plots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if plots:
        pytest.importorskip("matplotlib")
    else:
        without_plots(monkeypatch)
    found = full()
    cells = tuple(replace(cell, group=HOSTILE) if cell.group == "code" else cell for cell in found.alone)
    found = replace(
        found,
        alone=cells,
        key=replace(found.key, model=HOSTILE, draft=HOSTILE, engine=HOSTILE),
        routed=(replace(ROUTED[0], group=HOSTILE, problems=(HOSTILE,)),),
        command=HOSTILE,
        started=HOSTILE,
        notes=(HOSTILE,),
    )
    text = render(judged(found))
    assert "script" not in Page(text).tags
    assert "\x1b" not in text
    assert HOSTILE.replace("\x1b", "\\x1b") in Page(text).text
    shown = StringIO()
    Console(file=shown, width=200).print(as_table(judged(found)))
    assert "\x1b" not in shown.getvalue()


def test_a_name_in_letters_that_matplotlib_cannot_draw_is_in_the_page_all_the_same() -> None:
    pytest.importorskip("matplotlib")
    found = full()
    cells = tuple(replace(cell, group="聊天") if cell.group == "code" else cell for cell in found.alone)
    assert "聊天" in render(judged(replace(found, alone=cells)))


def test_a_refused_measurement_has_its_reasons_and_all_cells_with_their_success_rates() -> None:
    bad = spoiled(table(SEEN_BASELINE, SEEN_EAGLE), 3, success_rate=0.714, failures={"cut": 4})
    bad = replace(spoiled(bad, 4, tokens_per_second=float("nan")), routed=ROUTED)
    result = judged(bad)
    text = Page(render(result)).text
    assert "No thresholds follow from this measurement, for 2 reasons." in text
    assert "71.4 %" in text
    assert "cut: 4" in text
    assert "kind: calibrated" not in text
    assert "nan" not in text.replace("nan tokens per second", "")
    assert text.count("100 %") == len(bad.alone) - 1 + len(ROUTED)
    plain = as_json(result)
    assert plain["verdict"]["usable"] is False
    assert [cell["success_rate"] for cell in plain["cells"]].count(0.714) == 1
    assert "crossover" not in plain


def test_the_routers_throughput_is_held_against_the_better_engine_at_its_groups_accept_length() -> None:
    """1.5 accept length: speculation gives 3/4 of what it gives at 2, and the baseline is better at 4."""
    cells = [alone(Path.BASELINE, n, 100.0 * n) for n in (1, 2, 4)]
    cells += [alone(Path.SPECULATIVE, n, 120.0 * n, 2.0) for n in (1, 2, 4)]
    cells += [replace(cell, group="hard") for cell in cells[:3]]
    cells += [alone(Path.SPECULATIVE, n, 90.0 * n, 1.5, group="hard") for n in (1, 2, 4)]
    routed = tuple(Routed(4, group, 400.0, 1.0, 0.5, ()) for group in ("chat", "hard"))
    table_of = {sheet.title: sheet for sheet in sheets(judged(replace(measured(cells), routed=routed)))}
    assert [row[4] for row in table_of["Through the router"].rows] == ["83 %", "100 %"]


def test_the_json_says_what_the_page_says() -> None:
    result = judged(full())
    assert result.derived is not None
    plain = json.loads(json.dumps(as_json(result)))
    assert plain["verdict"]["kind"] == "part"
    assert plain["crossover"] == result.derived.at.crossover.n
    assert plain["interval"]["low"] <= plain["crossover"] <= plain["interval"]["high"]
    assert [each["n"] for each in plain["by_load"]] == sorted(SEEN_BASELINE)
    assert len(plain["mixed"]) == 7
    assert [each["group"] for each in plain["by_group"]] == ["chat", "code"]
    assert len(plain["cells"]) == len(full().alone)


def test_a_terminal_gets_the_verdict_its_reasons_and_the_tables_of_what_was_derived() -> None:
    result = judged(full())
    shown = StringIO()
    Console(file=shown, width=160).print(as_table(result))
    text = shown.getvalue()
    assert text.startswith(result.verdict.sentence[:60])
    for part in (result.verdict.reasons[0][:60], "By load", "By accept length", "Both at once", "▶ 2.09"):
        assert part in text


def test_a_terminal_gets_warnings_and_the_reasons_of_a_refusal() -> None:
    bad = replace(spoiled(full(), 0, success_rate=0.5), routed=(replace(ROUTED[0], success_rate=0.5),))
    shown = StringIO()
    Console(file=shown, width=160).print(as_table(judged(bad)))
    text = shown.getvalue()
    assert "• baseline at 1 (chat): only 50 % of the requests succeeded (no reason known)" in text
    assert "! through the router at 8 (chat): only 50 % of the requests succeeded" in text
    assert "By load" not in text
