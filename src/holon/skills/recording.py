"""Recording: loads and activations as they happen, each in the transaction of what caused it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from holon.core.clock import moment
from holon.core.event_kinds import SkillActivated
from holon.core.ids import new_id
from holon.core.skills import (
    ActivationState,
    LoadedThing,
    LoadReason,
    LoadRecord,
    SkillActivation,
)
from holon.core.values import Value
from holon.skills.bodies import Body
from holon.skills.descriptors import SkillDescriptor
from holon.store import Tx, activations, agents, loads, turns

#: What it costs to bring so many tokens into a prompt of a model, in nanodollars.
Costing = Callable[[str, int], int]


def free(_model_ref: str, _tokens: int) -> int:
    return 0


class Cause(Value, frozen=True):
    """Who loads, in which turn, by which call. Without a turn it is the runtime, at the start of an epoch."""

    agent_id: str
    turn_id: str | None = None
    call_id: str | None = None


def record_activation(
    tx: Tx,
    cause: Cause,
    skill: SkillDescriptor,
    body: Body,
    reason: LoadReason,
    costing: Costing = free,
    *,
    path: Path | None = None,
    session_id: str | None = None,
    epoch: int | None = None,
) -> None:
    """A skill came in: activation, ledger and event together. What is already counted is not counted again."""
    stored = agents.get(tx, cause.agent_id)
    assert stored is not None, f"agent {cause.agent_id} is gone"
    session = session_id or stored.state.session_id
    number = stored.state.epoch if epoch is None else epoch
    known = activations.get(tx, cause.agent_id, skill.name)
    if known is not None and known.load_reason.explicit:
        now = _used_again(known, cause, reason)
        loads.mark_used(tx, cause.agent_id, skill.name, session)
    else:
        now = SkillActivation(
            name=skill.name,
            state=ActivationState.TURN_ACTIVE if cause.turn_id else ActivationState.SESSION_ACTIVE,
            load_reason=reason,
            source=skill.scope,
            version=body.version,
            tokens=body.tokens,
            entrypoint_path=str(skill.entrypoint),
            activated_at=moment(tx.now_ms),
            epoch=number,
            turn_id=cause.turn_id,
            after_seq=stored.counters.transcript_seq,
            in_head=reason is LoadReason.ALWAYS or (known is not None and known.in_head),
            shown=known is not None or reason is not LoadReason.RUN_SKILL_SCRIPT,
        )
        _book(tx, cause, LoadedThing.SKILL, skill.name, body.version, reason, body.tokens, costing, session, number)
    event = f"{cause.turn_id}:{reason}"
    activations.save(tx, cause.agent_id, msgspec.structs.replace(now, last_event=event))
    if known is not None and known.last_event == event:
        return
    tx.emit(
        cause.agent_id,
        SkillActivated(
            skill_id=skill.name,
            skill_version=body.version,
            load_reason=reason,
            load_size_tokens=body.tokens,
            source=skill.scope,
            path=str(path or skill.entrypoint),
            entrypoint_path=str(skill.entrypoint),
            session_id=session,
            triggered_by_tool_use_id=cause.call_id,
        ),
        turn_id=cause.turn_id,
    )


def record_pointer(tx: Tx, cause: Cause, name: str) -> None:
    """A skill that is already there was asked for again: it is in use. No event, and nothing is counted."""
    known = activations.get(tx, cause.agent_id, name)
    if known is None:
        return
    stored = agents.get(tx, cause.agent_id)
    loads.mark_used(tx, cause.agent_id, name, stored.state.session_id if stored else None)
    activations.save(tx, cause.agent_id, _used_again(known, cause, LoadReason.ON_DEMAND))


def record_reference(
    tx: Tx, cause: Cause, skill: SkillDescriptor, version: str, tokens: int, reference: str, costing: Costing = free
) -> None:
    """A reference came in: its tokens count, and it shows that its skill is used."""
    stored = agents.get(tx, cause.agent_id)
    session, epoch = (stored.state.session_id, stored.state.epoch) if stored else (None, 0)
    _book(tx, cause, LoadedThing.REFERENCE, skill.name, version, reference, tokens, costing, session, epoch)
    loads.mark_used(tx, cause.agent_id, skill.name, session)
    known = activations.get(tx, cause.agent_id, skill.name)
    if known is not None:
        activations.save(
            tx, cause.agent_id, msgspec.structs.replace(known, reference_tokens=known.reference_tokens + tokens)
        )


def record_refusal(tx: Tx, cause: Cause, what: LoadedThing, name: str, reason: str) -> None:
    """Somebody asked in vain; the author should know."""
    load = LoadRecord(
        id=new_id("load", tx.now_ms),
        agent_id=cause.agent_id,
        created_at=moment(tx.now_ms),
        what=what,
        name=name,
        version="",
        reason=reason,
        tokens=0,
        turn_id=cause.turn_id,
        refused=True,
    )
    loads.insert(tx, load)


def record_unload(tx: Tx, agent_id: str, name: str) -> None:
    known = activations.get(tx, agent_id, name)
    if known is not None:
        activations.save(tx, agent_id, msgspec.structs.replace(known, leaving=True))


def end_turn(tx: Tx, agent_id: str, turn_id: str, *, completed: bool, said: str = "") -> None:
    """A turn is over: what it used is active in the session if it ended well, and what it named was used."""
    active = activations.of_agent(tx, agent_id)
    if not active:
        return
    stored = agents.get(tx, agent_id)
    session = stored.state.session_id if stored else None
    for activation in active:
        if activation.name in said:
            loads.mark_used(tx, agent_id, activation.name, session)
    activations.end_turn(tx, agent_id, turn_id, completed=completed)


def begin_epoch(tx: Tx, agent_id: str, carried: Sequence[str], cut_seq: int) -> None:
    """A new epoch: what was unloaded, came to nothing or was cut off is gone; what stays stands in the head."""
    for activation in activations.of_agent(tx, agent_id):
        over = activation.leaving or activation.state is ActivationState.LAPSED
        cut_off = activation.shown and activation.after_seq < cut_seq
        if activation.name in carried:
            activations.save(tx, agent_id, msgspec.structs.replace(activation, in_head=True))
        elif over or cut_off or activation.load_reason is LoadReason.ALWAYS:
            activations.remove(tx, agent_id, activation.name)


def _used_again(known: SkillActivation, cause: Cause, reason: LoadReason) -> SkillActivation:
    state = ActivationState.TURN_ACTIVE if known.state is ActivationState.LAPSED else known.state
    return msgspec.structs.replace(
        known,
        state=state,
        turn_id=cause.turn_id if state is ActivationState.TURN_ACTIVE else known.turn_id,
        shown=known.shown or reason is not LoadReason.RUN_SKILL_SCRIPT,
        leaving=False,
    )


def _book(
    tx: Tx,
    cause: Cause,
    what: LoadedThing,
    name: str,
    version: str,
    reason: str,
    tokens: int,
    costing: Costing,
    session: str | None,
    epoch: int,
) -> None:
    turn = turns.get(tx, cause.turn_id) if cause.turn_id else None
    loads.insert(
        tx,
        LoadRecord(
            id=new_id("load", tx.now_ms),
            agent_id=cause.agent_id,
            created_at=moment(tx.now_ms),
            what=what,
            name=name,
            version=version,
            reason=reason,
            tokens=tokens,
            nanodollars=costing(turn.model, tokens) if turn else 0,
            session_id=session,
            epoch=epoch,
            turn_id=cause.turn_id,
        ),
    )
