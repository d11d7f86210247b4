"""Tools that bring skills in: `skill_search`, `skill_load`, `skill_unload`, `load_skill_instructions`.

A body is sent once; later requests get a pointer to where it stands. Each load is budgeted and on record.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

import msgspec

from holon.core.codec import Input, dumps
from holon.core.errors import HolonError
from holon.core.skills import ActivationBudget, ActivationBudgetExhausted, LoadedThing, LoadReason
from holon.core.tokens import estimate
from holon.skills.activation import Pointer, SkillActivationRegistry
from holon.skills.bodies import heading, load_body
from holon.skills.descriptors import SkillDescriptor
from holon.skills.hits import MAX_HITS, Found
from holon.skills.library import Library
from holon.skills.recording import (
    Cause,
    Costing,
    free,
    record_activation,
    record_pointer,
    record_reference,
    record_refusal,
    record_unload,
)
from holon.store import Store, activations
from holon.tools.envelope import ToolError, ToolFailure
from holon.tools.registry import CallContext, Tool, ToolOutcome

log = logging.getLogger("holon.skills")


class SkillSearchInput(Input, frozen=True, kw_only=True):
    query: Annotated[str, msgspec.Meta(description="What you want to do, in a few words. Empty lists all.")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_HITS, description="How many to show.")] = 10


class SkillLoadInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(description="The skill's name, as the index or skill_search shows it.")]


class SkillUnloadInput(Input, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(description="A loaded skill that you no longer need.")]


class ReferenceInput(Input, frozen=True, kw_only=True):
    skill_name: Annotated[str, msgspec.Meta(description="The skill's name.")]
    reference: Annotated[str, msgspec.Meta(description="One of its references: the listed path, or its file name.")]
    page: Annotated[int, msgspec.Meta(ge=1, description="Of a long reference, which page.")] = 1


class SkillTools:
    def __init__(
        self, store: Store, library: Library, budget: ActivationBudget | None = None, costing: Costing = free
    ) -> None:
        self._store, self._library = store, library
        self._budget, self._costing = budget or ActivationBudget(), costing

    def tools(self) -> list[Tool]:
        return [
            Tool(
                name="skill_search",
                description=(
                    "Find skills for a task: ranked over their names, descriptions, bodies and references. Shows which"
                    " references each has. Loads nothing."
                ),
                input_type=SkillSearchInput,
                run=self.search,
                read_only=True,
            ),
            Tool(
                name="skill_load",
                description=(
                    "Load a skill's instructions (its SKILL.md) before you follow them. They stay in the conversation;"
                    f" a session can load {self._budget.max_skills} skills, so load what the task needs."
                ),
                input_type=SkillLoadInput,
                run=self.load,
            ),
            Tool(
                name="skill_unload",
                description=(
                    "Mark a loaded skill as no longer needed. It leaves when the conversation is next compacted, and"
                    " its budget comes back then."
                ),
                input_type=SkillUnloadInput,
                run=self.unload,
            ),
            Tool(
                name="load_skill_instructions",
                description=(
                    "Load one reference file of a skill, by its listed path or file name. Only listed references can"
                    " be loaded; skill_search and skill_load name them."
                ),
                input_type=ReferenceInput,
                run=self.load_reference,
            ),
        ]

    async def search(self, context: CallContext, asked: SkillSearchInput) -> ToolOutcome:
        found = await asyncio.to_thread(self._library.search, context.agent, asked.query, asked.limit)
        active = await self._store.read(lambda tx: activations.of_agent(tx, context.agent.agent_id))
        loaded = {each.name for each in active if each.shown}
        if not found:
            text = f"no skill matches {asked.query!r}: try other words, or an empty query to list all"
        else:
            text = "\n".join(_shown(hit, hit.skill.name in loaded) for hit in found)
        return ToolOutcome(content=text, summary=f"{len(found)} skills for {asked.query!r}")

    async def load(self, context: CallContext, asked: SkillLoadInput) -> ToolOutcome:
        cause = _cause(context)
        try:
            skill = await asyncio.to_thread(self._library.find, context.agent, asked.name)
            body = await asyncio.to_thread(load_body, skill)
            registry = await self._registry(context)
            decision = registry.decide_load(skill.name, body.version, body.tokens)
        except HolonError as error:
            raise await self._refused(cause, LoadedThing.SKILL, asked.name, error) from error
        if isinstance(decision, Pointer):
            return ToolOutcome(
                content=_pointer(skill, decision),
                summary=f"{skill.name} is already loaded",
                effect=lambda tx: record_pointer(tx, cause, skill.name),
            )
        if decision.warns:
            log.warning("agent %s has loaded %d tokens of skills in its session", cause.agent_id, decision.total_tokens)
        return ToolOutcome(
            content=body.text + _reference_line(skill),
            summary=f"loaded {skill.name}, {body.tokens} tokens",
            effect=lambda tx: record_activation(tx, cause, skill, body, LoadReason.ON_DEMAND, self._costing),
        )

    async def unload(self, context: CallContext, asked: SkillUnloadInput) -> ToolOutcome:
        registry = await self._registry(context)
        known = registry.get(asked.name)
        if known is None:
            loaded = ", ".join(sorted(each.name for each in registry.explicit)) or "none"
            raise ToolFailure(
                ToolError(
                    kind="skill_not_loaded",
                    message=f"skill {asked.name[:100]!r} is not loaded",
                    recovery_hint=f"loaded skills: {loaded}",
                )
            )
        if not known.load_reason.explicit:
            text = f"{known.name} stands in the system prompt and takes no budget: there is nothing to free"
            return ToolOutcome(content=dumps({"ok": True, "note": text}), summary=f"{known.name} is preloaded")
        return ToolOutcome(
            content=dumps(
                {
                    "ok": True,
                    "name": known.name,
                    "frees_tokens": known.explicit_tokens,
                    "when": "at the next compaction of this conversation; until then it still counts",
                }
            ),
            summary=f"{known.name} leaves at the next epoch",
            effect=lambda tx: record_unload(tx, context.agent.agent_id, known.name),
        )

    async def load_reference(self, context: CallContext, asked: ReferenceInput) -> ToolOutcome:
        cause = _cause(context)
        try:
            skill = await asyncio.to_thread(self._library.find, context.agent, asked.skill_name)
            reference, shown = await asyncio.to_thread(self._library.reference, skill, asked.reference, context.turn_id)
            if asked.page > reference.pages:
                raise ToolFailure(
                    ToolError(
                        kind="invalid_tool_input",
                        message=f"{reference.path} has {reference.pages} pages, not {asked.page}",
                        details={"field": "page"},
                        recovery_hint=f"ask for page 1 to {reference.pages}",
                    )
                )
            text = reference.page(asked.page)
            tokens = estimate(text)
            if asked.page in shown:
                note = f"{reference.path} of {skill.name} was loaded in this turn: read it above"
                return ToolOutcome(content=dumps({"ok": True, "already_loaded": True, "note": note}), summary=note)
            (await self._registry(context)).decide_tokens(tokens)
        except HolonError as error:
            raise await self._refused(cause, LoadedThing.REFERENCE, asked.skill_name, error) from error
        shown.add(asked.page)
        if reference.pages > 1:
            text += f"\n[page {asked.page} of {reference.pages} of {reference.path}: ask for another with page]"
        return ToolOutcome(
            content=text,
            summary=f"loaded {reference.path} of {skill.name}, {tokens} tokens",
            effect=lambda tx: record_reference(
                tx, cause, skill, reference.version, tokens, reference.path, self._costing
            ),
        )

    async def _registry(self, context: CallContext) -> SkillActivationRegistry:
        found = await self._store.read(lambda tx: activations.of_agent(tx, context.agent.agent_id))
        return SkillActivationRegistry(found, self._budget)

    async def _refused(self, cause: Cause, what: LoadedThing, name: str, error: HolonError) -> ToolFailure:
        """Notes the refusal and makes it an envelope. The turn goes on."""
        reason = "budget" if isinstance(error, ActivationBudgetExhausted) else error.code
        await self._store.write(lambda tx: record_refusal(tx, cause, what, name[:200], reason))
        return ToolFailure(
            ToolError(
                kind=error.code,
                message=error.message,
                details=dict(error.details) or None,
                recovery_hint=error.hint,
            )
        )


def _cause(context: CallContext) -> Cause:
    return Cause(context.agent.agent_id, context.turn_id, context.call_id)


def _shown(hit: Found, loaded: bool) -> str:
    skill = hit.skill
    line = f"- {skill.name}{' [loaded]' if loaded else ''}: {skill.description}"
    return line + (f"\n  references: {', '.join(skill.references)}" if skill.references else "")


def _reference_line(skill: SkillDescriptor) -> str:
    if not skill.references:
        return ""
    return f"\n\n[references, by load_skill_instructions({skill.name!r}, …): {', '.join(skill.references)}]"


def _pointer(skill: SkillDescriptor, pointer: Pointer) -> str:
    """Where the body stands, in the words of the context text."""
    known = pointer.activation
    if pointer.preloaded:
        where = (
            "This skill's body is already loaded in the system prompt (pre-activated\nat session start). Re-read the"
            f' system prompt section "# Skill: {skill.name}"\nfor its operating instructions.'
        )
    elif known.load_reason is LoadReason.ON_DEMAND:
        where = f'This skill\'s body is already loaded: re-read the section "# Skill: {skill.name}" above.'
    else:
        where = f"You have read this skill's SKILL.md with a command: re-read it above, or at {skill.entrypoint}."
    if pointer.changed:
        where += f"\nThe file has changed since: see {skill.entrypoint} for what is new."
    metadata = {
        "already_preloaded" if pointer.preloaded else "already_loaded": True,
        "skill_id": skill.name,
        "skill_version": known.version,
        "source": skill.scope,
        "load_size_tokens": known.tokens,
    }
    return f"{heading(skill)}\n\n{where}\n\n{dumps(metadata)}"
