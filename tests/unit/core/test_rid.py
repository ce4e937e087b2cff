"""The one rewrite of a body: an id in front of its other keys."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.rid import RID_LENGTH, RID_ROUTES, splice_rid
from router.core.routes import Handling, find_route

RID = b"0123456789abcdef0123456789abcdef"
KEY = b'"rid":"0123456789abcdef0123456789abcdef"'


@pytest.mark.parametrize(
    ("body", "spliced"),
    [
        (b'{"model":"m"}', b"{" + KEY + b',"model":"m"}'),
        (b' \n{ "model" : "m" }\n', b" \n{" + KEY + b', "model" : "m" }\n'),
        (b"{}", b"{" + KEY + b"}"),
        (b"{ \t\r\n}", b"{" + KEY + b" \t\r\n}"),
        (b'{"a":{}}', b"{" + KEY + b',"a":{}}'),
        ('{"é":"京"}'.encode(), b"{" + KEY + ',"é":"京"}'.encode()),
    ],
)
def test_the_id_stands_first_and_every_other_byte_as_it_was(body: bytes, spliced: bytes) -> None:
    assert splice_rid(body, RID) == spliced


@pytest.mark.parametrize("rid", [b"", RID[:-1], RID + b"0"])
def test_an_id_of_another_length_could_be_another_s_prefix_and_is_refused(rid: bytes) -> None:
    with pytest.raises(ValueError, match="a rid has 32 characters"):
        splice_rid(b"{}", rid)


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError):
        splice_rid(b"[]", RID)


def test_routes_that_take_an_id_are_proxied_ones() -> None:
    routes = [find_route(route.encode()) for route in RID_ROUTES]
    assert [route.handling for route in routes if route] == [Handling.PROXY] * 3
    assert len(RID) == RID_LENGTH


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.sampled_from([None, 2]))
def test_a_spliced_body_reads_as_the_old_one_with_the_id(body: dict[str, object], indent: int | None) -> None:
    body.pop("rid", None)
    text = json.dumps(body, indent=indent).encode()
    assert json.loads(splice_rid(text, RID)) == {"rid": RID.decode(), **body}
