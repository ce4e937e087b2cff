"""The key of a calibration: the same engines have the same, and what decides their speed is never missed."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from router.control.parse import read_identity
from router.core.arguments import SPECULATION, SPEED
from router.core.calibration import Key, mismatches
from router.core.identity import Identity, key_of
from router.core.words import Path, Placement

FLAT = tuple(name for name in SPEED if "." not in name and name != "speculative_algorithm")
VALUES = st.none() | st.booleans() | st.integers(-1, 9) | st.text("abc", max_size=3)
# What an operator may change without making another engine, and arguments that no version has yet.
IRRELEVANT = (
    *("host", "port", "nccl_port", "api_key", "admin_api_key", "random_seed", "mem_fraction_static"),
    *("max_total_tokens", "model_path", "tokenizer_path", "log_level", "launch_command", "startup_time"),
    *("some_new_argument", "status", "enable_metrics", "download_dir"),
)
servers = st.dictionaries(st.sampled_from(FLAT + SPECULATION), VALUES, min_size=1).map(
    lambda told: {"served_model_name": "m", "version": "0.5.23", "speculative_algorithm": "EAGLE3", **told}
)
noise = st.dictionaries(st.sampled_from(IRRELEVANT), VALUES)


def identity(told: dict[str, object]) -> Identity:
    found = read_identity(json.dumps(told).encode())
    assert found is not None
    return found


def key(fast: dict[str, object], plain: dict[str, object]) -> Key:
    plain = {**plain, "speculative_algorithm": None}
    return key_of(identity(fast), identity(plain), Placement.SHARED)


@given(servers, servers, noise, noise, st.randoms(use_true_random=False))
def test_neither_order_nor_what_does_not_decide_the_speed_makes_another_key(
    fast: dict[str, object],
    plain: dict[str, object],
    more: dict[str, object],
    other: dict[str, object],
    chance: random.Random,
) -> None:
    def shuffled(told: dict[str, object]) -> dict[str, object]:
        items = list(told.items())
        chance.shuffle(items)
        return dict(items)

    one, again = key(fast, plain), key(shuffled({**more, **fast}), shuffled({**other, **plain}))
    assert one == again
    assert one.flags == again.flags
    assert mismatches(one, again) == ()


@given(servers, servers, st.sampled_from(FLAT), st.sampled_from(Path), VALUES, VALUES)
def test_one_argument_that_differs_is_named_with_its_engine_and_makes_another_hash(
    fast: dict[str, object], plain: dict[str, object], name: str, path: Path, before: object, after: object
) -> None:
    engines = {Path.SPECULATIVE: fast, Path.BASELINE: plain}

    def made(value: object) -> Key:
        changed = {**engines, path: {**engines[path], name: value}}
        return key(changed[Path.SPECULATIVE], changed[Path.BASELINE])

    one, other = made(before), made(after)
    found = mismatches(one, other)
    if before == after:
        assert found == ()
    else:
        (reason,) = found
        assert reason.startswith(f"its {path} engine had {name} ")
        assert one.flags != other.flags


@given(servers, servers, servers, servers)
def test_keys_differ_by_value_exactly_where_their_known_values_do(
    fast: dict[str, object],
    plain: dict[str, object],
    fast_now: dict[str, object],
    plain_now: dict[str, object],
) -> None:
    """What only one of two versions of SGLang knows is no difference, whichever of them made the file."""
    one, other = key(fast, plain), key(fast_now, plain_now)
    differ = any(
        one.arguments[path][name] != other.arguments[path][name]
        for path in Path
        for name in one.arguments[path].keys() & other.arguments[path].keys()
    )
    assert bool(mismatches(one, other)) is bool(mismatches(other, one)) is differ
