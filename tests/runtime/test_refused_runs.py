"""A run that is refused, or never comes about, leaves no agent in service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holon.core.agents import RegistryStatus
from holon.core.errors import BodyTooLarge, HolonError
from holon.core.limits import Limits
from holon.runtime.run_once import RunRequest, begin_run, run_once
from holon.store import Tx, agents, events
from holon.store.agents import StoredAgent
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living


async def temporary(life: Living) -> list[StoredAgent]:
    def read(tx: Tx) -> list[StoredAgent]:
        rows = tx.all("SELECT id FROM agents WHERE id LIKE 'tmp_%' ORDER BY id")
        return [found for (agent_id,) in rows if (found := agents.get(tx, agent_id))]

    return await life.host.store.read(read)


async def test_a_prompt_that_is_too_long_is_refused_before_an_agent_is_made(living: Opens) -> None:
    life = await living(limits=Limits(message_bytes=100))
    with pytest.raises(BodyTooLarge):
        await run_once(life.host, RunRequest(text="x" * 200))
    with pytest.raises(BodyTooLarge):
        await run_once(life.host, RunRequest(text="x" * 200, agent_id="scout", create_agent=True))
    assert await temporary(life) == []
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]


async def test_an_agent_whose_workspace_is_refused_leaves_service_at_once(living: Opens, tmp_path: Path) -> None:
    life = await living()
    with pytest.raises(HolonError, match="would open"):
        await run_once(life.host, RunRequest(text="hello", workspace=str(tmp_path)))
    (made,) = await temporary(life)
    assert made.identity.status is RegistryStatus.ARCHIVED
    log = await life.host.store.read(lambda tx: events.after(tx, made.identity.agent_id, 0))
    assert [event.payload["reason"] for event in log if event.kind == "agent_archived"] == ["its run was refused"]


async def test_of_two_runs_under_one_key_that_came_at_once_only_one_has_an_agent_in_service(living: Opens) -> None:
    life = await living('rules: [{rounds: [{delay_ms: 60000, text: "late"}]}]')
    request = RunRequest(text="hello")
    first, second = await asyncio.gather(*(begin_run(life.host, request, idempotency_key="once") for _ in range(2)))
    assert first.ticket == second.ticket
    active = [each.identity for each in await temporary(life) if each.identity.status is RegistryStatus.ACTIVE]
    assert [identity.agent_id for identity in active] == [first.ticket.agent_id]


async def test_after_a_kill_an_agent_whose_prompt_never_came_is_archived_and_one_with_a_prompt_is_not(
    living: Opens,
) -> None:
    """The state in which a kill between the two commits of a run leaves the store."""
    life = await living()
    never = await life.host.agents.create_temporary(surface=SURFACE)
    begun = await life.host.agents.create_temporary(surface=SURFACE)
    await life.ask("hello", begun.agent_id, private=True)
    await life.close()
    life = await living()
    status = {each.identity.agent_id: each.identity.status for each in await temporary(life)}
    assert status == {never.agent_id: RegistryStatus.ARCHIVED, begun.agent_id: RegistryStatus.ACTIVE}
