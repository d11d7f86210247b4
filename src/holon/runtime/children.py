"""Children: private agents that work for another one, each behind a task through which its parent supervises it.

A child is an ordinary agent: its turns, its queue and its rest are those of any other. What is special stands in two
transactions: the one that makes it (in the parent's tool call) and the one in which its work is done (its own rest).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from holon.core.agents import (
    AgentIdentity,
    AgentKind,
    AgentState,
    Ownership,
    ProfilePreset,
    RegistryStatus,
    Visibility,
)
from holon.core.clock import moment
from holon.core.codec import to_plain
from holon.core.event_kinds import OperatorNotified, TaskCreated
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    SystemOrigin,
    TextBody,
)
from holon.core.tasks import TaskKind, TaskRecord, TaskStatus
from holon.runtime.admission import Admission, admit
from holon.runtime.directory import Directory, check_id, insert_agent
from holon.runtime.supervising import supervision_of
from holon.runtime.views import Views
from holon.store import Tx, tasks
from holon.tools.delegation import SpawnInput
from holon.tools.registry import CallContext

LABEL_CHARS = 80


@dataclass(frozen=True, slots=True)
class Spawn:
    """A checked spawn: everything about it is decided but the commit."""

    identity: AgentIdentity
    message: str | None
    task: TaskRecord | None
    context: CallContext
    limits: Limits
    directory: Directory
    state: AgentState

    @property
    def answer(self) -> dict[str, Any]:
        if self.task is None:
            return {"agent_id": self.identity.agent_id}
        supervision = supervision_of(self.task)
        return {
            "agent_id": self.identity.agent_id,
            "child_agent_id": self.identity.agent_id,
            "supervision_task_id": self.task.id,
            "task_handle": {"task_id": self.task.id, "task_kind": self.task.kind, "status": self.task.status},
            "child_supervision": to_plain(supervision),
        }

    def carry_out(self, tx: Tx, parent: AgentState) -> AgentState:
        insert_agent(tx, self.identity, "spawn_agent", self.state)
        if self.message is not None:
            self._send(tx, self.message)
        if self.task is None:
            return parent
        tasks.save(tx, self.task)
        tx.emit(
            parent.id,
            TaskCreated(task_id=self.task.id, task_kind=self.task.kind, summary=self.task.summary),
            message_id=self.context.envelope.id,
            turn_id=self.context.turn_id,
        )
        return msgspec.structs.replace(parent, active_task_ids=[*parent.active_task_ids, self.task.id])

    async def follow(self) -> None:
        await self.directory.run_errands()

    def _send(self, tx: Tx, text: str) -> None:
        envelope = self.context.envelope
        admit(
            tx,
            self.identity.agent_id,
            Admission(
                agent_id=self.identity.agent_id,
                kind=MessageKind.INTERNAL_FOLLOWUP,
                origin=SystemOrigin(subsystem="delegation" if self.task else "bootstrap"),
                body=TextBody(text=text),
                surface=DeliverySurface.RUNTIME_SYSTEM,
                context=AdmissionContext.RUNTIME_OWNED,
                metadata={"created_by_agent_id": self.context.agent.agent_id},
                correlation_id=envelope.correlation_id or envelope.id,
                causation_id=self.task.id if self.task else envelope.id,
                private=True,
            ),
            self.limits,
        )


class Children:
    def __init__(self, directory: Directory, views: Views, agents_dir: Path, limits: Limits, clock_ms: Any) -> None:
        self._directory, self._views, self._dir, self._limits = directory, views, agents_dir, limits
        self._clock_ms = clock_ms

    async def plan_spawn(self, context: CallContext, asked: SpawnInput) -> Spawn:
        now_ms: int = self._clock_ms()
        private = asked.preset == "private_child"
        agent_id = new_id("tmp_child", now_ms) if private else str(asked.agent_id)
        if not private:
            check_id(agent_id)
        task = self._task(context, asked, agent_id, now_ms) if private else None
        identity = AgentIdentity(
            agent_id=agent_id,
            agent_home=str(self._dir / agent_id),
            kind=AgentKind.CHILD if private else AgentKind.NAMED,
            visibility=Visibility.PRIVATE if private else Visibility.PUBLIC,
            ownership=Ownership.PARENT_SUPERVISED if private else Ownership.SELF_OWNED,
            profile_preset=ProfilePreset.PRIVATE_CHILD if private else ProfilePreset.PUBLIC_NAMED,
            status=RegistryStatus.ACTIVE,
            created_at=moment(now_ms),
            parent_agent_id=context.agent.agent_id if private else None,
            lineage_parent_agent_id=context.agent.agent_id,
            delegated_from_task_id=task.id if task else None,
        )
        state = AgentState(id=agent_id, supervision_task_id=task.id if task else None)
        return Spawn(identity, asked.initial_message, task, context, self._limits, self._directory, state)

    async def look(self, context: CallContext) -> Any:
        return await self._views.summary(context.agent.agent_id, private=True)

    def notify(self, tx: Tx, context: CallContext, message: str) -> None:
        """To the owner; a private child's word goes to the agent that supervises it."""
        parent = context.agent.parent_agent_id
        boundary = "parent_supervisor" if parent else "primary_operator"
        tx.emit(
            parent or context.agent.agent_id,
            OperatorNotified(
                notification_id=new_id("note", tx.now_ms),
                requested_by_agent_id=context.agent.agent_id,
                target_operator_boundary=boundary,
                message=message,
            ),
            message_id=None if parent else context.envelope.id,
            turn_id=None if parent else context.turn_id,
        )

    def _task(self, context: CallContext, asked: SpawnInput, child_id: str, now_ms: int) -> TaskRecord:
        label = " ".join((asked.initial_message or "").split())[:LABEL_CHARS]
        return TaskRecord(
            id=new_id("task", now_ms),
            agent_id=context.agent.agent_id,
            kind=TaskKind.CHILD_AGENT_TASK,
            status=TaskStatus.RUNNING,
            created_at=moment(now_ms),
            updated_at=moment(now_ms),
            parent_message_id=context.envelope.id,
            summary=label,
            detail={
                "child_agent_id": child_id,
                "workspace_mode": asked.workspace_mode,
                "wait_policy": "background",
                "prompt": asked.initial_message,
            },
        )
