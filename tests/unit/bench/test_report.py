"""Table, JSON and CSV: the same figures, a success rate beside them, what is bad marked as bad."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from router.bench.report import as_csv, as_table, percent, reasons, remarks, row
from router.bench.sweep import Cell
from tests.unit.bench.build import bad_figures, cell

COLUMNS = {
    *("concurrency", "rate", "group", "repeat", "good", "requests", "success_rate", "failures"),
    *("tokens_per_second", "tokens_per_second_error", "tokens_per_second_each", "requests_per_second"),
    *("in_flight", "speculative_share", "accept_length", "engine_running"),
    *("prompt_tokens", "cached_tokens", "output_tokens", "seconds", "drain_seconds"),
    *("client_busy", "client_late", "notes", "problems"),
    *(f"{name}_{place}" for name in ("ttft", "tpot", "gap", "latency") for place in ("p50", "p90", "p99")),
}
FAILED = bad_figures({"timeout": 2, "status 503": 28})


def shown(cells: list[Cell], title: str = "title") -> str:
    out = io.StringIO()
    Console(file=out, width=160, markup=False, highlight=False).print(as_table(cells, title))
    return out.getvalue()


def test_a_row_has_all_columns_in_json_and_csv() -> None:
    values = row(cell())
    assert set(values) == COLUMNS
    assert json.loads(json.dumps(values)) == values
    header, line = csv.reader(io.StringIO(as_csv([cell()])))
    assert set(header) == COLUMNS
    assert len(line) == len(header)


def test_values_of_a_good_cell() -> None:
    values = row(cell(notes=("a", "b")))
    assert values["good"] is True
    assert (values["concurrency"], values["rate"]) == (4, None)
    assert (values["success_rate"], values["failures"]) == (1.0, {})
    assert (values["ttft_p50"], values["ttft_p90"], values["ttft_p99"]) == (0.125, 0.25, 0.5)
    assert (values["accept_length"], values["speculative_share"], values["client_busy"]) == (2.5, 0.5, 0.25)
    (line,) = csv.DictReader(io.StringIO(as_csv([cell(notes=("a", "b"))])))
    assert (line["notes"], line["failures"], line["rate"]) == ("a; b", "", "")


def test_values_of_a_cell_with_failures() -> None:
    values = row(cell(FAILED))
    assert values["good"] is False
    assert values["success_rate"] == 0.7
    assert values["failures"] == {"status 503": 28, "timeout": 2}
    assert all(values[name] is None for name in COLUMNS if name.endswith(("_p50", "_p90", "_p99")))
    (line,) = csv.DictReader(io.StringIO(as_csv([cell(FAILED)])))
    assert line["failures"] == "status 503: 28; timeout: 2"
    assert line["ttft_p50"] == ""


def test_a_problem_makes_a_cell_bad_without_failures() -> None:
    assert row(cell(problems=("the client is at its limit",)))["good"] is False


def test_an_open_loop_has_a_rate_and_no_concurrency() -> None:
    values = row(cell(rate=2.5))
    assert (values["concurrency"], values["rate"]) == (None, 2.5)
    assert "2.5/s, open" in shown([cell(rate=2.5)])


def test_the_table_has_the_success_rate_in_every_row() -> None:
    table = shown([cell(), cell(FAILED, concurrency=8)])
    good, bad = (line for line in table.splitlines() if "in flight, open │" in line)
    assert "100 %" in good
    assert "125.0 / 500.0" in good
    assert "70 %" in bad
    assert "30 of 100 failed (status 503: 28, timeout: 2)" in table
    assert bad.count("–") == 4


def test_names_from_a_file_are_no_markup() -> None:
    """`[/b]` would end what was never begun, and `[b]` vanish."""
    table = shown([cell(group="[/b] [b]x")], "[/red]")
    assert "[/b] [b]x" in table
    assert "[/red]" in table


@pytest.mark.parametrize(
    ("share", "told"),
    [(1.0, "100 %"), (0.99999, "99.9 %"), (0.9995, "99.9 %"), (0.99, "99 %"), (0.0, "0 %"), (0.7, "70 %")],
)
def test_a_share_is_rounded_down(share: float, told: str) -> None:
    """One failure in ten thousand is no 100 %."""
    assert percent(share) == told


def test_a_share_in_tenths_of_a_percent_is_itself() -> None:
    """Binary fractions lie a little below some of them."""
    assert [percent(tenths / 1000) for tenths in range(1001)] == [f"{each / 10:g} %" for each in range(1001)]


def test_remarks_say_the_bad_first() -> None:
    assert remarks(cell()) == []
    assert remarks(cell(FAILED, notes=("note",), problems=("problem",))) == [
        "30 of 100 failed (status 503: 28, timeout: 2)",
        "problem",
        "note",
    ]
    assert remarks(cell(bad_figures({}, 0))) == ["nothing came"]
    assert reasons({}) == ""
