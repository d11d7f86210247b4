"""Analytics over HTTP: what was spent, and how well caches served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.server.harness import Running, running, short_home

PRICED = {"scripted/": {"prices": {"input": 3.0, "output": 15.0}}}


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server whose agent `main` has answered twice, and `second` once."""
    with short_home() as home, running(home, models=PRICED) as server:
        server.local.post("/control/agents/second/create")
        for text, agent_id in (("hello", "main"), ("again", "main"), ("hello", "second")):
            server.settled(server.prompt(text, agent_id), agent_id)
        yield server


def today() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("agent", {"main", "second"}),
        ("model", {"scripted/patient"}),
        ("section", {"tools", "contract", "engineering_guardrails", "instruction_precedence", "inputs", "output"}),
    ],
)
def test_costs_come_in_lines_with_their_total(live: Running, by: str, keys: set[str]) -> None:
    report = live.tcp.get("/analytics/cost", params={"by": by}).json()
    assert keys <= {line["key"] for line in report["lines"]}
    assert report["total"]["calls"] == 3
    assert report["total"]["dollars"] > 0
    for field in ("fresh", "read", "written", "output"):
        assert sum(line[field] for line in report["lines"]) == report["total"][field]
    assert sum(line["dollars"] for line in report["lines"]) == pytest.approx(report["total"]["dollars"], abs=1e-7)
    assert (report["by"], report["agent_id"], report["unpriced_models"]) == (by, None, [])


def test_the_total_is_what_the_agents_used(live: Running) -> None:
    report = live.local.get("/analytics/cost", params={"by": "agent"}).json()
    for line in report["lines"]:
        used = live.local.get(f"/agents/{line['key']}/status").json()["token_usage"]["total"]
        assert (line["fresh"] + line["read"] + line["written"], line["output"]) == (
            used["input_tokens"],
            used["output_tokens"],
        )
        assert line["dollars"] == pytest.approx((used["input_tokens"] * 3 + used["output_tokens"] * 15) / 1e6)


def test_days_agents_and_models_can_be_asked_for(live: Running) -> None:
    day = today().strftime("%Y-%m-%d")
    by_day = live.local.get("/analytics/cost", params={"by": "day", "since": day, "until": day}).json()
    assert [line["key"] for line in by_day["lines"]] == [day]
    earlier = (today() - timedelta(days=9)).strftime("%Y-%m-%d")
    before = live.local.get("/analytics/cost", params={"since": earlier, "until": earlier}).json()
    assert (before["lines"], before["total"]["calls"]) == ([], 0)
    second = live.local.get("/analytics/cost", params={"agent_id": "second"}).json()
    assert (second["agent_id"], second["total"]["calls"]) == ("second", 1)


def test_cache_effectiveness_names_each_model_with_its_three_sorts_of_input(live: Running) -> None:
    report = live.tcp.get("/analytics/cache_effectiveness").json()
    (line,) = report["models"]
    assert line["uncached_input_tokens"] > 0
    assert {key: line[key] for key in line if key != "uncached_input_tokens"} == {
        "model": "scripted/patient",
        "call_count": 3,
        "cached_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "hit_rate": 0.0,
        "cache_write_share": 0.0,
    }
    since, until = (datetime.fromisoformat(report[end]) for end in ("since", "until"))
    assert until - since == timedelta(days=6)


@pytest.mark.parametrize(
    ("query", "status", "code", "field"),
    [
        ({"by": "colour"}, 400, "invalid_input", "by"),
        ({"since": "2026-13-01"}, 400, "invalid_input", "since"),
        ({"since": "soon"}, 400, "invalid_input", "since"),
        ({"since": "2026-02-02", "until": "2026-02-01"}, 400, "invalid_input", "since"),
        ({"agent_id": "nobody"}, 404, "unknown_agent", None),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_with_its_problem(
    live: Running, query: dict[str, str], status: int, code: str, field: str | None
) -> None:
    answer = live.local.get("/analytics/cost", params=query)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem.get("field")) == (status, code, field)


def test_what_was_spent_is_told_only_to_those_who_may_know(live: Running) -> None:
    for path in ("/analytics/cost", "/analytics/cache_effectiveness", "/models", "/control/runtime/doctor"):
        assert live.stranger.get(path).status_code == 401
