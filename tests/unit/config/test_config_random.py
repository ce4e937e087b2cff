"""Whatever a file holds, it loads or there is a ConfigError; nothing else comes out."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from router.config import Config, ConfigError, load_config, resolved

_SHIPPED = yaml.safe_load((Path(__file__).parents[3] / "config.yaml").read_text())
_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _known_keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_known_keys(inner) for inner in value.values()))
    return set().union(*(_known_keys(inner) for inner in value)) if isinstance(value, list) else set()


_keys = st.sampled_from(sorted(_known_keys(_SHIPPED))) | st.text(max_size=6)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        ["10s", "64MiB", "${A}", "${B:-7}", "${", "http://a:1", "http://b", "pinned", "baseline", "single"]
    )
    | st.dates()
    | st.binary(max_size=4)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys | st.integers(), inner, max_size=4),
    max_leaves=12,
)


def _mappings(value: object) -> list[dict[object, object]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict) else []
    return [*own, *(mapping for part in inner for mapping in _mappings(part))]


@st.composite
def _bent(draw: st.DrawFn) -> object:
    """The shipped configuration with one to three values replaced, added or taken away."""
    whole = copy.deepcopy(_SHIPPED)
    for _ in range(draw(st.integers(1, 3))):
        section = draw(st.sampled_from(_mappings(whole)))
        key = draw(st.sampled_from([*section, "other"]))
        if draw(st.booleans()):
            section.pop(key, None)
        else:
            section[key] = draw(_values)
    return whole


def _outcome(path: Path, data: bytes) -> Config | None:
    path.write_bytes(data)
    wrong, config = None, None
    try:
        config = load_config(path, {"A": "12"})
    except ConfigError as error:
        wrong = error
    if config is not None:
        resolved(config)
    if wrong is not None:
        assert wrong.problems
        assert len(str(wrong).split("\n")) == len(wrong.problems)
        str(wrong).encode()
    return config


@_SETTINGS
@given(value=_values)
def test_random_values(tmp_path: Path, value: object) -> None:
    _outcome(tmp_path / "c.yaml", yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass"))


@_SETTINGS
@given(value=_bent())
def test_nearly_right_files(tmp_path: Path, value: object) -> None:
    _outcome(tmp_path / "c.yaml", yaml.safe_dump(value).encode())


@_SETTINGS
@given(
    data=st.binary(max_size=60)
    | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#?,\n\t ${}\\Ux0", max_size=40).map(str.encode)
)
@example(data=b'"\\ud800": 1')
@example(data=b'retry: {other_path: "\\ud800"}')
@example(data=b"server: {port: " + b"9" * 5000 + b"}")
@example(data=b"server: {max_body: " + b"9" * 90 + b"}")
@example(data=b"policy: {dwell: 1e999}")
@example(data=b"policy: {kind: {a: []}}")
def test_random_text(tmp_path: Path, data: bytes) -> None:
    _outcome(tmp_path / "c.yaml", data)


@pytest.mark.parametrize("key", sorted(_SHIPPED))
def test_each_section_may_be_anything_wrong(tmp_path: Path, key: str) -> None:
    for wrong in (None, 1, "x", True, [], [1], {"x": 1}, {}, [{}]):
        config = _outcome(tmp_path / "c.yaml", yaml.safe_dump({**_SHIPPED, key: wrong}).encode())
        right = wrong is None if key == "launch" else wrong == {} and key != "pairs"
        assert (config is not None) == right
