"""The host's workspaces in the store."""

from __future__ import annotations

from holon.core.codec import dumps, loads
from holon.core.workspaces import WorkspaceEntry
from holon.store.transaction import Tx


def save(tx: Tx, entry: WorkspaceEntry) -> None:
    tx.run(
        "INSERT INTO workspaces (id, record) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record",
        entry.workspace_id,
        dumps(entry),
    )


def get(tx: Tx, workspace_id: str) -> WorkspaceEntry | None:
    row = tx.one("SELECT record FROM workspaces WHERE id = ?", workspace_id)
    return loads(row[0], WorkspaceEntry) if row else None
