"""What is asked of the engines: how many prompt tokens they compute for each token that they generate.

The time that prompts take is not there for decoding, and it is not the same on both engines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from router.core.calibration import Workload
from router.core.live import Live
from router.core.load import finite

# Prompts come in lumps; over so many seconds they even out.
SMOOTHING = 30.0
# Tokens per second; more is no measurement.
MOST_RATE = 1e9
# Prompt tokens for each output token; more is a moment before the first answers.
MOST_MIX = 1000.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Tokens per second of both engines together, smoothed: computed ones of prompts, and generated ones."""

    prompts: float = 0.0
    outputs: float = 0.0

    def look(self, live: Live, passed: float) -> Traffic:
        """With what the engines say now, `passed` seconds after the last look."""
        one, other = live.speculative, live.baseline
        kept = math.exp(-passed / SMOOTHING)
        prompts = told(one.prefilled_per_second) + told(other.prefilled_per_second)
        outputs = told(one.tokens_per_second) + told(other.tokens_per_second)
        return Traffic(
            prompts + (self.prompts - prompts) * kept,
            outputs + (self.outputs - outputs) * kept,
        )

    def mix(self, sweep: Workload) -> float:
        """Prompt tokens for each output token, beyond those of the sweep: its step times hold its own."""
        if self.prompts <= 0.0 or self.outputs <= 0.0:
            return 0.0
        return max(0.0, min(MOST_MIX, self.prompts / self.outputs) - sweep.mix)


QUIET = Traffic()


def told(rate: float | None) -> float:
    """A rate as an engine says it; 0 where it says nothing of use."""
    value = finite(rate)
    return value if value is not None and 0.0 <= value <= MOST_RATE else 0.0
