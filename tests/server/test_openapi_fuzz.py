"""schemathesis over the OpenAPI document: whatever fits the document, and whatever does not, is never a 5xx.

Each operation gets requests that follow its schema and requests that break it. Every answer must be one that the
document knows: its status, its media type, its shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from holon.server import routes
from tests.server.harness import TOKEN, Running, running, short_home

load_all_checks()
CHECKED: Any = CHECKS.get_by_names(
    ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
)
OPERATIONS = sorted(
    (method.lower(), path.replace(":str", ""))
    for handler in routes.ALL
    for path in handler.paths
    for method in handler.http_methods
)
#: Ends the server, or answers without an end: tested elsewhere.
EXCLUDED = {("post", "/control/runtime/shutdown"), ("get", "/agents/{agent_id}/events/stream")}
#: So many requests of each sort for each operation: a few seconds in all.
EXAMPLES = 8


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Running]:
    with short_home() as home, running(home) as server:
        yield server


@pytest.fixture(scope="module")
def document(fuzzed: Running) -> Any:
    return schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json")


@pytest.mark.parametrize(("method", "path"), sorted(set(OPERATIONS) - EXCLUDED))
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "breaking"])
def test_every_answer_is_one_that_the_document_knows(
    fuzzed: Running, document: Any, method: str, path: str, mode: GenerationMode
) -> None:
    operation = document[path][method.upper()]
    described = operation.definition.raw
    if mode is GenerationMode.NEGATIVE and not {"parameters", "requestBody"} & set(described):
        pytest.skip("the operation takes nothing that could be broken")

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case: schemathesis.Case[Any]) -> None:
        if "agent_id" in (case.path_parameters or {}) and path != "/control/agents/{agent_id}/create":
            case.path_parameters["agent_id"] = "main"  # a name that is made up is refused before anything else
            fuzzed.local.post("/control/agents/main/resume")  # so is everything that is sent to a stopped agent
        if "token" in (case.path_parameters or {}):
            trigger = fuzzed.local.post("/control/agents/main/trigger/reveal").json()
            case.path_parameters["token"] = trigger["trigger_url"].rpartition("/")[2]
        case.call_and_validate(headers={"authorization": f"Bearer {TOKEN}"}, checks=CHECKED)

    send()
