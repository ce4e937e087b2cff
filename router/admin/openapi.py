"""The description of the admin API that it serves."""

from __future__ import annotations

from typing import Any

import msgspec

from router.admin.control import EngineBody, PinBody

_CHANGES: tuple[tuple[str, str, str, type[msgspec.Struct] | None], ...] = (
    ("/admin/pin", "post", "Send new requests to one path for a while, whatever the policy says.", PinBody),
    ("/admin/pin", "delete", "Let the policy decide again.", None),
    ("/admin/drain", "post", "Keep new requests from an engine; open ones finish.", EngineBody),
    ("/admin/undrain", "post", "Let requests come to the engine again.", EngineBody),
    ("/admin/reload", "post", "Take up the configuration file.", None),
)
_READS = (
    ("/admin/status", "What the router is doing now.", "application/json"),
    (
        "/admin/decisions",
        "Switches with their inputs, and a sample of requests.",
        "application/json",
    ),
    ("/metrics", "Metrics in Prometheus' text format.", "text/plain"),
    ("/healthz", "The process answers.", "application/json"),
    ("/readyz", "Requests can be served (200) or not (503).", "application/json"),
)


def describe(version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    bodies = [body for *_, body in _CHANGES if body is not None]
    (*_,), schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for path, summary, content in _READS:
        answer = {"description": "It is so.", "content": {content: {}}}
        paths[path] = {"get": {"summary": summary, "responses": {"200": answer}}}
    for path, method, summary, body in _CHANGES:
        paths.setdefault(path, {})[method] = _change(summary, body)
    return {
        "openapi": "3.1.0",
        "info": {"title": "spec-router admin API", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _change(summary: str, body: type[msgspec.Struct] | None) -> dict[str, Any]:
    answers = {
        "200": "Done.",
        "400": "The body is not what the call takes.",
        "401": "The token is missing or wrong.",
        "409": "It cannot be done; the message says why.",
    }
    made: dict[str, Any] = {
        "summary": summary,
        "security": [{"token": []}],
        "responses": {status: {"description": text} for status, text in answers.items()},
    }
    if body is not None:
        ref = {"$ref": f"#/components/schemas/{body.__name__}"}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref}}}
    return made
