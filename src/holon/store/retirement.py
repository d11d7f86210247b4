"""Retirement: archived temporary agents go as a whole, with everything that is theirs. What they cost stays summed up.

An agent's own row goes last, so that a pass that was cut off is taken up by the next one. Ids sort by time: what is old
enough is a range of ids, and who was archived lately in it is passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

from holon.core.agents import AgentIdentity, AgentState
from holon.core.clock import to_ms
from holon.core.codec import loads
from holon.core.ids import first_id
from holon.core.tasks import has_worktree
from holon.store import leftovers, sqlite, tasks
from holon.store.transaction import Tx

#: The beginnings of ids that only temporary agents have.
PREFIXES = ("tmp_child", "tmp_run")
#: Agents of one pass. What is left over waits for the next.
MOST = 1_000
_PAGE = 200
#: What an entry of an agent's logs usually takes.
_ENTRY_BYTES = 400

#: What hangs on an agent's id, with the column that tells its rows apart.
_TABLES = (
    ("events", "seq"),
    ("transcript", "seq"),
    ("calls", "seq"),
    ("epochs", "number"),
    ("briefs", "id"),
    ("timers", "id"),
    ("tasks", "id"),
    ("triggers", "id"),
    ("wake_hints", "id"),
    ("skill_activations", "name"),
)


class Removed(NamedTuple):
    rows: int
    #: Whether nothing of the agent is left.
    whole: bool


def due(tx: Tx, before_ms: int, most: int = MOST) -> list[str]:
    """Temporary agents that were archived before this moment and that nothing holds, oldest first of each kind."""
    found = (each for prefix in PREFIXES for each in _archived(tx, prefix, before_ms) if not _held(tx, each))
    return list(islice(found, most))


def estimated_bytes(tx: Tx, agent_ids: Collection[str]) -> int:
    """What these agents take, from the numbers that their logs have reached."""
    entries = 0
    for agent_id in agent_ids:
        row = tx.one(
            "SELECT event_seq - oldest_event_seq + 1 + transcript_seq + queue_seq FROM counters WHERE scope = ?",
            agent_id,
        )
        entries += int(row[0]) if row else 0
    return entries * sqlite.row_bytes(_ENTRY_BYTES)


def remove(tx: Tx, agent_id: str, limit: int) -> Removed:
    """Removes at most about `limit` rows of an agent, its own row only when all others are gone."""
    if not _archived_still(tx, agent_id) or _held(tx, agent_id):
        return Removed(0, whole=False)
    rows = _remove_messages(tx, agent_id, limit)
    for table, key in _TABLES:
        if rows >= limit:
            return Removed(rows, whole=False)
        rows += tx.run(
            f"DELETE FROM {table} WHERE agent_id = ? AND {key} IN"
            f" (SELECT {key} FROM {table} WHERE agent_id = ? ORDER BY {key} LIMIT ?)",
            *(agent_id, agent_id, limit - rows),
        )
    if rows >= limit:
        return Removed(rows, whole=False)
    tx.run("DELETE FROM counters WHERE scope = ?", agent_id)
    tx.run("DELETE FROM agents WHERE id = ?", agent_id)
    tx.kept.pop(agent_id, None)
    return Removed(rows + 1, whole=True)


def _remove_messages(tx: Tx, agent_id: str, limit: int) -> int:
    rows = 0
    while rows < limit and (page := tx.all(_MESSAGES, agent_id, _PAGE)):
        for (message_id,) in page:
            rows += leftovers.remove_message(tx, message_id)
            if rows >= limit:
                break
    return rows


#: Written as the index is (`queue_of_temporary`), so that both databases see that it fits.
_MESSAGES = (
    "SELECT message_id FROM queue WHERE agent_id = ? AND substr(agent_id, 1, 4) = 'tmp_' ORDER BY message_id LIMIT ?"
)


def _archived(tx: Tx, prefix: str, before_ms: int) -> Iterator[str]:
    after, end = f"{prefix}_", first_id(prefix, before_ms)
    while page := tx.all(
        "SELECT id, identity FROM agents WHERE id > ? AND id < ? AND registry_status = 'archived'"
        " AND visibility = 'private' ORDER BY id LIMIT ?",
        *(after, end, _PAGE),
    ):
        for agent_id, text in page:
            archived_at = loads(text, AgentIdentity).archived_at
            if archived_at is not None and to_ms(archived_at) < before_ms:
                yield agent_id
        after = page[-1][0]


def _archived_still(tx: Tx, agent_id: str) -> bool:
    row = tx.one("SELECT registry_status, visibility FROM agents WHERE id = ?", agent_id)
    return row is not None and tuple(row) == ("archived", "private")


def _held(tx: Tx, agent_id: str) -> bool:
    """Whether a live task supervises it, work of its own goes on, or it has children that are still there."""
    row = tx.one("SELECT state FROM agents WHERE id = ?", agent_id)
    supervision = loads(row[0], AgentState).supervision_task_id if row else None
    if supervision and (task := tasks.get(tx, supervision)) is not None and not task.status.terminal:
        return True
    if any(has_worktree(task) for task in tasks.of_agent(tx, agent_id, limit=1_000)):  # nothing else knows of it
        return True
    return any(
        tx.one(question, agent_id) is not None
        for question in (
            "SELECT 1 FROM turns WHERE agent_id = ? AND phase <> 'terminal' LIMIT 1",
            "SELECT 1 FROM tasks WHERE agent_id = ? AND status IN ('queued', 'running', 'cancelling', 'interrupted')"
            " LIMIT 1",
            "SELECT 1 FROM agents WHERE parent_agent_id = ? LIMIT 1",
        )
    )
