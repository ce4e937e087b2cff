"""The allow-list of the data port."""

from __future__ import annotations

import pytest

from router.core.routes import ROUTES, Handling, Route, find_route

SERVED = {
    Handling.PROXY: """/v1/chat/completions /v1/completions /generate /v1/embeddings /v1/rerank /v1/score
        /v1/classify /v1/messages /v1/messages/count_tokens /v1/responses /tokenize /detokenize
        /v1/tokenize /v1/detokenize""",
    Handling.SIDE: "/v1/models /model_info /get_model_info",
    Handling.LIVE: "/healthz /health",
    Handling.READY: "/readyz",
}
LISTED = [(path, handling) for handling, paths in SERVED.items() for path in paths.split()]

# Every route by which an engine is controlled or tells too much, and the router's own on its other port.
CONTROL_ROUTES = """
    /flush_cache /abort_request /pause_generation /continue_generation /shutdown
    /release_memory_occupation /resume_memory_occupation
    /update_weights_from_disk /update_weights_from_tensor /update_weights_from_distributed
    /update_weights_from_ipc /begin_weight_update /end_weight_update /update_weight_version
    /init_weights_update_group /destroy_weights_update_group
    /init_weights_send_group_for_remote_instance /send_weights_to_remote_instance
    /remote_instance_transfer_engine_info /get_remote_instance_transfer_engine_info
    /get_weights_by_name /weights_checker /set_internal_state /slow_down /freeze_gc
    /start_profile /stop_profile /set_trace_level /configure_logging
    /start_expert_distribution_record /stop_expert_distribution_record /dump_expert_distribution_record
    /load_lora_adapter /load_lora_adapter_from_tensors /unload_lora_adapter
    /add_external_corpus /remove_external_corpus /list_external_corpora
    /hicache/storage-backend /hicache/storage-backend/clear /pd_role_switch /scale_elastic_ep /dumper/start
    /open_session /close_session
    /health_generate /ready /ping /server_info /get_server_info /v1/loads /get_load /metrics /openapi.json
    /docs /get_hicache_l3_cache_layout /is_scaling_elastic_ep
    /admin /admin/status /admin/pin
"""

SPELLINGS = {
    "plain": "{0}",
    "dots": "/v1/..{0}",
    "dots below models": "/v1/models/..{0}",
    "dots deep below models": "/v1/models/a/../..{0}",
    "encoded dots": "/v1/%2e%2e{0}",
    "encoded dots below models": "/v1/models/%2e%2e{0}",
    "doubly encoded dots": "/v1/%252e%252e{0}",
    "encoded slash": "/v1/..%2f{1}",
    "encoded slash in front": "/%2F{1}",
    "doubled slash": "/{0}",
    "doubled slash below models": "/v1/models/{0}",
    "one dot": "/.{0}",
    "one dot below models": "/v1/models/.{0}",
    "semicolon": "/v1/..;{0}",
    "semicolon below models": "/v1/models/..;{0}",
    "trailing slash": "{0}/",
    "trailing parameter": "{0};x=1",
    "trailing query mark": "{0}%3f",
    "absolute form": "http://x{0}",
    "no slash": "{1}",
    "backslash": "/v1\\..{0}",
    "nul": "{0}\x00",
    "space": "{0} ",
}


@pytest.mark.parametrize(("path", "handling"), LISTED)
def test_listed_routes_are_served_under_their_own_bytes(path: str, handling: Handling) -> None:
    method = "POST" if handling is Handling.PROXY else "GET"
    assert find_route(path.encode()) == Route(path, method, handling, path.encode())


def test_nothing_else_is_listed() -> None:
    assert sorted(ROUTES) == sorted(path.encode() for path, _ in LISTED)


@pytest.mark.parametrize("path", CONTROL_ROUTES.split())
def test_control_routes_are_refused_in_every_spelling(path: str) -> None:
    spelt = {name: form.format(path, path[1:]) for name, form in SPELLINGS.items()}
    spelt["upper case"] = path.upper()
    spelt["title case"] = path.title()
    served = {name: text for name, text in spelt.items() if find_route(text.encode("latin-1")) is not None}
    assert served == {}


@pytest.mark.parametrize("path", [path for path, _ in LISTED])
@pytest.mark.parametrize("form", ["/{0}", "{0}/", "{0}?", "/.{0}", "{0};", "%2f{1}", "{0}/ ", "{0}%20"])
def test_listed_routes_in_any_other_spelling_are_refused(path: str, form: str) -> None:
    assert find_route(form.format(path, path[1:]).encode()) is None
    assert find_route(path.upper().encode()) is None


@pytest.mark.parametrize(
    "name",
    ["kimi", "moonshotai/Kimi-K2.5", "base:lora", "a_b@1+2", "x" * 256, "...", "a/b/c", ".hidden", "a.."],
)
def test_a_model_is_described_under_the_name_that_engines_use(name: str) -> None:
    target = b"/v1/models/" + name.encode()
    assert find_route(target) == Route("/v1/models/{id}", "GET", Handling.SIDE, target)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 257,
        ".",
        "..",
        "/a",
        "a/",
        "a//b",
        "a/./b",
        "a/../b",
        "a%2fb",
        "a b",
        "a;b",
        "a?b",
        "a#b",
        "é",
        "a\\b",
    ],
)
def test_names_that_could_be_read_in_two_ways_are_refused(name: str) -> None:
    assert find_route(b"/v1/models/" + name.encode()) is None


def test_stored_responses_are_fetched_and_cancelled_by_their_id() -> None:
    fetched = find_route(b"/v1/responses/resp_0a.b-c")
    assert fetched is not None
    assert (fetched.label, fetched.method, fetched.handling) == ("/v1/responses/{id}", "GET", Handling.HELD)
    assert (fetched.target, fetched.response_id) == (b"/v1/responses/resp_0a.b-c", "resp_0a.b-c")
    cancelled = find_route(b"/v1/responses/resp_0a/cancel")
    assert cancelled is not None
    assert (cancelled.label, cancelled.method) == ("/v1/responses/{id}/cancel", "POST")
    assert (cancelled.target, cancelled.response_id) == (b"/v1/responses/resp_0a/cancel", "resp_0a")


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"cancel",
        b"resp_",
        b"x",
        b"resp_a/",
        b"resp_a/b",
        b"resp_a%2f",
        b"resp_a/cancel/",
        b"resp_a/cancel/cancel",
    ],
)
def test_what_is_no_id_of_a_response_is_refused(name: bytes) -> None:
    assert find_route(b"/v1/responses/" + name) is None
    assert find_route(b"/v1/responses/resp_" + b"a" * 129) is None
