"""Models over HTTP: the table, the model of one agent, and the doctor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.harness import Running, running, short_home

MODEL = "/control/agents/main/model"


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    own = {"acme/": {"prices": {"input": 0.5}}}
    with short_home() as home, running(home, models=own, model_fallbacks=["scripted/echo"]) as server:
        yield server


def test_the_table_has_prices_rules_and_whether_a_model_can_be_asked(live: Running) -> None:
    lines = {line["card"]["model_ref"]: line for line in live.tcp.get("/models").json()}
    scripted = lines["scripted/"]
    assert (scripted["available"], scripted["problem"], scripted["provider"]) == (True, None, "scripted")
    opus = lines["anthropic/claude-opus-5"]
    assert opus["available"] is False, "this server has the scripted model only"
    assert opus["problem"]
    assert opus["card"]["cache"]["kind"] == "explicit"
    assert opus["card"]["prices"]["output"] == 25.0
    assert lines["acme/"]["card"]["source"] == "config_override"


@pytest.mark.spec("RT-083", "RT-085", "RT-086")
def test_the_model_of_an_agent_is_set_used_and_cleared(live: Running) -> None:
    before = live.local.get(MODEL).json()
    assert before == {
        "agent_id": "main",
        "model": {
            "source": "runtime_default",
            "runtime_default_model": "scripted/patient",
            "effective_model": "scripted/patient",
            "effective_fallback_models": ["scripted/echo"],
        },
        "changed": False,
    }
    outcome = live.tcp.post(MODEL, json={"model": "scripted/echo"}).json()
    assert outcome == {
        "agent_id": "main",
        "model": {
            "source": "agent_override",
            "runtime_default_model": "scripted/patient",
            "effective_model": "scripted/echo",
            "effective_fallback_models": [],
            "override_model": "scripted/echo",
        },
        "changed": True,
    }
    assert live.local.get("/agents/main/status").json()["model"] == outcome["model"]
    settled = live.settled(live.prompt("slow is for patient models only"))
    assert settled["turn"]["model"] == "scripted/echo"
    cleared = live.local.post(f"{MODEL}/clear").json()
    assert (cleared["model"], cleared["changed"]) == (before["model"], True)
    kinds = [(event["type"], event["payload"]["surface"]) for event in live.events() if "override" in event["type"]]
    assert kinds == [
        ("agent_model_override_set", "http_control"),
        ("agent_model_override_cleared", "local_socket"),
    ]


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"model": "echo"}, 400, "invalid_input", None),
        ({"model": "acme/large"}, 400, "invalid_input", "model"),
        ({"model": "scripted/echo", "effort": "high"}, 400, "invalid_input", "effort"),
        ({}, 400, "invalid_input", "model"),
    ],
)
def test_a_model_that_is_none_is_refused(
    live: Running, body: dict[str, str], status: int, code: str, field: str | None
) -> None:
    answer = live.local.post(MODEL, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem.get("field")) == (status, code, field)
    assert live.local.get(MODEL).json()["model"]["source"] == "runtime_default"


def test_a_model_that_cannot_be_asked_now_can_be_forced(live: Running) -> None:
    refused = live.local.post(MODEL, json={"model": "acme/large"}).json()
    assert "there is no provider 'acme'" in refused["detail"]
    forced = live.local.post(MODEL, json={"model": "acme/large", "force": True}).json()
    assert forced["model"]["override_model"] == "acme/large"
    assert live.local.post(f"{MODEL}/clear").json()["changed"] is True


@pytest.mark.spec("RT-178")
def test_the_doctor_shows_home_providers_and_the_retry_policy(live: Running) -> None:
    found = live.tcp.get("/control/runtime/doctor").json()
    checks = {check["name"]: check for check in found["checks"]}
    assert found["ok"] is True, checks
    assert checks["lock"]["detail"].startswith("held by test (pid ")
    assert checks["socket"]["detail"].endswith("answers")
    assert checks["database"]["detail"].startswith("version ")
    assert checks["disk"]["detail"].endswith("free")
    assert checks["model"]["detail"] == "scripted/patient can be asked"
    (scripted,) = found["providers"]
    assert (scripted["provider"], scripted["transport"], scripted["available"]) == ("scripted", "scripted", True)
    assert [model["model_ref"] for model in scripted["models"]] == ["scripted/patient", "scripted/echo"]
    assert found["retry_policy"]["max_retries"] == 2
