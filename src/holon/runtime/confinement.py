"""Confinement: on which backend an agent's commands run, and whether a sandboxed one reaches the network.

As the runtime is set, unless an operator chose for the agent.

A change touches commands that start later: one that runs goes on where it began. Agents that an agent makes get its
choice with them, so that nobody leaves a sandbox by sending somebody else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from holon.core.agents import AgentState
from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.core.event_kinds import AgentBackendSet
from holon.core.policy import BackendChoice, BackendState, ExecutionPolicy, ExecutionProfile
from holon.core.transitions import Transition
from holon.providers.contract import ToolSpec
from holon.runtime.admission import require_agent
from holon.store import Store, Tx, agents
from holon.workspaces.git_cell import GitCell
from holon.workspaces.policies import (
    Action,
    ExecutionBackend,
    PolicyOptions,
    choose,
    permitted,
    policy_for,
    profile_for,
)
from holon.workspaces.sandbox import SandboxProbe, probe


class BackendOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    backend: BackendState
    changed: bool


class Own(NamedTuple):
    """What an operator chose for one agent; None where it follows the runtime."""

    backend: BackendChoice | None
    network: bool | None

    @classmethod
    def of(cls, state: AgentState) -> Own:
        return cls(state.execution_backend, state.execution_network)


class Backing(NamedTuple):
    """What stands behind an agent's commands."""

    backend: BackendState
    profile: ExecutionProfile
    policy: ExecutionPolicy
    #: What the gate lets through.
    open: frozenset[Action]

    @property
    def sandboxed(self) -> bool:
        return self.policy.backend == ExecutionBackend.SANDBOXED


class Confinement:
    def __init__(
        self,
        store: Store,
        home: Path,
        default: BackendChoice,
        default_agent_id: str,
        options: PolicyOptions | None = None,
    ) -> None:
        self._store, self._home, self._default, self._default_agent = store, home, default, default_agent_id
        #: Agents of two homes may have one name: their limits are their own.
        self._mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
        self.options = options or PolicyOptions()
        #: Finds out whether this machine can confine. Not asked where nobody wants to be confined.
        self.look: Callable[[], SandboxProbe] = probe
        self._choices: dict[str, Own] = {}
        self._backings: dict[tuple[Own, SandboxProbe | None, PolicyOptions], Backing] = {}

    async def get(self, agent_id: str | None) -> BackendOutcome:
        return await self._store.read(lambda tx: self._outcome(self._state(tx, agent_id), changed=False))

    async def set(
        self,
        agent_id: str | None,
        choice: BackendChoice | UnsetType | None = UNSET,
        *,
        network: bool | UnsetType | None = UNSET,
        surface: str,
        force: bool = False,
    ) -> BackendOutcome:
        """Gives the agent a backend or a network of its own, from its next command on; `None` lets it follow the
        runtime's again, what is not given stays. The private agents that work for it follow. A sandbox that cannot be
        made here is refused, or forced."""
        if choice is BackendChoice.SANDBOXED and not force and not self.look().available:
            raise InvalidInput(
                f"commands cannot be confined here: {self.look().reason}",
                hint="choose auto, which takes the host until a sandbox can be made; with --force (force: true) "
                "the agent runs no commands until then",
                field="backend",
            )

        def step(tx: Tx) -> BackendOutcome:
            state = self._state(tx, agent_id)
            given = {"execution_backend": choice, "execution_network": network}
            chosen = {name: value for name, value in given.items() if value is not UNSET}
            if all(getattr(state, name) == value for name, value in chosen.items()):
                return self._outcome(state, changed=False)
            for each in (state, *_below(tx, state.id)):
                changed = msgspec.structs.replace(each, **chosen)
                agents.save_state(tx, changed)
                before, now = self.of(each).backend, self.of(changed).backend
                tx.emit(
                    each.id,
                    AgentBackendSet(
                        choice=now.choice,
                        before=before.choice,
                        backend=now.effective,
                        reason=now.reason,
                        network=now.network,
                        surface=surface,
                    ),
                )
            return self._outcome(msgspec.structs.replace(state, **chosen), changed=True)

        outcome = await self._store.write(step, at=Transition.AGENT_CONTROL)
        self._choices.clear()
        return outcome

    def of(self, state: AgentState) -> Backing:
        return self._backing(Own.of(state))

    def group_of(self, agent_id: str) -> str:
        """Whose limits the agent's sandboxed commands share."""
        return f"{agent_id}-{self._mark}"

    def git_cell(self, tx: Tx, agent_id: str) -> GitCell | None:
        """Where the runtime's own git works for this agent; None: as on the host."""
        stored = agents.get(tx, agent_id)
        if stored is None or not self.of(stored.state).sandboxed:
            return None
        return GitCell(
            agent_home=Path(stored.identity.agent_home),
            holon_home=self._home,
            group=self.group_of(agent_id),
            memory_bytes=self.options.memory_bytes,
            processes=self.options.process_count,
        )

    def offered(self, agent_id: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        """The tools that can do something for this agent: what the gate denies anyway is not offered."""
        if agent_id not in self._choices:
            stored = self._store.read_now(lambda tx: agents.get(tx, agent_id))
            self._choices[agent_id] = Own.of(stored.state) if stored else Own(None, None)
        open_ = self._backing(self._choices[agent_id]).open
        return [tool for tool in tools if _NEEDS.get(tool.name, open_) <= open_]

    def _backing(self, own: Own) -> Backing:
        choice = own.backend or self._default
        found = None if choice is BackendChoice.HOST_LOCAL else self.look()
        known = (own, found, self.options)
        if known not in self._backings:
            self._backings[known] = self._find_backing(own, choice, found)
        return self._backings[known]

    def _find_backing(self, own: Own, choice: BackendChoice, found: SandboxProbe | None) -> Backing:
        chosen, options = choose(choice, found), self.options
        if own.network is not None:
            options = msgspec.structs.replace(options, network=own.network)
        profile, policy = profile_for(chosen.backend, options), policy_for(chosen.backend, options, found)
        return Backing(
            BackendState(
                source="agent_override" if own.backend else "runtime_default",
                choice=choice,
                effective=chosen.backend,
                reason=chosen.reason,
                network=options.network or chosen.backend is ExecutionBackend.HOST_LOCAL,
            ),
            profile,
            policy,
            frozenset(action for action in Action if permitted(action, profile, policy)),
        )

    def _state(self, tx: Tx, agent_id: str | None) -> AgentState:
        return require_agent(tx, agent_id or self._default_agent).state

    def _outcome(self, state: AgentState, *, changed: bool) -> BackendOutcome:
        return BackendOutcome(agent_id=state.id, backend=self.of(state).backend, changed=changed)


#: What a tool cannot do without. Others need nothing of the machine, or say in their answer what is missing.
_NEEDS = {"ExecCommand": {Action.PROCESS}, "ExecCommandBatch": {Action.PROCESS}}


def _below(tx: Tx, agent_id: str) -> Iterator[AgentState]:
    """The private agents that work for this one, and those that work for them."""
    for child in agents.children(tx, agent_id):
        yield child.state
        yield from _below(tx, child.identity.agent_id)
