"""A plan or a refusal for people: rich tables on a terminal, aligned text elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from router.core.words import Path
from router.launch.flags import FlagCheck
from router.launch.plan import Command, EnginePlan, Plan, Refusal
from router.launch.report import (
    Table,
    command_text,
    gpu_table,
    memory_table,
    requests_table,
    tier_lines,
)


class PlanView:
    """Writes to one console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def plan(self, plan: Plan, commands: Mapping[Path, Command], checks: Mapping[Path, FlagCheck]) -> None:
        """Everything about a plan that fits."""
        draft = f", draft {plan.draft.name}" if plan.draft else ""
        self._line(
            f"{plan.model.name}{draft}: fits, placement {plan.placement.value}, "
            f"hardware {plan.hardware.name}",
            "bold green",
        )
        for table in (memory_table(plan), gpu_table(plan), requests_table(plan)):
            self._table(table)
        self._listed("Tiers", list(tier_lines(plan)))
        self._listed("Notes", plan.warnings)
        for number, engine in enumerate(plan.engines, 1):
            self._command(f"{number}. {_start(engine)}", commands[engine.path])
        self._listed("Flags", [_checked(path, check) for path, check in checks.items()])

    def memory(self, plan: Plan) -> None:
        """Only what a plan comes to, without commands."""
        for table in (memory_table(plan), gpu_table(plan)):
            self._table(table)
        self._listed("Notes", plan.warnings)

    def refusal(self, refusal: Refusal) -> None:
        """Why not, the sum, and what would do."""
        self._line(f"refused ({refusal.kind.value}): {refusal.reason}", "bold red")
        self._listed("Per GPU, GiB", refusal.arithmetic)
        self._listed(
            "What was tried instead",
            [
                f"{'->' if option is refusal.recommended else '  '} {option.title} ({option.config}): "
                f"{option.says}"
                for option in refusal.options
            ],
        )
        if refusal.options:
            best = refusal.recommended
            self._line("")
            self._line(
                f"recommended: {best.title}; set {best.config}" if best else "nothing that was tried fits"
            )

    def _command(self, title: str, command: Command) -> None:
        self._line("")
        self._line(title, "bold")
        for name, text in command.files.items():
            self._line(f"  with {name}: {' '.join(text.split())}")
        self._line(f"  {command_text(command)}")

    def _listed(self, title: str, lines: Sequence[str]) -> None:
        if lines:
            self._line("")
            self._line(title, "bold")
        for line in lines:
            self._line(f"  {line}")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(escape(text), style=style, soft_wrap=True, highlight=False)

    def _table(self, table: Table) -> None:
        self._line("")
        if not self._console.is_terminal:
            self._plain(table)
            return
        shown = RichTable(title=table.title, title_justify="left")
        for at, name in enumerate(table.head):
            shown.add_column(escape(name), justify="right" if at else "left")
        for row in table.rows:
            shown.add_row(*(escape(cell) for cell in row))
        self._console.print(shown)

    def _plain(self, table: Table) -> None:
        self._line(table.title)
        rows = [table.head, *table.rows]
        widths = [max(len(row[at]) for row in rows) for at in range(len(table.head))]
        for row in rows:
            cells = [
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            self._line("  " + "  ".join(cells).rstrip())


def _start(engine: EnginePlan) -> str:
    if engine.before == 0:
        return f"start the {engine.path.value} engine"
    return (
        f"when that has settled, start the {engine.path.value} engine (its fraction is a forecast: it is "
        "computed anew from the memory free then)"
    )


def _checked(path: Path, check: FlagCheck) -> str:
    said = "; ".join(check.problems) or "every flag is known"
    return f"{path.value}: {said}, says {check.source}"
