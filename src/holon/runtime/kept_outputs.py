"""Kept outputs: what commands left in `task-output` of their agents, until it is too old or too much.

A folder has a record of a task, or none: then its command ended within its call, or its record is gone. That of a live
task is never touched. A record says that its output is not kept before that goes: killed in between, the next pass
removes it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holon.core.event_kinds import RetentionApplied
from holon.core.events import RUNTIME_SCOPE
from holon.core.ids import first_id
from holon.core.retention import RetentionFamily, RetentionPolicy, RetentionReason
from holon.core.transitions import Transition
from holon.runtime.place import TASK_OUTPUT
from holon.runtime.trees import is_there, opened, remove_tree
from holon.store import Store, tasks
from holon.store.retention import BATCH_ROWS, DAY_MS

log = logging.getLogger("holon.retention")

#: Folders that an agent may have, however small they are: so that looking at them has an end.
MOST_KEPT = 10_000
#: Of one pass: folders and agents that are looked at (one agent is looked at whole), folders and files that go.
MOST_LOOKED, MOST_FOLDERS, MOST_ENTRIES = 20_000, 2_000, 20_000
#: What ended since then is not yet too much: the turn that was told of it may go on to read it.
FRESH_MS = 3_600_000
#: Nothing else is ever removed: the name has no way out of its folder.
_TASK = re.compile(r"task_[0-9a-z]+")


class Folder(NamedTuple):
    agent_id: str
    task_id: str
    bytes: int


class Due(NamedTuple):
    folder: Folder
    reason: RetentionReason
    #: Whether a task has it on record.
    recorded: bool


class KeptOutputs:
    def __init__(self, store: Store, policy: RetentionPolicy, agents_dir: Path) -> None:
        self._store, self._policy, self._dir = store, policy, agents_dir
        #: The agent at which the last pass ended, if it did not come to all of them.
        self._after = ""

    async def due(self) -> list[Due]:
        """What the next pass would remove. Nothing changes."""
        return (await self._look())[0]

    async def apply(self) -> int:
        """Removes what is due, as much as fits in one pass; how many folders went."""
        found, self._after = await self._look()
        found = found[:MOST_FOLDERS]
        recorded = [each.folder.task_id for each in found if each.recorded]
        for start in range(0, len(recorded), BATCH_ROWS):
            batch = recorded[start : start + BATCH_ROWS]
            await self._store.write(partial(tasks.note_outputs_gone, task_ids=batch), at=Transition.RETENTION)
        removed = await asyncio.to_thread(remove, self._dir, [each.folder for each in found])
        if removed:
            too_much = any(each.reason is RetentionReason.SIZE for each in found)
            reason = RetentionReason.SIZE if too_much else RetentionReason.AGE
            event = RetentionApplied(deleted={RetentionFamily.OUTPUTS.value: removed}, reason=reason)
            await self._store.write(lambda tx: tx.emit(RUNTIME_SCOPE, event), at=Transition.RETENTION)
        return removed

    async def _look(self) -> tuple[list[Due], str]:
        if not self._policy.enabled:
            return [], ""
        seen, after = await asyncio.to_thread(look, self._dir, self._after)
        now_ms, found = self._store.clock.now_ms(), list[Due]()
        for folders in seen:
            if not (asked := _to_ask_for(folders, self._policy, now_ms)):
                continue
            # After the look: a command is on record before it has a folder, so that one without a record is over.
            ends = await self._store.read(partial(tasks.ends, task_ids=asked))
            found += choose(folders, ends, self._policy, now_ms)
        return found, after


def look(agents_dir: Path, after: str, most: int = MOST_LOOKED) -> tuple[list[list[Folder]], str]:
    """The folders of each agent, oldest first, from the agent behind `after` on; where the next look begins."""
    try:
        names = sorted(os.listdir(agents_dir))
    except FileNotFoundError:
        return [], ""
    found: list[list[Folder]] = []
    with opened(agents_dir) as root:
        for agent_id in [name for name in names if name > after]:
            if most <= 0:
                return found, after
            folders = _folders(root, agent_id)
            if folders:
                found.append(folders)
            most, after = most - 1 - len(folders), agent_id
    return found, ""


def choose(
    folders: Sequence[Folder], ends: Mapping[str, int], policy: RetentionPolicy, now_ms: int, most: int = MOST_KEPT
) -> list[Due]:
    """Of one agent's folders, oldest first: what is too old, and what is too much as long as there is too much."""
    found: list[Due] = []
    count, total, limit = len(folders), _total(folders), _limit(policy)
    for folder in folders:
        if _ended_before(folder, ends, now_ms - policy.output_days * DAY_MS):
            reason = RetentionReason.AGE
        elif (total > limit or count > most) and _ended_before(folder, ends, now_ms - FRESH_MS):
            reason = RetentionReason.SIZE
        else:
            continue
        found.append(Due(folder, reason, folder.task_id in ends))
        count, total = count - 1, total - folder.bytes
    return found


def remove(agents_dir: Path, folders: Sequence[Folder], most: int = MOST_ENTRIES) -> int:
    """Removes these folders, and at most so many files in them; how many are gone."""
    removed = 0
    for folder in folders:
        if most <= 0:
            break
        try:
            with (
                opened(agents_dir) as root,
                opened(folder.agent_id, root) as home,
                opened(TASK_OUTPUT, home) as outputs,
            ):
                most = remove_tree(outputs, folder.task_id, most)
                removed += not is_there(folder.task_id, outputs)
        except OSError as error:
            where = agents_dir / folder.agent_id / TASK_OUTPUT / folder.task_id
            log.warning("%s cannot be removed (%s): look at it", where, error.strerror)
    return removed


def _folders(root: int, agent_id: str) -> list[Folder]:
    try:
        with opened(agent_id, root) as home, opened(TASK_OUTPUT, home) as outputs:
            names = sorted(name for name in os.listdir(outputs) if _TASK.fullmatch(name))
            sized = set(names[-MOST_KEPT:])  # the others are too many, whatever they take
            return [Folder(agent_id, name, _size(outputs, name) if name in sized else 0) for name in names]
    except OSError:  # no folder, or a link: nothing of ours
        return []


def _size(outputs: int, name: str) -> int:
    try:
        with opened(name, outputs) as folder, os.scandir(folder) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except OSError:  # it went meanwhile
        return 0


def _to_ask_for(folders: Sequence[Folder], policy: RetentionPolicy, now_ms: int) -> list[str]:
    """Whose ends matter: ids tell when a command began, and what began lately has not ended before."""
    if len(folders) > MOST_KEPT or _total(folders) > _limit(policy):
        return [folder.task_id for folder in folders]
    edge = first_id("task", now_ms - policy.output_days * DAY_MS)
    return [folder.task_id for folder in folders if folder.task_id < edge]


def _ended_before(folder: Folder, ends: Mapping[str, int], moment_ms: int) -> bool:
    """One without a record ended within its call, or long ago: it is as old as its id."""
    if folder.task_id in ends:
        return ends[folder.task_id] < moment_ms
    return folder.task_id < first_id("task", moment_ms)


def _total(folders: Sequence[Folder]) -> int:
    return sum(folder.bytes for folder in folders)


def _limit(policy: RetentionPolicy) -> int:
    return policy.output_bytes or sys.maxsize
