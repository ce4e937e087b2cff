"""Which headers cross, in either direction."""

from __future__ import annotations

import pytest

from router.core.headers import (
    CREDENTIALS,
    HOP_BY_HOP,
    Headers,
    bearer,
    connection_options,
    header,
    request_headers,
    response_headers,
    sane_request_id,
)

KEPT: Headers = [
    (b"content-type", b"application/json"),
    (b"accept", b"*/*"),
    (b"x-many", b"1"),
    (b"x-many", b"2"),
]
ONE_HOP = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
]


def test_the_hop_by_hop_fields() -> None:
    assert sorted(HOP_BY_HOP) == ONE_HOP


@pytest.mark.parametrize(
    "name", [*ONE_HOP, b"host", b"content-length", b"expect", b"x-request-id", b"x-router-path"]
)
def test_what_is_of_this_hop_or_written_anew_does_not_reach_the_engine(name: bytes) -> None:
    assert request_headers([*KEPT[:2], (name, b"x"), *KEPT[2:]], None) == KEPT


@pytest.mark.parametrize("name", [*ONE_HOP, b"x-request-id", b"x-router-path", b"x-router-reason"])
def test_what_is_of_that_hop_or_the_router_s_own_does_not_reach_the_client(name: bytes) -> None:
    assert response_headers([*KEPT[:2], (name, b"x"), *KEPT[2:]], keep_length=True) == KEPT


@pytest.mark.parametrize(("keep_length", "length"), [(True, [(b"content-length", b"12")]), (False, [])])
def test_the_answer_s_length_crosses_only_while_it_is_true(keep_length: bool, length: Headers) -> None:
    received = [*KEPT, (b"content-length", b"12")]
    assert response_headers(received, keep_length=keep_length) == [*KEPT, *length]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([], set()),
        ([b"close"], {b"close"}),
        ([b"keep-alive, X-Drop-Me"], {b"keep-alive", b"x-drop-me"}),
        ([b"a ,\tB,c"], {b"a", b"b", b"c"}),
        ([b"a", b"b"], {b"a", b"b"}),
    ],
)
def test_options_named_by_connection(values: list[bytes], options: set[bytes]) -> None:
    received = [(b"a", b"connection"), *((b"connection", value) for value in values)]
    assert connection_options(received) == options


def test_fields_named_by_connection_cross_in_neither_direction() -> None:
    received = [(b"connection", b"keep-alive, X-Drop-Me"), (b"x-drop-me", b"1"), (b"x-drop", b"2")]
    assert request_headers(received, None) == [(b"x-drop", b"2")]
    assert request_headers(received, b"k") == [(b"x-drop", b"2"), (b"authorization", b"Bearer k")]
    assert response_headers(received, keep_length=True) == [(b"x-drop", b"2")]


CLIENT_KEYS: Headers = [(b"authorization", b"Bearer mine"), (b"x-api-key", b"mine"), (b"api-key", b"mine")]


def test_the_client_s_credentials_reach_an_engine_without_a_key_of_its_own() -> None:
    assert request_headers(CLIENT_KEYS, None) == CLIENT_KEYS


def test_an_engine_with_a_key_gets_that_one_and_no_other() -> None:
    assert {name for name, _ in CLIENT_KEYS} == CREDENTIALS
    assert request_headers([*CLIENT_KEYS, *KEPT], b"s3") == [*KEPT, (b"authorization", b"Bearer s3")]


def test_the_first_value_of_a_header() -> None:
    assert header(KEPT, b"x-many") == b"1"
    assert header(KEPT, b"x-none") is None


@pytest.mark.parametrize(
    ("value", "sane"),
    [
        (None, False),
        (b"", False),
        (b"a", True),
        (b"0d3c-7.~_:/+=@Z", True),
        (b"x" * 128, True),
        (b"x" * 129, False),
        (b"a b", False),
        (b"a\n", False),
        (b'a"', False),
        (b"a\x00", False),
        ("é".encode(), False),
    ],
)
def test_which_request_ids_of_clients_are_taken(value: bytes | None, sane: bool) -> None:
    assert sane_request_id(value) == (value if sane else None)


def test_a_key_is_shown_where_there_is_one() -> None:
    """An empty key, as an unset variable gives it, is none."""
    assert bearer("sk-1") == {"authorization": "Bearer sk-1"}
    assert bearer(None) == bearer("") == {}
