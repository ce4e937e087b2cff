"""Reading what engines say."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path as FilePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.control.parse import Gauges, Loads, read_gauges, read_identity, read_loads
from router.core.arguments import SPECULATION, SPEED
from router.core.identity import Identity

LABELS = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"'


def _loads(*ranks: dict[str, object]) -> bytes:
    return json.dumps({"loads": ranks}).encode()


def test_ranks_are_summed_and_their_usage_averaged() -> None:
    rank: dict[str, object] = {
        "num_running_reqs": 3,
        "num_waiting_reqs": 1,
        "token_usage": 0.25,
        "gen_throughput": 10.0,
    }
    assert read_loads(_loads(rank)) == Loads(3, 1, 0.25, 10.0)
    assert read_loads(_loads(rank, {**rank, "token_usage": 0.75})) == Loads(6, 2, 0.5, 20.0)


def test_a_rank_that_does_not_tell_makes_the_sum_unknown() -> None:
    assert read_loads(
        _loads({"num_running_reqs": 3, "num_waiting_reqs": 0}, {"num_running_reqs": 1})
    ) == Loads(4)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b'{"loads": null}',
        b'{"loads": []}',
        b'{"loads": [3]}',
        b'{"loads": [{"num_running_reqs": "3", "num_waiting_reqs": true, "token_usage": NaN}]}',
        b"[" * 100_000,
    ],
)
def test_nonsense_is_unknown(body: bytes) -> None:
    assert read_loads(body) == Loads()
    assert read_identity(body) is None
    assert read_gauges(body) == Gauges()


SERVER_INFO = {
    "served_model_name": "m",
    "model_path": "/models/m",
    "version": "0.5.23",
    "context_length": 4096,
    "max_total_num_tokens": 16384,
    "max_req_input_len": 4090,
    "max_running_requests": None,
    "speculative_algorithm": "EAGLE3",
    "speculative_adaptive": False,
    "speculative_draft_model_path": "/models/m-eagle3",
    "internal_states": [{"effective_max_running_requests_per_dp": 48}],
    "api_key": "SECRET",
    "admin_api_key": "SECRET",
    "launch_command": "sglang serve --api-key SECRET",
}


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ({}, {}),
        ({"speculative_algorithm": None}, {"speculative": False}),
        ({"speculative_adaptive": "yes"}, {"adaptive": None}),
        ({"speculative_draft_model_path": "someone/m-eagle3"}, {}),
        ({"speculative_draft_model_path": "/elsewhere/m-eagle3/"}, {}),
        ({"speculative_draft_model_path": "m-other"}, {"draft": "m-other"}),
        ({"speculative_draft_model_path": None}, {"draft": None}),
        ({"speculative_draft_model_path": "/"}, {"draft": None}),
        ({"speculative_draft_model_path": 3}, {"draft": None}),
        ({"served_model_name": None}, {"model": "/models/m"}),
        ({"served_model_name": "a\nb", "model_path": "x" * 257}, {"model": None}),
        (
            {"context_length": None, "max_total_num_tokens": 0},
            {"context_length": None, "max_total_num_tokens": None},
        ),
        ({"max_req_input_len": float("nan"), "version": 5}, {"max_req_input_len": None, "version": None}),
        ({"internal_states": None, "max_running_requests": 256}, {"max_running_requests": 256}),
        ({"internal_states": [{}, 3], "max_running_requests": 256}, {"max_running_requests": 256}),
        (
            {"internal_states": [{"effective_max_running_requests_per_dp": 48}] * 2},
            {"max_running_requests": 96},
        ),
    ],
)
def test_what_an_engine_is_comes_without_its_secrets(
    said: dict[str, object], changes: dict[str, object]
) -> None:
    found = read_identity(json.dumps({**SERVER_INFO, **said}).encode())
    right = Identity(True, False, "m", "0.5.23", 4096, 16384, 4090, 48, "m-eagle3")
    assert found is not None
    assert replace(found, arguments={}) == replace(right, **changes)  # type: ignore[arg-type]
    assert "SECRET" not in repr(found)


def test_the_arguments_that_decide_the_speed_come_with_it() -> None:
    found = read_identity(json.dumps({**SERVER_INFO, "tp_size": 8}).encode())
    assert found is not None
    assert found.arguments == {
        "tp_size": 8,
        "max_running_requests": None,
        "speculative_algorithm": "EAGLE3",
        "speculative_adaptive": False,
    }


@pytest.mark.skipif("SPEC_ROUTER_SHARED" not in os.environ, reason="no recordings of real engines")
def test_what_engines_of_0_5_16_told() -> None:
    """Recorded from two engines on one H200; what 0.5.23 alone knows is left out, nothing else."""
    folder = FilePath(os.environ["SPEC_ROUTER_SHARED"]) / "engines/h200/results"
    fast, plain = (read_identity((folder / f"{name}_server_info.json").read_bytes()) for name in ("we", "wb"))
    assert fast is not None
    assert plain is not None
    assert (fast.draft, plain.draft, fast.version) == ("dr_wide", None, "0.5.16")
    newer = {"speculative_use_block_verification", "speculative_draft_kv_cache_dtype"}
    assert set(fast.arguments) == set(SPEED + SPECULATION) - newer
    assert set(plain.arguments) == set(SPEED)
    assert fast.arguments["cuda_graph_config.decode.max_bs"] == 256


def test_an_engine_that_does_not_say_whether_it_speculates_may_do_either() -> None:
    found = read_identity(b'{"version": "0.5.16"}')
    assert found == Identity(version="0.5.16")
    assert read_identity(b'{"api_key": "SECRET"}') is None


def test_the_age_of_the_numbers_is_that_of_the_oldest_rank() -> None:
    assert read_loads(_loads({"timestamp": 3.5}, {"timestamp": 2.5})).stamp == 2.5
    assert read_loads(_loads({"timestamp": 3.5}, {})).stamp is None


def test_tokens_are_those_decoded_so_far_else_those_of_ended_requests() -> None:
    ended = f"sglang:generation_tokens_total{{{LABELS}}} 100.0\n"
    running = (
        f'sglang:realtime_tokens_total{{mode="prefill_compute",{LABELS}}} 7000.0\n'
        f'sglang:realtime_tokens_total{{mode="decode",{LABELS}}} 140.0\n'
    )
    assert read_gauges(ended.encode()).generation_tokens == 100
    assert read_gauges((ended + running).encode()).generation_tokens == 140
    assert read_gauges(ended.encode()).prefilled_tokens is None
    assert read_gauges((ended + running).encode()).prefilled_tokens == 7000


def test_ranks_that_repeat_a_number_are_counted_once_and_data_parallel_ones_summed() -> None:
    text = "".join(
        f'sglang:generation_tokens_total{{dp_rank="{dp}",tp_rank="{tp}"}} {100 + dp}\n'
        for dp in (0, 1)
        for tp in (0, 1, 2, 3)
    )
    assert read_gauges(text.encode()).generation_tokens == 201


def test_priorities_beside_their_sum_are_not_counted_again() -> None:
    text = (
        'sglang:generation_tokens_total{priority=""} 30\n'
        'sglang:generation_tokens_total{priority="1"} 10\n'
        'sglang:generation_tokens_total{priority="2"} 20\n'
    )
    assert read_gauges(text.encode()).generation_tokens == 30


@pytest.mark.parametrize(
    ("line", "length"),
    [
        (f"sglang:spec_accept_length{{{LABELS}}} 1.7950819672131149", 1.7950819672131149),
        ("sglang:spec_accept_length 2.5", 2.5),
        ("sglang:spec_accept_length 2.5 1795964232000", 2.5),
        (f"sglang:spec_accept_length{{{LABELS}}} 0.0", None),
        ("sglang:spec_accept_length NaN", None),
        ("sglang:spec_accept_length +Inf", None),
        ("sglang:spec_accept_length two", None),
        ("sglang:spec_accept_length", None),
        ("sglang:spec_accept_length_total 3", None),
        ("# HELP sglang:spec_accept_length 3", None),
        ("xsglang:spec_accept_length 3", None),
        ('sglang:spec_accept_length{model_name="a b} 9 \\"c"} 2.5', 2.5),
    ],
)
def test_the_accept_length_line(line: str, length: float | None) -> None:
    text = f"# TYPE sglang:spec_accept_length gauge\n{line}\nsglang:other 1.0\n"
    assert read_gauges(text.encode()).accept_length == length
    assert read_gauges(text.encode().replace(b"\n", b"\r\n")).accept_length == length


def test_the_accept_length_is_the_mean_of_the_ranks_that_decode() -> None:
    text = "".join(f'sglang:spec_accept_length{{dp_rank="{dp}"}} {dp}.0\n' for dp in range(4))
    assert read_gauges(text.encode()).accept_length == 2.0


def test_a_long_scrape_is_read_fast() -> None:
    noise = "".join(f'sglang:ttft_bucket{{le="{n}",{LABELS}}} {n}.0\n' for n in range(9000))
    text = (noise + 'sglang:realtime_tokens_total{mode="decode"} 5\n' + noise[: 100 << 10]).encode()
    began = time.perf_counter()
    assert read_gauges(text).generation_tokens == 5
    assert time.perf_counter() - began < 0.1


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"sglang:realtime_tokens_total", b"sglang:spec_accept_length"]),
)
def test_nothing_an_engine_sends_raises(noise: bytes, start: bytes) -> None:
    body = start + noise
    read_loads(body)
    read_identity(body)
    read_gauges(body)
