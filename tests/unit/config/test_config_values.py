"""Every wrong value gets one line that names the place, the value and what is allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Problems = Callable[..., list[str]]

A_PORT = "a whole number from 0 to 65535"
A_COUNT = "a whole number from 1 to 1000000000"
A_DURATION = "a duration such as 250ms, 10s, 5m or 1h, or a number of seconds"
A_SIZE = "a size such as 100B, 512KiB, 64MiB or 1GiB, or a whole number of bytes"
A_HOST = "a host name or an IP address, without scheme, port or brackets"
A_BOOL = "true, false"

VALUES = [
    # unknown keys
    ("sever: {}", "sever: is an unknown key, did you mean server?"),
    ("server: {prot: 1}", "server.prot: is an unknown key, did you mean port?"),
    ("server: {Port: 1}", "server.Port: is an unknown key, did you mean port?"),
    ("health: {deep: {intervall: 1s}}", "health.deep.intervall: is an unknown key, did you mean interval?"),
    ("high: 9", "high: is an unknown key, did you mean policy.high?"),
    ("retry: {zzz: 1}", "retry.zzz: is an unknown key; allowed: other_path"),
    ('retry: {"a\\nb": 1}', "retry.a\\nb: is an unknown key; allowed: other_path"),
    ("<<: {retry: {}}", "<<: is an unknown key; allowed: server, admin, pairs, "),
    # calibrations
    ("policy: {kind: calibrated}", "policy.calibration: is needed by policy.kind calibrated"),
    ("policy: {calibration: a.yaml}", "policy.calibration: has no meaning with policy.kind threshold"),
    (
        "policy: {kind: calibrated, calibration: a.yaml, path: baseline}",
        "policy.path: has no meaning with policy.kind calibrated",
    ),
    ("policy: {shadow: {kind: pinned}}", "policy.shadow.path: is needed by policy.kind pinned"),
    ("policy: {shadow: {shadow: null}}", "policy.shadow.shadow: is an unknown key"),
    # rules
    ("routing: {rules: min_p}", 'routing.rules: is not a list, got "min_p"'),
    ("routing: {rules: [{field: a, when: present}]}", "routing.rules[0].path: is missing"),
    (
        "routing: {rules: [{field: a, when: present, path: baseline, paht: x}]}",
        "routing.rules[0].paht: is an unknown key, did you mean path?",
    ),
    (
        "routing: {rules: [{field: a..b, when: true, path: baseline}]}",
        'routing.rules[0].field: is not a field of a request body, got "a..b"; allowed: the keys from',
    ),
    (
        "routing: {rules: [{field: a, when: above, path: baseline}]}",
        'routing.rules[0].when: is not a condition, got "above"; allowed: present, true, or ">" and a number',
    ),
    (
        "routing: {rules: [{field: a, when: '> x', path: baseline}]}",
        'routing.rules[0].when: is not a condition, got "> x"',
    ),
    (
        "routing: {rules: [{field: a, when: true, path: fast}]}",
        'routing.rules[0].path: is not one of the known words, got "fast"; allowed: speculative, baseline',
    ),
    # types
    ('server: {port: "10"}', f'server.port: is not a whole number, got "10"; allowed: {A_PORT}'),
    ("server: {port: 80.0}", f"server.port: is not a whole number, got 80.0; allowed: {A_PORT}"),
    ("server: {port: true}", f"server.port: is not a whole number, got true; allowed: {A_PORT}"),
    ("server: {port: null}", f"server.port: is not a whole number, got nothing (null); allowed: {A_PORT}"),
    ("server: {port: [1]}", f"server.port: is not a whole number, got a list; allowed: {A_PORT}"),
    ("server: {port: {a: 1}}", f"server.port: is not a whole number, got a mapping; allowed: {A_PORT}"),
    ("server: {port: 080}", f'server.port: is not a whole number, got "080"; allowed: {A_PORT}'),
    ("server: {port: 0x50}", f'server.port: is not a whole number, got "0x50"; allowed: {A_PORT}'),
    ("server: {port: 8_000}", f'server.port: is not a whole number, got "8_000"; allowed: {A_PORT}'),
    ("server: {port: 80:80}", f'server.port: is not a whole number, got "80:80"; allowed: {A_PORT}'),
    ("server: {port: -1}", f"server.port: is out of range, got -1; allowed: {A_PORT}"),
    ("server: {port: 65536}", f"server.port: is out of range, got 65536; allowed: {A_PORT}"),
    ("server: {max_active: 0}", f"server.max_active: is out of range, got 0; allowed: {A_COUNT}"),
    ("server: {max_active: .inf}", f"server.max_active: is not a whole number, got inf; allowed: {A_COUNT}"),
    ("server: {max_active: yes}", f'server.max_active: is not a whole number, got "yes"; allowed: {A_COUNT}'),
    (
        "server: {queue_size: -1}",
        "server.queue_size: is out of range, got -1; allowed: a whole number from 0 to",
    ),
    ("engine: {inject_rid: yes}", f'engine.inject_rid: is not a truth value, got "yes"; allowed: {A_BOOL}'),
    ("engine: {inject_rid: 1}", f"engine.inject_rid: is not a truth value, got 1; allowed: {A_BOOL}"),
    (
        "log: {level: off}",
        'log.level: is not one of the known words, got "off"; allowed: debug, info, warning, error',
    ),
    ("log: {level: INFO}", 'log.level: is not one of the known words, got "INFO"; allowed: debug, info,'),
    ("log: {format: []}", "log.format: is not one of the known words, got a list; allowed: auto, text, json"),
    ("server: {host: 1}", f"server.host: is not text (put quotes around it), got 1; allowed: {A_HOST}"),
    ("server: {api_keys: 5}", "server.api_keys: is not a list, got **********; allowed: a list: [a, b], or"),
    (
        "server: {api_keys_file: 5}",
        "server.api_keys_file: is not text (put quotes around it), got 5; allowed: the",
    ),
    (
        "server: 5",
        "server: is not a mapping, got a single value; allowed: a mapping with the keys host, port,",
    ),
    ("server: []", "server: is not a mapping, got a list; allowed: a mapping with the keys host, port,"),
    ("server:", "server: is empty; allowed: a mapping with the keys host, port,"),
    # durations and sizes
    ("policy: {dwell: 10}\nretry: {a: 1}", "retry.a: is an unknown key"),
    ('policy: {dwell: "10"}', f'policy.dwell: is not a duration, got "10"; allowed: {A_DURATION}'),
    ("policy: {dwell: 10d}", f'policy.dwell: has the unknown unit d, got "10d"; allowed: {A_DURATION}'),
    ("policy: {dwell: -1s}", f'policy.dwell: is not a duration, got "-1s"; allowed: {A_DURATION}'),
    (
        "policy: {dwell: -1}",
        f"policy.dwell: is not a duration between 0s and 8760h, got -1; allowed: {A_DURATION}",
    ),
    ("policy: {dwell: inf}", f'policy.dwell: is not a duration, got "inf"; allowed: {A_DURATION}'),
    (
        "policy: {dwell: .inf}",
        f"policy.dwell: is not a duration between 0s and 8760h, got inf; allowed: {A_DURATION}",
    ),
    (
        "policy: {dwell: .nan}",
        f"policy.dwell: is not a duration between 0s and 8760h, got nan; allowed: {A_DURATION}",
    ),
    ("policy: {dwell: yes}", f'policy.dwell: is not a duration, got "yes"; allowed: {A_DURATION}'),
    ("policy: {dwell: true}", f"policy.dwell: is not a duration, got true; allowed: {A_DURATION}"),
    (
        "server: {queue_timeout: 0s}",
        f'server.queue_timeout: must be more than zero, got "0s"; allowed: {A_DURATION}',
    ),
    (
        "health: {ready: {interval: 0}}",
        f"health.ready.interval: must be more than zero, got 0; allowed: {A_DURATION}",
    ),
    ("server: {max_body: 64MB}", f'server.max_body: has the unknown unit MB, got "64MB"; allowed: {A_SIZE}'),
    ("server: {max_body: 0}", f"server.max_body: must be more than zero, got 0; allowed: {A_SIZE}"),
    ("server: {max_body: 1.5}", f"server.max_body: is not a size, got 1.5; allowed: {A_SIZE}"),
    (
        'server: {api_keys_file: "a\\0"}',
        'server.api_keys_file: holds a zero byte, got "a\\x00"; allowed: the path of a file, or null',
    ),
    # agreement between keys
    (
        "policy: {high: 3, low: 8}",
        "policy.low: is not below policy.high (3), got 8; allowed: 0 < low < high: from 1 to 2",
    ),
    (
        "policy: {high: 4, low: 4}",
        "policy.low: is not below policy.high (4), got 4; allowed: 0 < low < high: from 1 to 3",
    ),
    (
        "policy: {high: 2}",
        "policy.low: is not below policy.high (2), got the default 3; allowed: 0 < low < high",
    ),
    ("policy: {low: 0}", f"policy.low: is out of range, got 0; allowed: {A_COUNT}"),
    ("policy: {high: 1}", "policy.high: is out of range, got 1; allowed: a whole number from 2 to"),
    (
        "policy: {kind: pinned}",
        "policy.path: is needed by policy.kind pinned, got the default nothing (null); allowed: spec",
    ),
    (
        "policy: {path: baseline}",
        'policy.path: has no meaning with policy.kind threshold, got "baseline"; allowed: null, or policy',
    ),
    (
        "policy: {kind: pinned, path: fast}",
        'policy.path: is not one of the known words, got "fast"; allowed: speculative, ',
    ),
    (
        "retry: {other_path: 2}",
        "retry.other_path: is out of range, got 2; allowed: a whole number from 0 to 1",
    ),
    (
        "server: {max_body: 2GiB}",
        "server.body_memory: of 1GiB could never hold a body of server.max_body, got the default",
    ),
    (
        "admin: {port: 8000, host: localhost}",
        "admin.port: is also server.port, on the same host, got 8000; allowed: two dif",
    ),
    (
        "server: {port: 29000, host: 127.0.0.1}",
        "admin.port: is also server.port, on the same host; allowed: two different ports",
    ),
    (
        "admin: {host: 0.0.0.0}",
        "admin.token: is needed because admin.host 0.0.0.0 can be reached from other machines; allowed:",
    ),
    (
        "admin: {host: router.example, token: ''}",
        "admin.token: is needed because admin.host router.example can be reached",
    ),
    # hosts
    ("server: {host: ''}", f'server.host: is not a host, got ""; allowed: {A_HOST}'),
    ("server: {host: 'http://a'}", f'server.host: is not a host, got "http://a"; allowed: {A_HOST}'),
    ("server: {host: '[::1]'}", f'server.host: is not a host, got "[::1]"; allowed: {A_HOST}'),
    ("server: {host: 10.0.0.256}", f'server.host: is not a host, got "10.0.0.256"; allowed: {A_HOST}'),
    (
        "admin: {allowed_hosts: ['a:1']}",
        f'admin.allowed_hosts[0]: is not a host, got "a:1"; allowed: {A_HOST}',
    ),
    # keys of clients
    ("server: {api_keys: ['']}", "server.api_keys[0]: is empty"),
    (
        "server: {api_keys: [null]}",
        "server.api_keys[0]: is not text (put quotes around it), got nothing (null)",
    ),
    (
        "server: {api_keys: [good, 12345]}",
        "server.api_keys[1]: is not text (put quotes around it), got **********",
    ),
    (
        "server: {api_keys: ['a b']}",
        "server.api_keys[0]: is not a usable key, got **********; allowed: text of visible",
    ),
    (
        "server: {api_keys: ['sha256:12']}",
        "server.api_keys[0]: is not a digest, got **********; allowed: sha256: followed by 64",
    ),
]


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[text for text, _ in VALUES])
def test_a_wrong_value_is_one_problem(problems: Problems, text: str, expected: str) -> None:
    found = problems(text + "\n")
    assert len(found) == 1, found
    place, _, rest = found[0].partition(" ")
    assert place.startswith("c.yaml:")
    assert place[len("c.yaml:") : -1].isdigit()
    assert rest.startswith(expected)


def test_all_problems_are_told_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    text = (
        "server:\n  port: x\n  port: 1\n  max_body: ${NOT_SET}\n"
        "admin: {host: 0.0.0.0}\n"
        "policy: {high: 2, dwell: 1x}\n"
        "routing: {rules: 3}\n"
    )
    places = [line.split(" ")[:2] for line in problems(text)]
    assert places == [
        ["c.yaml:2:", "server.port:"],
        ["c.yaml:3:", "server.port:"],
        ["c.yaml:4:", "server.max_body:"],
        ["c.yaml:5:", "admin.token:"],
        ["c.yaml:6:", "policy.dwell:"],
        ["c.yaml:6:", "policy.low:"],
        ["c.yaml:7:", "routing.rules:"],
    ]


def test_no_words_of_the_validating_library_reach_the_operator(problems: Problems) -> None:
    everything = "\n".join(line for text, _ in VALUES for line in problems(text + "\n"))
    for word in (
        "pydantic",
        "http://errors",
        "https://errors",
        "type=",
        "validation",
        "Input should",
        "NoneType",
    ):
        assert word not in everything


def test_a_long_value_is_cut(problems: Problems) -> None:
    (line,) = problems(f"log: {{level: {'x' * 5000}}}\n")
    assert f'got "{"x" * 60}…"' in line
    assert len(line) < 300
