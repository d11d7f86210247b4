"""An agent's prompt over HTTP, for its operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.harness import Running, running, short_home

PATH = "/control/agents/main/prompt"


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with short_home() as home, running(home) as server:
        (home / "agents" / "main" / "AGENTS.md").write_text("never say heliotrope")
        for text in ("hello", "again"):
            server.settled(server.prompt(text))
        yield server


@pytest.mark.spec("RT-228")
def test_the_next_prompt_shows_where_the_agent_acts_and_what_it_was_told(live: Running) -> None:
    view = live.tcp.get(PATH).json()
    home = live.settings.agents_dir / "main"
    execution = view["execution"]
    assert view["agent_home"] == str(home)
    assert [execution[name] for name in ("workspace_id", "workspace_anchor", "execution_root", "cwd")] == [
        "agent_home",
        *[str(home)] * 3,
    ]
    assert execution["policy"]["process_execution"]["network_confinement"] == "not_enforced"
    assert view["loaded_agents_md"]["agent_source"]["path"] == str(home / "AGENTS.md")
    assert view["loaded_agents_md"]["agent_source"]["kind"] == "agents_md"
    assert view["loaded_agents_md"]["workspace_source"] is None
    assert (view["call"], view["newest_call"], view["cache_state"]) == (None, 2, "expected")


def test_a_call_is_shown_with_its_parts_and_its_bytes_are_verified(live: Running) -> None:
    view = live.local.get(PATH, params={"call": 2}).json()
    assert view["verification"] == {"verified": True, "difference": None, "position": None, "source": None}
    sources = [section["source"] for section in view["sections"]]
    assert sources[0] == "tools"
    assert sources[-2:] == ["inputs", "answers"]
    assert [section["stability"] for section in view["sections"]][1] == "stable"
    together = {"fresh": 0, "read": 0, "written": 0}
    for section in view["sections"]:
        together = {name: together[name] + section["buckets"][name] for name in together}
    assert together == view["call"]["buckets"]
    assert {section["cache"] for section in view["sections"]} == {"fresh"}


def test_the_text_comes_only_on_request_and_only_to_the_operator(live: Running) -> None:
    assert "heliotrope" not in live.local.get(PATH).text
    shown = live.tcp.get(PATH, params={"text": "true"})
    assert "heliotrope" in shown.text
    assert live.stranger.get(PATH).status_code == 401
    assert live.stranger.get(PATH, params={"text": "true", "call": 1}).status_code == 401


def test_a_prompt_holds_no_trigger(live: Running) -> None:
    url = live.local.post("/control/agents/main/trigger/reveal").json()["trigger_url"]
    live.settled(live.prompt("and now"))
    for params in ({"text": "true"}, {"text": "true", "call": "3"}):
        text = live.local.get(PATH, params=params).text
        assert url.rpartition("/")[2] not in text
        assert "/callbacks/" not in text


def test_two_requests_are_compared(live: Running) -> None:
    diff = live.local.get(f"{PATH}/diff", params={"call": 2}).json()
    assert diff["extends"] is True
    assert diff["added_blocks"] == 2
    assert diff["sentence"] == f"call 2 extends call 1 by 2 blocks, {diff['added_tokens']:,} tokens"
    assert diff["drifts"] == []


@pytest.mark.parametrize("path", [PATH, f"{PATH}/diff"])
def test_what_is_not_there_is_not_found(live: Running, path: str) -> None:
    assert live.local.get(path, params={"call": 99}).json()["code"] == "not_found"
    assert live.local.get(path, params={"call": 0}).json()["field"] == "call"
    assert live.local.get(path.replace("main", "nobody")).json()["code"] == "unknown_agent"


@pytest.mark.spec("RT-229")
def test_the_status_names_the_instructions_in_force_without_their_text(live: Running) -> None:
    for path in ("/agents/main/status", "/status"):
        answer = live.local.get(path)
        source = answer.json()["loaded_agents_md"]["agent_source"]
        assert source == {
            "scope": "agent",
            "kind": "agents_md",
            "path": str(live.settings.agents_dir / "main" / "AGENTS.md"),
            "bytes": 20,
        }
        assert "heliotrope" not in answer.text
    state = live.local.get("/state")
    assert state.json()["agent"]["loaded_agents_md"]["agent_source"]["bytes"] == 20
