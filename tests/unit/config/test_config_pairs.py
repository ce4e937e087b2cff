"""What is said about engines that are missing, superfluous or wrongly addressed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Problems = Callable[..., list[str]]

URLS = [
    ("https://two:2", "uses https, which this version does not speak to engines, got"),
    ("two:2", "has no scheme, got"),
    ("//two:2", "has no scheme, got"),
    ("", "has no scheme, got"),
    ("ftp://two:2", "has an unknown scheme, got"),
    ("http://", "has no valid host, got"),
    ("http://:2", "has no valid host, got"),
    ("http:///v1", "has a path, got"),
    ("http://two:2/v1", "has a path, got"),
    ("http://two:2//", "has a path, got"),
    ("http://two:2?a=1", "has a query or fragment, got"),
    ("http://two:2/?", "has a query or fragment, got"),
    ("http://two:2#a", "has a query or fragment, got"),
    ("http://two:0", "has no usable port, got"),
    ("http://two:", "has no usable port, got"),
    ("http://two:65536", "is not a URL, got"),
    ("http://two:x", "is not a URL, got"),
    ("http://[::1", "is not a URL, got"),
    ("http://two words:2", "is not a URL, got"),
    ("http://zwei\\u00e9:2", "is not a URL, got"),
    ("http://two:2\\n", "is not a URL, got"),
    ("http://-two:2", "has no valid host, got"),
    ("http://u:pw@two:2", "holds a user or password (a key belongs in api_key), got"),
    ("http://one:1", "is the same as the speculative engine's, got"),
    ("http://ONE:1/", "is the same as the speculative engine's, got"),
]


@pytest.mark.parametrize(("url", "expected"), URLS)
def test_a_wrong_engine_url(problems: Problems, url: str, expected: str) -> None:
    pair = f'pairs:\n- speculative: {{url: "http://one:1"}}\n  baseline:\n    url: "{url}"\n'
    found = problems("", pair=pair)
    assert len(found) == 1, found
    assert found[0].startswith(f"c.yaml:4: pairs[0].baseline.url: {expected}")
    assert "; allowed: " in found[0]


PAIRS = [
    ("a: 1", "pairs: is missing; allowed: a list with one pair and its engines"),
    ("pairs: []", "pairs: is empty, got a list; allowed: exactly one pair"),
    ("pairs: {}", "pairs: is not a list, got a mapping; allowed: a list"),
    (
        "pairs: [5]",
        "pairs[0]: is not a mapping, got a single value; allowed: a mapping with the keys name, placement,",
    ),
    ("pairs: [{}, {}]", "pairs: holds 2 pairs, got a list; allowed: for now exactly one pair"),
    (
        "pairs: [{baseline: {url: 'http://a'}}]",
        "pairs[0].speculative: is needed by placement shared; allowed: an engine",
    ),
    (
        "pairs: [{speculative: {url: 'http://a'}, baseline: }]",
        "pairs[0].baseline: is needed by placement shared, got noth",
    ),
    (
        "pairs: [{speculative: {url: 'http://a'}, placement: separate}]",
        "pairs[0].baseline: is needed by placement separate",
    ),
    (
        "pairs: [{placement: single}]",
        'pairs[0].placement: is single, but the pair has 0 engines, got "single"; allowed: exa',
    ),
    (
        "pairs: [{placement: single, speculative: {url: 'http://a'}, baseline: {url: 'http://b'}}]",
        "pairs[0].placement: is single, but the pair has 2 engines, got",
    ),
    (
        "pairs: [{placement: both}]",
        'pairs[0].placement: is not one of the known words, got "both"; allowed: shared, separ',
    ),
    (
        "pairs: [{speculative: {}, baseline: {url: 'http://b'}}]",
        "pairs[0].speculative.url: is missing; allowed: http://HOST:",
    ),
    (
        "pairs: [{speculative: 'http://a', baseline: {url: 'http://b'}}]",
        "pairs[0].speculative: is not a mapping, got a sing",
    ),
    (
        "pairs: [{name: 'a b', speculative: {url: 'http://a'}, baseline: {url: 'http://b'}}]",
        "pairs[0].name: is not a name,",
    ),
    (
        "pairs: [{nam: a, speculative: {url: 'http://a'}, baseline: {url: 'http://b'}}]",
        "pairs[0].nam: is an unknown key, did",
    ),
]


@pytest.mark.parametrize(("text", "expected"), PAIRS, ids=[text for text, _ in PAIRS])
def test_wrong_pairs(problems: Problems, text: str, expected: str) -> None:
    found = [line.partition(" ")[2] for line in problems(text + "\n", pair="")]
    assert any(line.startswith(expected) for line in found), found
    assert len(found) == (2 if text == "a: 1" else 1), found
