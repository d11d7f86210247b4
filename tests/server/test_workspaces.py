"""Workspaces and backends over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holon.workspaces.sandbox import probe
from tests.server.harness import Running, running, short_home

BACKEND = "/control/agents/main/backend"
USE = "/control/agents/main/workspace/use"


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with short_home() as home, running(home) as server:
        yield server


def test_a_backend_is_chosen_shown_everywhere_and_given_back(live: Running) -> None:
    found = probe()
    assert live.tcp.get(BACKEND).json() == {
        "agent_id": "main",
        "backend": {
            "source": "runtime_default",
            "choice": "host_local",
            "effective": "host_local",
            "reason": "chosen: commands are not confined",
            "network": True,
        },
        "changed": False,
    }
    chosen = live.tcp.post(BACKEND, json={"backend": "auto"}).json()
    assert chosen == {
        "agent_id": "main",
        "backend": {
            "source": "agent_override",
            "choice": "auto",
            "effective": "sandboxed" if found.available else "host_local",
            "reason": found.reason if found.available else f"commands are not confined: {found.reason}",
            "network": not found.available,
        },
        "changed": True,
    }
    status = live.local.get("/agents/main/status").json()
    assert status["execution"]["backend"] == chosen["backend"]
    assert status["execution"]["policy"]["backend"] == chosen["backend"]["effective"]
    assert status["agent"]["execution_backend"] == "auto"
    assert live.local.get("/agents/main/workspace").json()["backend"] == chosen["backend"]
    assert live.local.post(BACKEND, json={"backend": None}).json()["backend"]["source"] == "runtime_default"
    told = [event["payload"]["surface"] for event in live.events() if event["type"] == "agent_backend_set"]
    assert told == ["http_control", "local_socket"]


def test_a_network_is_chosen_without_touching_the_backend(live: Running) -> None:
    live.local.post(BACKEND, json={"backend": "auto"})
    for given, network in ((True, True), (False, not probe().available), (None, not probe().available)):
        chosen = live.local.post(BACKEND, json={"network": given}).json()["backend"]
        assert (chosen["choice"], chosen["network"]) == ("auto", network)
        guarantee = live.local.get("/agents/main/status").json()["execution"]["policy"]["process_execution"]
        assert guarantee["network_confinement"] == ("not_enforced" if network else "hard_enforced")
    live.local.post(BACKEND, json={"backend": None})


@pytest.mark.parametrize(
    "body", [{}, {"force": True}, {"network": "on"}, {"backend": "docker"}, {"backend": "auto", "sandbox": True}]
)
def test_a_backend_that_is_none_is_refused(live: Running, body: dict[str, object]) -> None:
    answer = live.local.post(BACKEND, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_a_stranger_chooses_nothing(live: Running) -> None:
    assert live.stranger.post(BACKEND, json={"backend": "host_local"}).status_code == 401


@pytest.mark.spec("RT-326", "RT-332")
def test_an_attached_workspace_is_used_by_its_id_and_exactly_one_of_both_is_taken(
    live: Running, tmp_path: Path
) -> None:
    used = live.local.post(USE, json={"path": str(tmp_path)}).json()
    home = live.local.post(USE, json={"workspace_id": "agent_home"}).json()
    assert (home["active"]["workspace_id"], home["attached_workspaces"]) == (
        "agent_home",
        [used["active"]["workspace_id"]],
    )
    again = live.local.post(USE, json={"workspace_id": used["active"]["workspace_id"]}).json()
    assert again == used
    for body in ({}, {"path": str(tmp_path), "workspace_id": "agent_home"}):
        refused = live.local.post(USE, json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "workspace_refused")


def test_the_view_says_what_was_lost(live: Running, tmp_path: Path) -> None:
    folder = tmp_path / "short-lived"
    folder.mkdir()
    live.local.post(USE, json={"path": str(folder)})
    folder.rmdir()
    view = live.local.get("/agents/main/workspace").json()
    assert view["active"]["workspace_id"] == "agent_home"
    assert str(folder) in view["lost"]
