"""What is said before the first number: what runs, where, and what to try."""

from __future__ import annotations

from dataclasses import dataclass

from router.demo.plan import Plan


@dataclass(frozen=True, slots=True)
class Addresses:
    """Base URLs of the router's two ports."""

    data: str
    admin: str


def intro(plan: Plan, at: Addresses, model: str) -> list[str]:
    """Lines of at most 80 columns with usual ports; the last two are one shell command."""
    crossover = plan.comparison.crossover
    source = (
        f"1.25 and 0.5 of the profile's N* = {crossover}"
        if plan.derived
        else "picked: the profile has no crossover"
    )
    return [
        f"spec-router demo: two simulated engines on one simulated GPU, profile {plan.profile.name}",
        f"up at N ≥ {plan.high}, back at N ≤ {plan.low} ({source});",
        f"dwell {plan.dwell:g} s and smoothing {plan.smoothing:g} s, shorter than the defaults, to show more",
        f"data   {at.data:<28} status   {at.admin}/admin/status",
        f"admin  {at.admin:<28} metrics  {at.admin}/metrics",
        "try this in another terminal; Ctrl-C ends the demo:",
        *curl(at.data, model),
    ]


def curl(data: str, model: str) -> list[str]:
    """A command in two short lines. The break is inside the JSON, where it and blanks after it do no harm."""
    target = f"{data.removeprefix('http://')}/v1/completions"
    return [
        f"curl -iN {target} -H content-type:application/json -d '",
        f'{{"model":"{model}","prompt":"Hello","stream":true,"max_tokens":20}}\'',
    ]
