"""The OpenAPI document: complete, closed where the server is strict, and its examples work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holon.server import auth
from holon.server.openapi import EXAMPLES
from tests.server.harness import Running, running, short_home


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with short_home() as home, running(home) as server:
        yield server


@pytest.fixture(scope="module")
def document(live: Running) -> dict[str, Any]:
    answer = live.stranger.get("/openapi.json")
    assert answer.headers["content-type"] == "application/vnd.oai.openapi+json"
    return dict(answer.json())


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def test_every_operation_has_a_summary_a_tag_and_its_own_id(document: dict[str, Any]) -> None:
    found = operations(document)

    assert len(found) > 40
    assert all(operation["summary"] and operation["tags"] for _, _, operation in found)
    assert len({operation["operationId"] for _, _, operation in found}) == len(found)


def test_every_answer_has_a_type_and_every_refusal_is_a_problem(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        assert "500" in operation["responses"]
        for status, response in operation["responses"].items():
            ((media_type, content),) = response["content"].items()
            if int(status) >= 400:
                assert media_type == "application/problem+json", (method, path, status)
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            else:
                assert content["schema"], (method, path, status)


def test_what_needs_a_token_says_so(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        wanted: list[Any] = [] if auth.is_open(method, path) else [{"token": []}]
        assert operation["security"] == wanted, (method, path)
        assert ("401" in operation["responses"]) is bool(wanted)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    for text in json.dumps(document).split('"$ref": "')[1:]:
        reference = text.partition('"')[0]
        assert reference.removeprefix("#/components/schemas/") in schemas


def test_what_a_caller_writes_is_closed_and_has_an_example(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    written = {
        content["schema"]["$ref"].rpartition("/")[2]
        for _, _, operation in operations(document)
        for content in operation.get("requestBody", {}).get("content", {}).values()
        if "$ref" in content.get("schema", {})
    }

    assert written == set(EXAMPLES)
    for name in written:
        assert schemas[name]["additionalProperties"] is False
        assert schemas[name]["examples"] == [EXAMPLES[name]]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("prompt", "PromptRequest"),
        ("wake", "WakeRequest"),
        ("timers", "TimerRequest"),
        ("control", "ControlRequest"),
        ("resume", "NoFields"),
        ("trigger/rotate", "RotateRequest"),
        ("/enqueue", "EnqueueRequest"),
    ],
)
def test_the_examples_work(live: Running, path: str, name: str) -> None:
    where = path if path.startswith("/") else f"/control/agents/main/{path}"

    answer = live.local.post(where, json=EXAMPLES[name])

    assert answer.is_success, answer.text


def test_the_example_of_an_abort_fits_even_if_nothing_runs(live: Running) -> None:
    live.local.post("/control/agents/idle/create")

    answer = live.local.post("/control/agents/idle/current-run/abort", json=EXAMPLES["AbortRequest"])

    assert answer.json()["code"] == "no_current_run"


def test_optional_bodies_and_parameters_may_be_left_out_but_are_never_null(document: dict[str, Any]) -> None:
    paths = document["paths"]

    assert paths["/control/agents/{agent_id}/prompt"]["post"]["requestBody"]["required"] is True
    assert paths["/control/agents/{agent_id}/pause"]["post"]["requestBody"]["required"] is False
    for _, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert {"type": "null"} not in parameter["schema"].get("oneOf", [])


def test_the_document_stays_the_same(live: Running) -> None:
    assert live.stranger.get("/openapi.json").content == live.stranger.get("/openapi.json").content
