"""Housing: where an agent works. Its home is always there; a project is entered directly or in a copy of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holon.core.agents import AgentIdentity, AgentState
from holon.core.clock import moment
from holon.core.codec import Record, dumps, to_plain
from holon.core.event_kinds import WorkspaceDetached, WorkspaceUsed, WorktreeCreated
from holon.core.ids import new_id
from holon.core.policy import ExecutionPolicy, ExecutionProfile, ExecutionSnapshot
from holon.core.transitions import Transition
from holon.core.workspaces import (
    AGENT_HOME,
    ActiveWorkspace,
    ProjectionKind,
    WorkspaceEntry,
    WorkspaceRefused,
    attach,
    check_attached,
    check_selector,
    detach,
)
from holon.runtime.admission import require_agent
from holon.store import Store, Tx, agents, workspaces
from holon.tools.registry import CallContext, ToolOutcome
from holon.tools.workspace import UseInput
from holon.workspaces import anchors, worktrees
from holon.workspaces.environment import Surroundings, command_environment
from holon.workspaces.policies import (
    Action,
    BackendChoice,
    ExecutionBackend,
    PolicyOptions,
    choose,
    permit,
    policy_for,
    profile_for,
)
from holon.workspaces.sandbox import SandboxSpec, argv_prefix, probe


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how an agent's commands run now."""

    active: ActiveWorkspace
    env: Mapping[str, str]
    prefix: tuple[str, ...]
    profile: ExecutionProfile
    policy: ExecutionPolicy

    @property
    def root(self) -> Path:
        return Path(self.active.execution_root)

    @property
    def cwd(self) -> Path:
        return Path(self.active.cwd)


class WorkspaceView(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    active: ActiveWorkspace
    attached_workspaces: list[str]
    lost: str | None = None


class Housing:
    def __init__(self, store: Store, holon_home: Path, backend: BackendChoice, secrets: list[str]) -> None:
        self._store, self._home, self._choice, self._secrets = store, holon_home, backend, secrets
        self._options = PolicyOptions()
        self._anchors: dict[str, Path | None] = {}

    def anchor_of(self, agent_id: str) -> Path | None:
        """The project whose instructions are in force. It is the anchor, also while the agent works in a worktree."""
        if agent_id not in self._anchors:
            stored = self._store.read_now(lambda tx: agents.get(tx, agent_id))
            active = stored.state.active_workspace if stored else None
            self._anchors[agent_id] = Path(active.workspace_anchor) if active else None
        return self._anchors[agent_id]

    def backing(self) -> tuple[ExecutionProfile, ExecutionPolicy]:
        """Which tools exist on this machine, and what holds for them."""
        chosen = choose(self._choice, probe()) if self._choice is not BackendChoice.HOST_LOCAL else None
        backend = chosen.backend if chosen else ExecutionBackend.HOST_LOCAL
        sandboxed = backend is ExecutionBackend.SANDBOXED
        return (
            profile_for(backend, self._options),
            policy_for(backend, self._options, probe() if sandboxed else None),
        )

    def snapshot(self, agent: AgentIdentity, state: AgentState) -> ExecutionSnapshot:
        """Where the agent would act now, as it is stored, and under which policy. The disk is not looked at."""
        profile, policy = self.backing()
        active, home = state.active_workspace, agent.agent_home
        return ExecutionSnapshot(
            profile=profile,
            policy=policy,
            workspace_id=active.workspace_id if active else AGENT_HOME,
            workspace_anchor=active.workspace_anchor if active else home,
            execution_root=active.execution_root if active else home,
            cwd=active.cwd if active else state.cwd or home,
            execution_root_id=active.execution_root_id if active else None,
            projection_kind=active.projection_kind if active else ProjectionKind.CANONICAL_ROOT,
        )

    async def place(self, agent: AgentIdentity) -> Place:
        """The agent's workspace as it is on disk now: a root that vanished is given up for home."""
        state = await self._store.read(lambda tx: _state(tx, agent.agent_id))
        home = anchors.agent_home(Path(agent.agent_home))
        active = state.active_workspace or home.entered()
        if active.workspace_id != AGENT_HOME:
            active, _ = anchors.after_restart(active, home)
        profile, policy = self.backing()
        sandboxed = policy.backend == ExecutionBackend.SANDBOXED
        env = command_environment(
            Surroundings(
                agent_id=agent.agent_id,
                agent_home=Path(agent.agent_home),
                inherited=os.environ,
                sandboxed=sandboxed,
                secrets=self._secrets,
            )
        )
        prefix: tuple[str, ...] = ()
        if sandboxed:
            prefix = tuple(
                argv_prefix(SandboxSpec(root=Path(active.execution_root), cwd=Path(active.cwd), env=dict(env)))
            )
        return Place(active, env, prefix, profile, policy)

    async def use(self, context: CallContext, asked: UseInput) -> ToolOutcome:
        """`UseWorkspace`: detection and a worktree come first, the binding commits with the call's result."""
        check_selector(asked.path, asked.workspace_id)
        state = await self._store.read(lambda tx: _state(tx, context.agent.agent_id))
        detected = await self._find(context.agent, state, asked)
        active = detected.entered()
        guidance = anchors.guidance(detected)
        worktree = None
        if asked.mode == "isolated":
            place = await self.place(context.agent)
            permit(Action.WORKTREE, place.profile, place.policy)
            label = (asked.isolation_label or "work").replace(" ", "-")
            branch = f"holon/{context.agent.agent_id}/{label}-{new_id('b')[-6:]}"
            worktree = await worktrees.create(detected.anchor, branch)
            active = msgspec.structs.replace(
                active,
                execution_root=str(worktree.path),
                cwd=str(worktree.path),
                projection_kind=ProjectionKind.GIT_WORKTREE_ROOT,
                execution_root_id=anchors.detect(worktree.path).execution_root_id,
            )
        if asked.cwd:
            active = msgspec.structs.replace(active, cwd=str(anchors.confined_cwd(active.execution_root, asked.cwd)))
        answer = {
            "ok": True,
            "workspace_id": active.workspace_id,
            "workspace_anchor": active.workspace_anchor,
            "execution_root": active.execution_root,
            "cwd": active.cwd,
            "mode": asked.mode,
            "projection_kind": active.projection_kind,
            **({"guidance": guidance} if guidance else {}),
        }

        def bind(tx: Tx, state: AgentState) -> AgentState:
            _remember(tx, detected)
            session = worktree.session(detected.anchor) if worktree else None
            if worktree:
                tx.emit(
                    state.id, WorktreeCreated(path=str(worktree.path), branch=worktree.branch), turn_id=context.turn_id
                )
            tx.emit(
                state.id,
                WorkspaceUsed(workspace_id=active.workspace_id, execution_root=active.execution_root, mode=asked.mode),
                turn_id=context.turn_id,
            )
            return _bound(state, active, to_plain(session) if session else None)

        async def after() -> None:
            self._anchors.pop(context.agent.agent_id, None)

        return ToolOutcome(content=dumps(answer), summary=f"works in {active.execution_root}", change=bind, after=after)

    async def enter(self, agent_id: str, path: Path, *, surface: str) -> WorkspaceView:
        """The operator's way: attaches the workspace of a path and makes it the active one."""
        detected = anchors.detect(path)

        def step(tx: Tx) -> WorkspaceView:
            stored = require_agent(tx, agent_id, private=True)
            _remember(tx, detected)
            active = detected.entered()
            state = _bound(stored.state, active, None)
            agents.save_state(tx, state)
            tx.emit(
                agent_id,
                WorkspaceUsed(workspace_id=active.workspace_id, execution_root=active.execution_root, mode="direct"),
            )
            return WorkspaceView(agent_id=agent_id, active=active, attached_workspaces=state.attached_workspaces)

        view = await self._store.write(step, at=Transition.AGENT_CONTROL)
        self._anchors.pop(agent_id, None)
        return view

    async def leave(self, agent_id: str, workspace_id: str, *, surface: str) -> WorkspaceView:
        """Detaches a workspace that is not the active one. Nothing on disk is touched."""

        def step(tx: Tx) -> WorkspaceView:
            stored = require_agent(tx, agent_id, private=True)
            state = stored.state
            left = detach(state.attached_workspaces, state.active_workspace_id, workspace_id)
            state = msgspec.structs.replace(state, attached_workspaces=left)
            agents.save_state(tx, state)
            tx.emit(agent_id, WorkspaceDetached(workspace_id=workspace_id))
            active = state.active_workspace or anchors.agent_home(Path(stored.identity.agent_home)).entered()
            return WorkspaceView(agent_id=agent_id, active=active, attached_workspaces=left)

        return await self._store.write(step, at=Transition.AGENT_CONTROL)

    async def look(self, agent: AgentIdentity) -> WorkspaceView:
        place = await self.place(agent)
        state = await self._store.read(lambda tx: _state(tx, agent.agent_id))
        return WorkspaceView(
            agent_id=agent.agent_id, active=place.active, attached_workspaces=state.attached_workspaces
        )

    async def _find(self, agent: AgentIdentity, state: AgentState, asked: UseInput) -> anchors.Detected:
        if asked.path is not None:
            given = Path(asked.path)
            base = Path((await self.place(agent)).active.cwd)
            return anchors.detect(given if given.is_absolute() else base / given)
        workspace_id = str(asked.workspace_id)
        if workspace_id == AGENT_HOME:
            return anchors.agent_home(Path(agent.agent_home))
        check_attached(state.attached_workspaces, workspace_id)
        entry = await self._store.read(lambda tx: workspaces.get(tx, workspace_id))
        if entry is None:
            raise WorkspaceRefused(
                f"workspace {workspace_id!r} is unknown to this host", hint="attach it again by its path"
            )
        return anchors.detect(entry.workspace_anchor)


def _remember(tx: Tx, detected: anchors.Detected) -> None:
    if detected.workspace_id == AGENT_HOME or workspaces.get(tx, detected.workspace_id) is not None:
        return
    workspaces.save(
        tx,
        WorkspaceEntry(
            workspace_id=detected.workspace_id,
            workspace_anchor=str(detected.anchor),
            created_at=moment(tx.now_ms),
            updated_at=moment(tx.now_ms),
            workspace_kind=detected.kind,
            repo_name=detected.repo_name,
        ),
    )


def _bound(state: AgentState, active: ActiveWorkspace, session: dict[str, object] | None) -> AgentState:
    return msgspec.structs.replace(
        state,
        active_workspace=active,
        active_workspace_id=active.workspace_id,
        cwd=active.cwd,
        attached_workspaces=attach(state.attached_workspaces, active.workspace_id),
        worktree_session=session,
    )


def _state(tx: Tx, agent_id: str) -> AgentState:
    return require_agent(tx, agent_id, private=True).state
