"""Housing: where an agent works. Its home is always there; a project is entered directly or in a copy of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holon.core.agents import AgentIdentity, AgentState
from holon.core.clock import moment
from holon.core.codec import Record, dumps, to_plain
from holon.core.event_kinds import WorkspaceDetached, WorkspaceLost, WorkspaceUsed
from holon.core.ids import new_id
from holon.core.policy import BackendState, ExecutionSnapshot
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
from holon.runtime.confinement import Confinement
from holon.runtime.guarding import GitGuard
from holon.runtime.isolation import Isolation
from holon.runtime.place import STARTING, TASK_OUTPUT, Place, PlaceLost
from holon.store import Store, Tx, agents, tasks, workspaces
from holon.tools.registry import CallContext, ToolOutcome
from holon.tools.workspace import UseInput
from holon.workspaces import anchors, cgroups
from holon.workspaces.environment import Surroundings, command_environment
from holon.workspaces.places import real
from holon.workspaces.policies import Action, Attacher, ExecutionBackend, permit, permit_attachment
from holon.workspaces.sandbox import SandboxSpec


class WorkspaceView(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    active: ActiveWorkspace
    attached_workspaces: list[str]
    backend: BackendState
    #: The active folder is gone: what was lost, and where the agent goes on.
    lost: str | None = None


class Housing:
    def __init__(
        self, store: Store, holon_home: Path, confinement: Confinement, isolation: Isolation, secrets: list[str]
    ) -> None:
        self._store, self._home, self._confinement, self._secrets = store, holon_home, confinement, secrets
        self._isolation, self._guard = isolation, GitGuard(store)
        self._confined = False
        self._anchors: dict[str, Path | None] = {}

    async def recover(self) -> None:
        """Looks again after what confined commands can write that run since before the restart."""

        def busy(tx: Tx) -> list[AgentState]:
            owners = {record.agent_id for record in tasks.live_commands(tx)}
            return [stored.state for agent_id in sorted(owners) if (stored := agents.get(tx, agent_id))]

        for state in await self._store.read(busy):
            if state.active_workspace and self._confinement.of(state).sandboxed:
                self._watch(state.id, state.active_workspace)

    async def close(self) -> None:
        """Clears up after this home's sandboxes. What still runs in one keeps its own."""
        await self._guard.close()
        if self._confined:
            cgroups.clear(self._confinement.look().groups, self._confinement.group_of("*"))

    def anchor_of(self, agent_id: str) -> Path | None:
        """The project whose instructions are in force. It is the anchor, also while the agent works in a worktree."""
        if agent_id not in self._anchors:
            stored = self._store.read_now(lambda tx: agents.get(tx, agent_id))
            active = stored.state.active_workspace if stored else None
            outside = active is not None and active.workspace_id != AGENT_HOME
            self._anchors[agent_id] = Path(active.workspace_anchor) if active and outside else None
        return self._anchors[agent_id]

    def snapshot(self, agent: AgentIdentity, state: AgentState) -> ExecutionSnapshot:
        """Where the agent would act now, as it is stored, and under which policy. The disk is not looked at."""
        backend, profile, policy, _ = self._confinement.of(state)
        active, home = state.active_workspace, agent.agent_home
        return ExecutionSnapshot(
            profile=profile,
            policy=policy,
            backend=backend,
            workspace_id=active.workspace_id if active else AGENT_HOME,
            workspace_anchor=active.workspace_anchor if active else home,
            execution_root=active.execution_root if active else home,
            cwd=active.cwd if active else state.cwd or home,
            execution_root_id=active.execution_root_id if active else None,
            projection_kind=active.projection_kind if active else ProjectionKind.CANONICAL_ROOT,
        )

    async def place(self, agent: AgentIdentity) -> Place:
        """Where the agent acts now. If its folder vanished it is told so, once, instead: what it asked for was meant
        for there. From then on it is housed in what is left."""
        state = await self._store.read(lambda tx: _state(tx, agent.agent_id))
        active, lost = _standing(agent, state)
        if lost is not None:
            await self._resettle(state, active, lost)
            raise PlaceLost(
                f"{lost}; nothing was done", hint=f"you are in {active.cwd} now: go on there, or call UseWorkspace"
            )
        backing, home = self._confinement.of(state), Path(agent.agent_home)
        records = real(home) / TASK_OUTPUT
        env = command_environment(
            Surroundings(
                agent_id=agent.agent_id,
                agent_home=home,
                inherited=os.environ,
                sandboxed=backing.sandboxed,
                secrets=self._secrets,
            )
        )
        if not backing.sandboxed:
            return Place(active, env, backing, records, time_limit_s=self._confinement.options.time_limit_s)
        cell = self._cell(agent, active, env, records, network=backing.backend.network)
        return Place(active, STARTING, backing, records, cell, time_limit_s=self._confinement.options.time_limit_s)

    def _cell(
        self, agent: AgentIdentity, active: ActiveWorkspace, env: Mapping[str, str], records: Path, *, network: bool
    ) -> SandboxSpec:
        self._confined, options = True, self._confinement.options
        self._watch(agent.agent_id, active)
        records.mkdir(mode=0o700, exist_ok=True)
        return SandboxSpec(
            root=Path(active.execution_root),
            cwd=Path(active.cwd),
            env=env,
            clean=True,
            # What runners write about commands is believed after a restart: no command may write it.
            readable=(records, *(path for path in options.readable if path.exists())),
            agent_home=Path(agent.agent_home),
            holon_home=self._home,
            git_common_dir=Path(active.git_common_dir) if active.git_common_dir else None,
            network=network,
            memory_bytes=options.memory_bytes,
            processes=options.process_count,
            group=self._confinement.group_of(agent.agent_id),
        )

    def _watch(self, agent_id: str, active: ActiveWorkspace) -> None:
        common = active.git_common_dir
        if common and Path(common).parent == Path(active.execution_root):
            self._guard.watch(agent_id, Path(common))

    async def _resettle(self, state: AgentState, active: ActiveWorkspace, lost: str) -> None:
        gone = state.active_workspace_id

        def step(tx: Tx) -> None:
            now = _state(tx, state.id)
            if now.active_workspace != state.active_workspace:  # somebody was faster
                return
            kept = now.worktree_session if active.workspace_id == gone else None
            agents.save_state(tx, _bound(now, active, kept))
            tx.emit(state.id, WorkspaceLost(workspace_id=gone, execution_root=active.execution_root, lost=lost))

        await self._store.write(step, at=Transition.AGENT_CONTROL)
        self._anchors.pop(state.id, None)

    async def use(self, context: CallContext, asked: UseInput) -> ToolOutcome:
        """`UseWorkspace`: detection and a worktree come first, the binding commits with the call's result."""
        check_selector(asked.path, asked.workspace_id)
        state = await self._store.read(lambda tx: _state(tx, context.agent.agent_id))
        detected = await self._find(context.agent, state, asked)
        # What is attached was allowed before, and so is a worktree that its repository vouches for.
        attached = detected.workspace_id in state.attached_workspaces
        self._check(context.agent, state, detected, Attacher.OPERATOR if attached else Attacher.AGENT)
        active = detected.entered()
        guidance = anchors.guidance(detected)
        worktree = apart = None
        if asked.mode == "isolated":
            if detected.workspace_id == AGENT_HOME:
                raise WorkspaceRefused(
                    "your home is no repository, so there is nothing to make a worktree of",
                    hint="name a repository by path or workspace_id, or leave mode out",
                    field="mode",
                )
            _, profile, policy, _ = self._confinement.of(state)
            permit(Action.WORKTREE, profile, policy, context.envelope)
            if asked.cwd:  # known before a worktree is made for nothing
                anchors.confined_cwd(detected.execution_root, asked.cwd)
            label = (asked.isolation_label or "work").replace(" ", "-")
            branch = f"holon/{context.agent.agent_id}/{label}-{new_id('b')[-6:]}"
            apart = await self._isolation.branch_off(context, detected.anchor, branch, context.call_id)
            worktree = apart.worktree
            active = msgspec.structs.replace(
                active,
                execution_root=str(worktree.path),
                cwd=str(_same_place(worktree.path, detected)),
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
            session = worktree.session(detected.cwd) if worktree else None
            if apart:
                apart.take_over(tx, state.id, context.turn_id)
            tx.emit(
                state.id,
                WorkspaceUsed(workspace_id=active.workspace_id, execution_root=active.execution_root, mode=asked.mode),
                turn_id=context.turn_id,
            )
            return _bound(state, active, to_plain(session) if session else None)

        async def after() -> None:
            self._anchors.pop(context.agent.agent_id, None)
            if apart:
                self._isolation.made(context.call_id)

        return ToolOutcome(content=dumps(answer), summary=f"works in {active.execution_root}", change=bind, after=after)

    async def enter(
        self, agent_id: str, path: Path | None, *, workspace_id: str | None = None, surface: str
    ) -> WorkspaceView:
        """The operator's way: attaches the workspace of a path, or takes an attached one, and makes it the active."""
        check_selector(str(path) if path else None, workspace_id)
        detected = anchors.detect(path) if path else await self._attached(agent_id, str(workspace_id))

        def step(tx: Tx) -> WorkspaceView:
            stored = require_agent(tx, agent_id, private=True)
            self._check(stored.identity, stored.state, detected, Attacher.OPERATOR)
            _remember(tx, detected)
            active = detected.entered()
            state = _bound(stored.state, active, None)
            agents.save_state(tx, state)
            tx.emit(
                agent_id,
                WorkspaceUsed(
                    workspace_id=active.workspace_id,
                    execution_root=active.execution_root,
                    mode="direct",
                    surface=surface,
                ),
            )
            return self._view(stored.identity, state)

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
            tx.emit(agent_id, WorkspaceDetached(workspace_id=workspace_id, surface=surface))
            return self._view(stored.identity, state)

        return await self._store.write(step, at=Transition.AGENT_CONTROL)

    async def look(self, agent: AgentIdentity) -> WorkspaceView:
        return self._view(agent, await self._store.read(lambda tx: _state(tx, agent.agent_id)))

    def _view(self, agent: AgentIdentity, state: AgentState) -> WorkspaceView:
        active, lost = _standing(agent, state)
        return WorkspaceView(
            agent_id=agent.agent_id,
            active=active,
            attached_workspaces=state.attached_workspaces,
            backend=self._confinement.of(state).backend,
            lost=lost,
        )

    def _check(self, agent: AgentIdentity, state: AgentState, detected: anchors.Detected, by: Attacher) -> None:
        if detected.workspace_id == AGENT_HOME:
            return
        records = real(Path(agent.agent_home)) / TASK_OUTPUT
        if detected.execution_root.is_relative_to(records):
            raise WorkspaceRefused(
                f"{detected.execution_root} is where the runtime keeps what it knows of your commands",
                hint="read there what you like, and work elsewhere",
                field="path",
            )
        backend = ExecutionBackend(self._confinement.of(state).policy.backend)
        permit_attachment(
            detected,
            by,
            backend,
            self._confinement.options,
            agent_home=Path(agent.agent_home),
            holon_home=self._home,
        )

    async def _find(self, agent: AgentIdentity, state: AgentState, asked: UseInput) -> anchors.Detected:
        if asked.path is not None:
            given = Path(asked.path)
            base = Path(_standing(agent, state)[0].cwd)
            return anchors.detect(given if given.is_absolute() else base / given)
        return await self._attached(agent.agent_id, str(asked.workspace_id))

    async def _attached(self, agent_id: str, workspace_id: str) -> anchors.Detected:
        """One that the agent has already. Nothing is searched for: its anchor is known."""

        def read(tx: Tx) -> Path:
            stored = require_agent(tx, agent_id, private=True)
            if workspace_id == AGENT_HOME:
                return Path(stored.identity.agent_home)
            check_attached(stored.state.attached_workspaces, workspace_id)
            entry = workspaces.get(tx, workspace_id)
            if entry is None:
                raise WorkspaceRefused(
                    f"workspace {workspace_id!r} is unknown to this host", hint="attach it again by its path"
                )
            return Path(entry.workspace_anchor)

        anchor = await self._store.read(read)
        return anchors.agent_home(anchor) if workspace_id == AGENT_HOME else anchors.detect(anchor)


def _standing(agent: AgentIdentity, state: AgentState) -> tuple[ActiveWorkspace, str | None]:
    """The agent's workspace as it is on disk now, and what was lost: a root that vanished is given up for home."""
    home = anchors.agent_home(Path(agent.agent_home))
    active = state.active_workspace or home.entered()
    return (active, None) if active == home.entered() else anchors.after_restart(active, home)


def _same_place(worktree: Path, detected: anchors.Detected) -> Path:
    """Where the agent would be in the project itself; its top, if that folder is not part of the worktree."""
    place = worktree / detected.cwd.relative_to(detected.execution_root)
    return place if place.is_dir() and real(place) == place else worktree


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
