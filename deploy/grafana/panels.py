"""What the dashboards show, as data: one entry per panel, queries in PromQL.

`dashboards.py` turns this into Grafana's JSON; the coverage test runs every query against a real
Prometheus that scrapes a running router.
"""

from __future__ import annotations

from dataclasses import dataclass, field

P = "spec_router"
# `pair` is a dashboard variable; engines carry `path` from the scrape configuration.
PAIR = 'pair=~"$pair"'
RATE = "[$__rate_interval]"
# A path has one colour wherever it is shown, on the live page too.
COLOURS = {"speculative": "purple", "baseline": "blue"}


@dataclass(frozen=True)
class Query:
    """One query. `legend` is Grafana's format."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One panel. `kind`: timeseries, stat or timeline; `width` of 24; `steps`: value → (colour, text)."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    stacked: bool = False
    minimum: float | None = 0
    maximum: float | None = None
    states: dict[str, tuple[str, str]] = field(default_factory=dict)
    colours: dict[str, str] = field(default_factory=lambda: COLOURS)
    dashed: str = ""  # regular expression of series drawn as dashed lines, such as watermarks


@dataclass(frozen=True)
class Dashboard:
    """One dashboard; `annotate` marks switches on every panel."""

    uid: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    annotate: bool = True


def quantiles(metric: str, what: str) -> tuple[Query, ...]:
    """p50 and p99 of a histogram of the router, by path."""
    return tuple(
        Query(
            f"histogram_quantile({q}, sum by (le, path) (rate({P}_{metric}_bucket{{{PAIR}}}{RATE})))",
            f"{{{{path}}}} {what}{int(q * 100)}",
        )
        for q in (0.5, 0.99)
    )


NOW = Dashboard(
    "spec-router-now",
    "spec-router: now",
    "Which path is active and why, what each path delivers, what clients feel.",
    (
        Panel(
            "Active path",
            "Where new requests go. A change is a switch; the marks on all panels give its reason.",
            "none",
            (Query(f'{P}_active_path{{{PAIR}, path="baseline"}}', "active path"),),
            kind="timeline",
            width=24,
            height=4,
            minimum=None,
            states={"0": (COLOURS["speculative"], "speculative"), "1": (COLOURS["baseline"], "baseline")},
        ),
        Panel(
            "Requests in flight against the watermarks",
            "N counts both paths and the queue. At high new requests go to baseline; at low, after the "
            "dwell, they come back.",
            "short",
            (
                Query(f"sum by (pair) ({P}_in_flight{{{PAIR}}})", "N"),
                Query(f"{P}_in_flight{{{PAIR}}}", "{{path}}"),
                Query(f"{P}_threshold{{{PAIR}}}", "{{bound}}"),
            ),
            width=24,
            height=9,
            colours={**COLOURS, "N": "text", "queue": "yellow", "high": "red", "low": "green"},
            dashed="high|low",
        ),
        Panel(
            "Tokens per second",
            "What each engine generates, by its own counters.",
            "short",
            (Query(f"{P}_throughput_tokens_per_second{{{PAIR}}}", "{{path}}"),),
            stacked=True,
        ),
        Panel(
            "Answered requests per second",
            "Requests that ended well, by the path that served them.",
            "reqps",
            (
                Query(
                    f'sum by (path) (rate({P}_requests_total{{{PAIR}, outcome="ok", path!="none"}}{RATE}))',
                    "{{path}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Time to first token",
            "From the arrival at the router to the engine's first event: queue, prefill and all.",
            "s",
            quantiles("time_to_first_token_seconds", "p"),
            dashed="p99",
        ),
        Panel(
            "Time per output token",
            "Of streamed answers, after the first token.",
            "s",
            quantiles("time_per_output_token_seconds", "p"),
            dashed="p99",
        ),
        Panel(
            "Not answered",
            "Failed, refused and abandoned requests.",
            "reqps",
            (
                Query(
                    f'sum by (outcome) (rate({P}_requests_total{{{PAIR}, outcome!="ok"}}{RATE}))',
                    "{{outcome}}",
                ),
            ),
        ),
        Panel(
            "Accept length against break-even",
            "Tokens per speculative step. Speculation wins while that in use is above what it needs to break "
            "even at the load of now. In use: the live one, which ages towards the calibrated one while the "
            "baseline serves. Policy calibrated; with others only the live one is known.",
            "short",
            (
                Query(f"{P}_accept_length{{{PAIR}}}", "live"),
                Query(f"{P}_accept_length_in_use{{{PAIR}}}", "in use"),
                Query(f"{P}_break_even_accept_length{{{PAIR}}}", "break-even"),
            ),
            minimum=1,
            colours={"live": "purple", "in use": "green", "break-even": "red"},
            dashed="break-even",
        ),
    ),
)

DECISIONS = Dashboard(
    "spec-router-decisions",
    "spec-router: decisions",
    "Why requests took their path, what went wrong, and what switching cost.",
    (
        Panel(
            "Decisions by reason",
            "policy: the active path. Everything else is an exception and says which.",
            "reqps",
            (
                Query(
                    f"sum by (path, reason) (rate({P}_decisions_total{{{PAIR}}}{RATE})) > 0",
                    "{{path}} {{reason}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Switches by reason",
            "Changes of the active path in the last hour.",
            "short",
            (
                Query(
                    f"sum by (from, to, reason) (increase({P}_switches_total{{{PAIR}}}[1h])) > 0",
                    "{{from}} → {{to}}: {{reason}}",
                ),
            ),
        ),
        Panel(
            "N against the crossover",
            "Up to the crossover speculation is faster. Calibration: as it was measured; online: at the "
            "accept length in use, with engines as fast as now. Policy calibrated.",
            "short",
            (
                Query(f"sum by (pair) ({P}_in_flight{{{PAIR}}})", "N"),
                Query(f"{P}_crossover_estimate{{{PAIR}}}", "{{source}}"),
            ),
            colours={"N": "text", "online": "orange", "calibration": "green"},
            dashed="online|calibration",
        ),
        Panel(
            "Slower than calibrated",
            "How many times slower than calibrated each engine is. Moves the crossover. Policy calibrated.",
            "short",
            (Query(f"{P}_scale_factor{{{PAIR}}}", "{{path}}"),),
            minimum=None,
        ),
        Panel(
            "Age of the accept length",
            "Time since it was measured, which needs requests on the speculative engine. The older, the "
            "nearer is that in use to the calibrated one. Policy calibrated.",
            "s",
            (Query(f"{P}_accept_length_age_seconds{{{PAIR}}}", "age"),),
        ),
        Panel(
            "Speculation does harm",
            "Degraded: left for this reason although its engine looks healthy, and tried again later.",
            "none",
            (Query(f"{P}_degraded{{{PAIR}}}", "{{reason}}"),),
            kind="timeline",
            minimum=None,
            states={"0": ("green", "well"), "1": ("red", "degraded")},
        ),
        Panel(
            "Share of time mixed",
            "Both engines at work at once. On shared GPUs each then runs at a fraction of its speed.",
            "percentunit",
            (Query(f"rate({P}_mixed_seconds_total{{{PAIR}}}{RATE})", "mixed"),),
            maximum=1,
        ),
        Panel(
            "Tokens lost to mixing",
            "An estimate: what both engines would have generated had each been alone in that time.",
            "short",
            (Query(f"rate({P}_mixed_lost_tokens_total{{{PAIR}}}{RATE})", "tokens per second"),),
        ),
        Panel(
            "Time in each path",
            "Share of time for which the path was active.",
            "percentunit",
            (Query(f"rate({P}_active_path_seconds_total{{{PAIR}}}{RATE})", "{{path}}"),),
            stacked=True,
            maximum=1,
        ),
        Panel(
            "Drift of the counts",
            "Requests the router counts at an engine minus those the engine says it holds. Lags by a second; "
            "lastingly below zero means ghosts or other clients.",
            "short",
            (Query(f"{P}_in_flight_drift{{{PAIR}}}", "{{path}}"),),
            minimum=None,
        ),
        Panel(
            "Retries",
            "Second tries before the first byte: on the other path, or on a fresh connection.",
            "reqps",
            (
                Query(
                    f"sum by (from, to, reason) (rate({P}_retries_total{{{PAIR}}}{RATE})) > 0",
                    "{{from}} → {{to}}: {{reason}}",
                ),
            ),
        ),
        Panel(
            "Failures by kind",
            "Every failure is classified once.",
            "reqps",
            (
                Query(
                    f"sum by (path, kind) (rate({P}_failures_total{{{PAIR}}}{RATE})) > 0",
                    "{{path}} {{kind}}",
                ),
            ),
        ),
        Panel(
            "Refused by the router",
            "Requests that no engine was asked for.",
            "reqps",
            (
                Query(
                    f"sum by (reason) (rate({P}_rejected_total{{{PAIR}}}{RATE})) > 0",
                    "{{reason}}",
                ),
            ),
        ),
        Panel(
            "Wait in the queue",
            "Of requests that were let in.",
            "s",
            (
                Query(
                    "histogram_quantile(0.99, sum by (le) "
                    f"(rate({P}_queue_wait_seconds_bucket{{{PAIR}}}{RATE})))",
                    "p99",
                ),
            ),
        ),
        Panel(
            "Breaker",
            "Fed by real requests. Open lets nothing through; half open one request at a time.",
            "none",
            (Query(f"{P}_breaker_state{{{PAIR}}}", "{{path}}"),),
            kind="timeline",
            height=5,
            minimum=None,
            states={"0": ("green", "closed"), "1": ("red", "open"), "2": ("orange", "half open")},
        ),
        Panel(
            "Engine up",
            "Seen alive, and neither probes nor traffic speak against it.",
            "none",
            (Query(f"{P}_engine_up{{{PAIR}}}", "{{path}}"),),
            kind="timeline",
            height=5,
            minimum=None,
            states={"0": ("red", "down"), "1": ("green", "up")},
        ),
    ),
)


def both(metric: str, legend: str = "{{path}}") -> tuple[Query, ...]:
    """One of SGLang's own gauges, of both engines."""
    return (Query(f'max by (path) (sglang:{metric}{{job="sglang"}})', legend),)


ENGINES = Dashboard(
    "spec-router-engines",
    "spec-router: engines",
    "SGLang's own metrics of both engines side by side.",
    (
        Panel("Running requests", "In the decode batch.", "short", both("num_running_reqs")),
        Panel("Queued requests", "Waiting inside the engine.", "short", both("num_queue_reqs")),
        Panel("KV pool in use", "Share of tokens.", "percentunit", both("token_usage"), maximum=1),
        Panel(
            "Prefix cache hits", "Share of prompt tokens.", "percentunit", both("cache_hit_rate"), maximum=1
        ),
        Panel(
            "Generated tokens per second",
            "From the token counter; the engine's gauge keeps its last value when idle, so it is not shown.",
            "short",
            (
                Query(
                    'sum by (path) (rate(sglang:realtime_tokens_total{job="sglang", mode="decode"}'
                    f"{RATE}))",
                    "{{path}}",
                ),
            ),
        ),
        Panel(
            "Accept length",
            "Tokens per step; the plain engine shows 0 and is left out.",
            "short",
            (
                Query(
                    'max by (path) (sglang:spec_accept_length{job="sglang"}) > 0',
                    "{{path}}",
                ),
            ),
            minimum=1,
        ),
        Panel(
            "Time between tokens, p99",
            "As the engine measures it.",
            "s",
            (
                Query(
                    "histogram_quantile(0.99, sum by (le, path) "
                    f'(rate(sglang:inter_token_latency_seconds_bucket{{job="sglang"}}{RATE})))',
                    "{{path}}",
                ),
            ),
        ),
        Panel("Retracted requests", "Put back for want of KV memory.", "short", both("num_retracted_reqs")),
    ),
    annotate=True,
)

ALL = (NOW, DECISIONS, ENGINES)
