"""What crosses the router's border: header fields and request targets."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote_to_bytes

from hypothesis import example, given
from hypothesis import strategies as st

from router.core.headers import (
    CREDENTIALS,
    HOP_BY_HOP,
    Headers,
    connection_options,
    request_headers,
    response_headers,
    sane_request_id,
)
from router.core.routes import ROUTES, find_route

OWN = [b"host", b"content-length", b"expect", b"x-request-id", b"x-router-path", b"x-router-reason"]
OTHERS = [b"accept", b"content-type", b"cookie", b"x-a", b"x-b", b"x-c", b"server", b"date"]
names = st.sampled_from([*sorted(HOP_BY_HOP), *OWN, *sorted(CREDENTIALS), *OTHERS])
option_lists = st.lists(
    st.sampled_from([b"close", b"X-A", b"x-b", b" X-C ", b"Keep-Alive", b"", b"Cookie"])
).map(b",".join)
fields = st.one_of(
    st.tuples(names, st.binary(max_size=4)),
    st.tuples(st.just(b"connection"), option_lists),
)
received_fields = st.lists(fields, max_size=12)


def is_in_order_within(part: Headers, whole: Headers) -> bool:
    rest = iter(whole)
    return all(each in rest for each in part)


@given(received_fields, st.none() | st.binary(min_size=1, max_size=8))
def test_a_request_keeps_what_is_not_of_this_hop_and_nothing_else(
    received: Headers, key: bytes | None
) -> None:
    sent = request_headers(received, key)
    if key is not None:
        assert sent.pop() == (b"authorization", b"Bearer " + key)
    forbidden = HOP_BY_HOP | set(OWN[:-1]) | connection_options(received) | (CREDENTIALS if key else set())
    assert not forbidden & {name for name, _ in sent}
    assert is_in_order_within(sent, received)
    assert len(sent) == sum(name not in forbidden for name, _ in received)


@given(received_fields, st.booleans())
def test_a_response_keeps_what_is_not_of_that_hop_and_nothing_else(
    received: Headers, keep_length: bool
) -> None:
    sent = response_headers(received, keep_length=keep_length)
    forbidden = HOP_BY_HOP | connection_options(received)
    forbidden |= {b"x-request-id", b"x-router-path", b"x-router-reason"}
    if not keep_length:
        forbidden |= {b"content-length"}
    assert not forbidden & {name for name, _ in sent}
    assert is_in_order_within(sent, received)
    assert len(sent) == sum(name not in forbidden for name, _ in received)


@given(st.binary(max_size=140))
def test_a_request_id_that_is_taken_can_stand_in_a_header_and_a_log_line(value: bytes) -> None:
    taken = sane_request_id(value)
    if taken is not None:
        assert taken == value
        assert 0 < len(taken) <= 128
        assert all(0x21 <= byte <= 0x7E for byte in taken)
        assert not set(taken) & set(b"\"'\\<>{}&;")


STEPS = [
    "/", "//", ".", "..", "%2e", "%2E%2e", "%252e", "%2f", ";", "?", "#", "\\", " ", "\x00", "é",
    "v1", "models", "/v1/models/", "a", "generate", "flush_cache", "metrics", "http://x", "health",
]  # fmt: skip
targets = st.lists(st.sampled_from(STEPS), max_size=8).map(lambda steps: "".join(steps).encode())


@given(st.one_of(targets, targets.map(lambda tail: b"/v1/models/" + tail), st.binary(max_size=20)))
@example(b"/v1/models/a")
def test_a_target_that_is_served_can_be_read_in_one_way_only(raw: bytes) -> None:
    route = find_route(raw)
    if route is None:
        return
    assert route.target == raw
    assert unquote_to_bytes(raw) == raw
    assert posixpath.normpath(raw) == raw
    assert not set(raw) & set(b"?#;\\ \x00")
    assert raw in ROUTES or raw.startswith(b"/v1/models/")
    assert route.method == "GET" or raw in ROUTES


@given(st.sampled_from(sorted(ROUTES)), st.integers(0, 60), st.binary(min_size=1, max_size=3))
def test_one_foreign_byte_makes_another_route(path: bytes, at: int, added: bytes) -> None:
    changed = path[:at] + added + path[at:]
    route = find_route(changed)
    assert route is None or (changed in ROUTES) or changed.startswith(b"/v1/models/")
    assert route is None or route.target == changed
