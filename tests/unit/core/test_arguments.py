"""Which server arguments decide the speed of an engine, how they are compared, and their hash."""

from __future__ import annotations

import hashlib

import pytest

from router.core.arguments import (
    MAX_TEXT,
    SPECULATION,
    SPEED,
    Argument,
    chosen,
    differing,
    flags_hash,
    listed,
    speculates,
)
from router.core.words import Path

SPECULATIVE, BASELINE = Path
TOLD: dict[str, object] = {
    "model_path": "/models/m",
    "port": 30000,
    "host": "0.0.0.0",
    "api_key": "SECRET",
    "random_seed": 230634441,
    "mem_fraction_static": 0.85,
    "max_total_tokens": 400_000,
    "speculative_draft_model_path": "/models/eagle",
    "tp_size": 8,
    "dtype": "auto",
    "quantization": None,
    "schedule_conservativeness": 1.0,
    "disable_radix_cache": False,
    "cuda_graph_config": {"decode": {"backend": "full", "max_bs": 256, "bs": [1, 2]}},
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
}
CHOSEN: dict[str, Argument] = {
    "tp_size": 8,
    "dtype": "auto",
    "quantization": None,
    "disable_radix_cache": False,
    "cuda_graph_config.decode.backend": "full",
    "cuda_graph_config.decode.max_bs": 256,
    "schedule_conservativeness": 1.0,
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
}


def test_what_decides_the_speed_is_kept_and_nothing_else() -> None:
    """No address, key, seed or path, and no memory, which a start chooses anew; null is a value."""
    assert chosen(TOLD) == CHOSEN
    assert chosen({}) == {}


def test_a_plain_engine_does_not_read_how_to_speculate() -> None:
    """SGLang's defaults for speculation may change between versions; a plain engine is as fast as before."""
    plain = chosen({**TOLD, "speculative_algorithm": None})
    assert plain == {name: value for name, value in CHOSEN.items() if not name.startswith("speculative_")} | {
        "speculative_algorithm": None
    }


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, float("nan"), float("inf"), "a\nb", "x" * (MAX_TEXT + 1)], ids=repr
)
def test_what_is_no_single_value_fit_for_a_log_line_is_not_known(value: object) -> None:
    assert chosen({"dtype": value}) == {}


@pytest.mark.parametrize("config", [None, 3, {}, {"decode": None}, {"decode": {"bs": [1]}}], ids=repr)
def test_a_mapping_of_another_shape_is_not_known(config: object) -> None:
    assert chosen({"cuda_graph_config": config}) == {}


@pytest.mark.parametrize(
    ("algorithm", "expected"), [("EAGLE3", True), (None, False), ("", False), ("NONE", False)]
)
def test_an_engine_speculates_if_it_names_an_algorithm(algorithm: object, expected: bool) -> None:
    assert speculates(algorithm) is expected


def test_names_stand_once() -> None:
    names = SPEED + SPECULATION
    assert len(set(names)) == len(names)


def test_the_hash_is_what_its_description_says() -> None:
    """Made again by hand from the description, so that another program can."""
    engines: dict[Path, dict[str, Argument]] = {
        BASELINE: {"tp_size": 8, "dtype": "auto"},
        SPECULATIVE: {"tp_size": 8, "speculative_adaptive": False, "quantization": None},
    }
    text = (
        '{"baseline":{"dtype":"auto","tp_size":8},'
        '"speculative":{"quantization":null,"speculative_adaptive":false,"tp_size":8}}'
    )
    assert flags_hash(engines) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_half_a_pair_has_no_hash() -> None:
    assert flags_hash({SPECULATIVE: CHOSEN}) is None
    assert flags_hash({SPECULATIVE: CHOSEN, BASELINE: {}}) is None


def test_what_only_one_knows_does_not_differ() -> None:
    made: dict[str, Argument] = {"tp_size": 8, "dtype": "auto", "gone_since": 1}
    found: dict[str, Argument] = {"tp_size": 4, "dtype": "auto", "new": True}
    assert differing(made, found) == ("tp_size",)
    assert differing({"quantization": None}, {"quantization": "fp8"}) == ("quantization",)


def test_values_are_written_in_json_s_words() -> None:
    values: dict[str, Argument] = {"a": None, "b": True, "c": "fa3", "d": 1.5, "e": 8}
    assert listed(values, ("a", "b", "c", "d", "e")) == "a null, b true, c fa3, d 1.5, e 8"
