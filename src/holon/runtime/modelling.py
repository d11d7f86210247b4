"""Modelling: which model an agent uses. The runtime's default, unless an operator gave the agent one of its own.

A change touches turns that begin later: a turn keeps the model that it began with. It is an audit event and no message.
"""

from __future__ import annotations

import msgspec

from holon.core.agents import AgentModelState, AgentState
from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.core.event_kinds import AgentModelOverrideCleared, AgentModelOverrideSet
from holon.core.models import ModelCard
from holon.core.transitions import Transition
from holon.providers.attempts import Rejected
from holon.providers.models import ModelTable
from holon.providers.selection import ModelRef, Providers
from holon.runtime.admission import require_agent
from holon.runtime.settings import Settings
from holon.store import Store, Tx, agents


class ModelOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    model: AgentModelState
    changed: bool


class ModelLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the model table, and whether its provider can be used here."""

    card: ModelCard
    provider: str
    supports_prompt_caching: bool
    available: bool
    #: Why it is not, and what to do.
    problem: str | None


class Modelling:
    def __init__(self, store: Store, settings: Settings, providers: Providers, models: ModelTable) -> None:
        self._store, self._settings, self._providers, self._models = store, settings, providers, models

    async def get(self, agent_id: str | None) -> ModelOutcome:
        return await self._store.read(lambda tx: self._outcome(self._state(tx, agent_id), changed=False))

    async def set(self, agent_id: str | None, model: str, *, surface: str, force: bool = False) -> ModelOutcome:
        """Gives the agent a model of its own, from its next turn on. One that cannot be used is refused, or forced."""
        self._check(model, force=force)

        def step(tx: Tx) -> ModelOutcome:
            state = self._state(tx, agent_id)
            if state.model_override == model:
                return self._outcome(state, changed=False)
            before = self.of(state).effective_model
            state = msgspec.structs.replace(state, model_override=model)
            agents.save_state(tx, state)
            tx.emit(state.id, AgentModelOverrideSet(model=model, before=before, surface=surface))
            return self._outcome(state, changed=True)

        return await self._store.write(step, at=Transition.AGENT_CONTROL)

    async def clear(self, agent_id: str | None, *, surface: str) -> ModelOutcome:
        """The agent follows the runtime's default again, with its fallbacks."""

        def step(tx: Tx) -> ModelOutcome:
            state = self._state(tx, agent_id)
            before = state.model_override
            if before is None:
                return self._outcome(state, changed=False)
            state = msgspec.structs.replace(state, model_override=None)
            agents.save_state(tx, state)
            event = AgentModelOverrideCleared(model=self._settings.model_default, before=before, surface=surface)
            tx.emit(state.id, event)
            return self._outcome(state, changed=True)

        return await self._store.write(step, at=Transition.AGENT_CONTROL)

    def listing(self) -> list[ModelLine]:
        return model_lines(self._providers, self._models)

    def of(self, state: AgentState) -> AgentModelState:
        return model_state(state, self._settings)

    def _state(self, tx: Tx, agent_id: str | None) -> AgentState:
        return require_agent(tx, agent_id or self._settings.default_agent_id).state

    def _outcome(self, state: AgentState, *, changed: bool) -> ModelOutcome:
        return ModelOutcome(agent_id=state.id, model=self.of(state), changed=changed)

    def _check(self, model: str, *, force: bool) -> None:
        ModelRef.parse(model)
        (candidate,) = self._providers.candidates(model)
        if isinstance(candidate, Rejected) and not force:
            raise InvalidInput(
                candidate.reason.message,
                hint="'holon doctor' shows what is missing; to set it all the same, add --force (force: true)",
                field="model",
            )


def model_state(state: AgentState, settings: Settings) -> AgentModelState:
    """The model that the agent's next turn begins with, and those that are tried after it."""
    effective = state.model_override or settings.model_default
    return AgentModelState(
        source="agent_override" if state.model_override else "runtime_default",
        runtime_default_model=settings.model_default,
        effective_model=effective,
        effective_fallback_models=[model for model in settings.model_fallbacks if model != effective],
        override_model=state.model_override,
    )


def model_lines(providers: Providers, models: ModelTable) -> list[ModelLine]:
    """The model table, and what the doctor says of each provider. Nothing is sent to any of them."""
    diagnoses = {diagnosis.provider: diagnosis for diagnosis in providers.doctor()}
    lines = []
    for card in models.cards():
        provider = card.model_ref.partition("/")[0]
        found = diagnoses.get(provider)
        lines.append(
            ModelLine(
                card=card,
                provider=provider,
                supports_prompt_caching=providers.supports_prompt_caching(card.model_ref),
                available=found is not None and found.available,
                problem=found.problem if found else f"there is no provider {provider!r}: configure it in 'providers'",
            )
        )
    return lines
