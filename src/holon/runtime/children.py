"""Children: private agents that work for another one, each behind a task through which its parent supervises it.

A child is an ordinary agent: its turns, its queue and its rest are those of any other. What is special stands in two
transactions: the one that makes it (in the parent's tool call) and the one in which its work is done (its own rest).
It works where its parent works, or in a worktree that its task owns (`isolation`).
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import msgspec

from holon.core.agents import (
    AgentIdentity,
    AgentKind,
    AgentState,
    AgentStatus,
    Ownership,
    ProfilePreset,
    RegistryStatus,
    Visibility,
)
from holon.core.clock import moment
from holon.core.codec import to_plain
from holon.core.errors import AgentStopped, LimitMet
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
from holon.core.values import Value
from holon.core.workspaces import AGENT_HOME, ActiveWorkspace, ProjectionKind
from holon.runtime.admission import Admission, admit
from holon.runtime.directory import Directory, check_id, insert_agent
from holon.runtime.housing import Housing
from holon.runtime.isolation import Apart, Isolation
from holon.runtime.supervising import supervision_of
from holon.runtime.views import Views
from holon.store import Store, Tx, agents, tasks
from holon.templates.places import is_template_id
from holon.tools.delegation import SpawnInput
from holon.tools.registry import CallContext
from holon.workspaces import anchors
from holon.workspaces.policies import Action, ToolDenied

LABEL_CHARS = 80


class Spawn(Value, frozen=True):
    """A checked spawn: everything about it is decided but the commit."""

    identity: AgentIdentity
    message: str | None
    task: TaskRecord | None
    context: CallContext
    limits: Limits
    directory: Directory
    isolation: Isolation
    state: AgentState
    #: The worktree that its task owns.
    apart: Apart | None = None
    #: The home that was prepared from a template.
    staged: str | None = None
    #: A limit that was met before anything was made for it. It is told where it is on record too: in the transaction.
    refused: LimitMet | None = None

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
        if parent.status is AgentStatus.STOPPED:  # stopped while the call ran: what it asked for is not begun
            raise AgentStopped(f"agent {parent.id!r} is stopped", hint=f"run 'holon agent resume {parent.id}'")
        if self.task is not None and (refused := self.refused or limit_met(tx, parent.id, self.limits)):
            raise refused
        insert_agent(tx, self.identity, "spawn_agent", self._housed(parent), staged=self.staged)
        if self.message is not None:
            self._send(tx, self.message)
        if self.task is None:
            return parent
        tasks.save(tx, self.task)
        if self.apart is not None:
            self.apart.take_over(tx, parent.id, self.context.turn_id)
        tx.emit(
            parent.id,
            TaskCreated(task_id=self.task.id, task_kind=self.task.kind, summary=self.task.summary),
            message_id=self.context.envelope.id,
            turn_id=self.context.turn_id,
        )
        return msgspec.structs.replace(parent, active_task_ids=[*parent.active_task_ids, self.task.id])

    async def follow(self) -> None:
        if self.task is not None and self.apart is not None:
            self.isolation.made(self.task.id)
        await self.directory.run_errands()

    def _housed(self, parent: AgentState) -> AgentState:
        """The new agent's state: a child works where its parent works now, a public agent only has the same at hand."""
        state = msgspec.structs.replace(
            self.state,
            attached_workspaces=list(parent.attached_workspaces),
            execution_backend=parent.execution_backend,  # nobody leaves a sandbox by sending somebody else
            execution_network=parent.execution_network,
        )
        active = parent.active_workspace
        if self.task is None or self.apart is not None or active is None or active.workspace_id == AGENT_HOME:
            return state  # the home of each agent is its own
        return msgspec.structs.replace(
            state,
            active_workspace=active,
            active_workspace_id=active.workspace_id,
            cwd=parent.cwd,
            worktree_session=parent.worktree_session,
        )

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
    def __init__(
        self,
        directory: Directory,
        views: Views,
        housing: Housing,
        isolation: Isolation,
        agents_dir: Path,
        limits: Limits,
        store: Store,
    ) -> None:
        self._directory, self._views, self._dir, self._limits = directory, views, agents_dir, limits
        self._housing, self._isolation, self._store = housing, isolation, store

    async def plan_spawn(self, context: CallContext, asked: SpawnInput) -> Spawn:
        now_ms = self._store.clock.now_ms()
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
        state, apart, refused = AgentState(id=agent_id, supervision_task_id=task.id if task else None), None, None
        if task is not None and asked.workspace_mode == "worktree":
            refused = await self._store.read(lambda tx: limit_met(tx, context.agent.agent_id, self._limits))
            if refused is None:  # a worktree is too much work to be made for nothing
                state, task, apart = await self._set_apart(context, state, task)
        return Spawn(
            identity,
            asked.initial_message,
            task,
            context,
            self._limits,
            self._directory,
            self._isolation,
            state,
            apart,
            await self._stage(context, agent_id, asked.template) if asked.template else None,
            refused,
        )

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

    async def _stage(self, context: CallContext, agent_id: str, template: str) -> str:
        """A home from a template. A path or a URL would read where a sandboxed agent may not: it names ids only."""
        if (await self._housing.place(context.agent)).backing.sandboxed and not is_template_id(template):
            raise ToolDenied(
                "in a sandbox only a template's id can be named", hint="give an id, or ask your owner to make the agent"
            )
        return (await self._directory.prepare(agent_id, template)).token

    async def _set_apart(
        self, context: CallContext, state: AgentState, task: TaskRecord
    ) -> tuple[AgentState, TaskRecord, Apart]:
        """A worktree of the repository that the parent works in; the child begins at the same folder in it."""
        place = await self._housing.place(context.agent)
        place.permit(Action.WORKTREE, context.envelope)
        apart = await self._isolation.make(context, place.active, task.id)
        active = _within(place.active, apart.worktree.path)
        state = msgspec.structs.replace(
            state,
            active_workspace=active,
            active_workspace_id=active.workspace_id,
            cwd=active.cwd,
            worktree_session=to_plain(apart.worktree.session(Path(place.active.cwd))),
        )
        detail = {**(task.detail or {}), "worktree": to_plain(apart.worktree.for_task())}
        return state, msgspec.structs.replace(task, detail=detail), apart

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


def limit_met(tx: Tx, parent_id: str, limits: Limits) -> LimitMet | None:
    """The limit that stands against one more child of this agent, if one does. It reads who lives, not who lived."""
    if agents.depth(tx, parent_id, limits.child_depth) >= limits.child_depth:
        return LimitMet(
            f"you are {limits.child_depth} children deep, and children there have none of their own",
            limit="child_depth",
            value=limits.child_depth,
            hint="do this work yourself, or say in your result what is left to do (limits.child_depth)",
        )
    if (living := tasks.count_children(tx, parent_id)) >= limits.live_children:
        return LimitMet(
            f"you have {living} children at work, and no more than {limits.live_children} at a time",
            limit="live_children",
            value=limits.live_children,
            hint="TaskList shows them: wait for one with TaskOutput, or end one with TaskStop (limits.live_children)",
        )
    if (living := tasks.count_children(tx)) >= limits.home_children:
        return LimitMet(
            f"all agents of this home together have {living} children at work, and no more than {limits.home_children}",
            limit="home_children",
            value=limits.home_children,
            hint="wait for one of yours (TaskList, TaskOutput), end one with TaskStop, or do this work yourself"
            " (limits.home_children)",
        )
    return None


def _within(active: ActiveWorkspace, worktree: Path) -> ActiveWorkspace:
    """The parent's workspace, with the worktree as its root."""
    root, cwd = PurePath(active.execution_root), PurePath(active.cwd)
    below = worktree / cwd.relative_to(root) if cwd.is_relative_to(root) else worktree
    return msgspec.structs.replace(
        active,
        execution_root=str(worktree),
        execution_root_id=anchors.detect(worktree).execution_root_id,
        projection_kind=ProjectionKind.GIT_WORKTREE_ROOT,
        cwd=str(below if below.is_dir() else worktree),
    )
