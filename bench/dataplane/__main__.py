"""Measure the data path in pairs of runs: ours, the peer, ours, the peer."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence

from bench.dataplane.figures import BrokenRunError, Measurer, Values
from bench.dataplane.goals import judge, table
from bench.dataplane.processes import Cores, Proxy, engines, sglang_router, spec_router, two_cores
from bench.dataplane.tools import ToolError, Tools, make_tools

EPILOG = """\
The proxies share one core; engine and load client have another. Read the ratios: they are of CPU time in
runs that follow each other. On a busy machine run it under `chrt -r 1`, or chunks pile up behind the work of
others and are passed on in heaps. All traffic goes to one engine: the thresholds are so high that nothing
switches. Everything else is as delivered: usage, metrics, logs, probes.
"""

FIGURES: dict[str, Callable[[Measurer, Proxy], Values]] = {
    "streams": Measurer.open_streams,
    "chunks": Measurer.chunks,
    "requests": Measurer.requests,
    "ttft": Measurer.ttft,
    "bodies": Measurer.bodies,
    "single": Measurer.single_stream,
    "idle": Measurer.idle,
}


def main() -> int:
    """Run; 0: all goals reached, 1: not, 2: not measured."""
    arguments = _parser().parse_args()
    pairs_wanted = arguments.pairs or (1 if arguments.quick else 3)
    try:
        cores, tools = two_cores(), make_tools(with_peer=not arguments.no_peer)
        pairs = measure(tools, cores, arguments.only, pairs_wanted, 0.5 if arguments.quick else 1.0)
    except (ToolError, BrokenRunError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    rows = judge(pairs)
    if arguments.json:
        print(json.dumps({"rows": [dataclasses.asdict(row) for row in rows], "pairs": pairs}, indent=1))
    else:
        print(table(rows))
    return 1 if any(row.ok is False for row in rows) else 0


def measure(
    tools: Tools, cores: Cores, only: Sequence[str], pairs: int, scale: float
) -> list[dict[str, Values]]:
    """The figures of each pair of runs, by proxy."""
    found: list[dict[str, Values]] = []
    with engines(tools, cores) as ports:
        measurer = Measurer(tools, cores, ports[0], scale)
        for number in range(1, pairs + 1):
            with contextlib.ExitStack() as stack:
                proxies = [stack.enter_context(spec_router(ports, cores))]
                if tools.peer_python is not None:
                    proxies.append(stack.enter_context(sglang_router(tools, ports, cores)))
                pair: dict[str, Values] = {proxy.name: {} for proxy in proxies}
                for name in only:
                    for proxy in proxies:
                        print(f"pair {number} of {pairs}: {name}, {proxy.name}", file=sys.stderr)
                        pair[proxy.name] |= FIGURES[name](measurer, proxy)
                found.append(pair)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.dataplane", description=__doc__, epilog=EPILOG)
    parser.add_argument("--pairs", type=int, metavar="N", help="pairs of runs (3; with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="one pair with half the load: a minute")
    parser.add_argument("--no-peer", action="store_true", help="measure only our router")
    parser.add_argument("--only", nargs="+", choices=tuple(FIGURES), default=tuple(FIGURES), metavar="FIGURE")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
