"""`spec-router explain`: does the policy make the recorded switches again?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from router.core.sentences import why_switched
from router.observe.decisions import SwitchRecord, first_difference
from router.policies import policy_from_rules

DIFFERS = 1
WRONG_FILE = 2


def explain(file: Path, as_json: bool) -> int:
    """Replay a decision log; 0 if every switch is made again, 1 at the first difference, 2 for a bad file."""
    try:
        records = read_log(file)
    except (OSError, ValueError) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return WRONG_FILE
    rows = [_row(number, record) for number, record in enumerate(records, 1)]
    differing = [row for row in rows if row["difference"]]
    if as_json:
        print(json.dumps({"switches": rows, "reproduced": not differing}))
    else:
        for row in rows:
            print(f"{row['line']:>5}  {row['from']} → {row['to']}  {row['why']}")
        for row in differing[:1]:
            print(f"{file}:{row['line']}: the policy makes {row['difference']}", file=sys.stderr)
        print(f"{len(rows) - len(differing)} of {len(rows)} switches made again")
    return DIFFERS if differing else 0


def read_log(file: Path) -> list[SwitchRecord]:
    """The records of a log. Raises OSError, or ValueError naming the line."""
    records = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            records.append(msgspec.json.decode(line, type=SwitchRecord))
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number} is no decision record: {error}") from None
    return records


def _row(line: int, record: SwitchRecord) -> dict[str, Any]:
    switch = record.switch
    try:
        difference = first_difference(policy_from_rules(record.rules), record)
    except (KeyError, ValueError, TypeError) as error:
        difference = f"nothing of these rules ({error})"
    return {
        "line": line,
        "wall": record.wall,
        "from": switch.origin.value,
        "to": switch.target.value,
        "reason": switch.reason.value,
        "why": why_switched(switch),
        "n": switch.n,
        "difference": difference,
    }
