"""Recovery: before anything else, every open turn and claim of all agents is settled or taken up again."""

from __future__ import annotations

from collections import Counter

import msgspec

from holon.core.agents import AgentStatus
from holon.core.briefs import BriefKind
from holon.core.event_kinds import MessageQuarantined, TurnResumed
from holon.core.failures import FailureArtifact, FailureCategory
from holon.core.limits import Limits
from holon.core.messages import QueueStatus
from holon.core.turns import ToolCallStatus, Turn, TurnPhase
from holon.core.values import Value
from holon.runtime.beginning import Begun
from holon.runtime.briefing import write_brief
from holon.runtime.calls import interrupt_begun
from holon.runtime.prompting import load_prompt
from holon.runtime.rounds import Step, begin_calls, finish_tools
from holon.runtime.settling import fail, settle
from holon.runtime.standing import with_status
from holon.runtime.windows import Windows
from holon.store import Tx, agents, queue, turns
from holon.tools.registry import ToolRegistry


class Recovered(Value, frozen=True):
    resume: list[Turn]
    quarantined: int
    #: Agents that have something to do.
    ready: list[str]


def recover(tx: Tx, limits: Limits) -> Recovered:
    """One transaction over what is open, however long the history is."""
    resume: list[Turn] = []
    quarantined = 0
    left_open = turns.open_turns(tx)
    # A process that died while tools ran is put down to their turns: a poisonous call must not take with it all the
    # turns that only waited for their provider meanwhile.
    acting = any(turn.phase is TurnPhase.TOOLS and not turn.suspended for turn in left_open)
    for turn in left_open:
        suspect = not turn.suspended and (turn.phase is TurnPhase.TOOLS or not acting)
        taken = _take_up(tx, turn, _crashes(tx, turn) if suspect else turn.crashes, limits)
        if taken is None:
            quarantined += not turn.abort_requested
        else:
            resume.append(taken)
    _settle_strays(tx, {turn.agent_id for turn in resume})
    awake = agents.ids_in_status(tx, [AgentStatus.AWAKE_IDLE])  # it was about to look around: hints may wait
    return Recovered(resume, quarantined, sorted({*queue.agents_with_waiting(tx), *awake}))


def take_up_again(tx: Tx, turn: Turn, limits: Limits) -> Turn | None:
    """The same for one turn whose worker failed in this process. It counts as a crash: no turn is tried for ever."""
    return _take_up(tx, turn, _crashes(tx, turn), limits)


def _crashes(tx: Tx, turn: Turn) -> int:
    """How often the turn may have brought the process down: at this step, or by calls that it repeated since."""
    calls = turns.calls(tx, turn.id)
    fatal = Counter((call.name, call.input) for call in calls if call.status is ToolCallStatus.INTERRUPTED)
    repeated = [fatal[call.name, call.input] for call in calls if call.status is ToolCallStatus.BEGUN]
    return 1 + max(turn.crashes, *repeated, 0)


def _take_up(tx: Tx, turn: Turn, crashes: int, limits: Limits) -> Turn | None:
    """The turn, ready to go on; `None` if it was settled instead."""
    if turn.abort_requested:
        stored = agents.get(tx, turn.agent_id)
        assert stored is not None
        settle(tx, stored.state, turn, limits, aborted="aborted by the operator")
        return None
    if crashes >= limits.crash_attempts:
        _quarantine(tx, turn, crashes, limits)
        return None
    claimed = queue.claim_again(tx, turn.message_id)
    turn = msgspec.structs.replace(turn, crashes=crashes, suspended=False)
    turns.save(tx, turn)
    tx.emit(
        turn.agent_id,
        TurnResumed(
            turn_index=turn.turn_index,
            run_id=turn.run_id,
            attempt=claimed.entry.attempt if claimed else crashes + 1,
            phase=turn.phase,
            round=turn.round,
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    return turn


def _quarantine(tx: Tx, turn: Turn, crashes: int, limits: Limits) -> None:
    tx.emit(turn.agent_id, MessageQuarantined(attempts=crashes), message_id=turn.message_id, turn_id=turn.id)
    artifact = FailureArtifact(
        category=FailureCategory.RUNTIME,
        kind="quarantined",
        summary=f"the process died {crashes} times at the same step of this turn; the message is set aside."
        f" See 'holon transcript --agent {turn.agent_id}', then send it again, changed",
    )
    fail(tx, turn, artifact, limits)
    queue.settle(tx, turn.message_id, QueueStatus.DROPPED)


def set_aside(tx: Tx, agent_id: str, attempts: int, problem: BaseException) -> bool:
    """A message whose turn cannot even begin, for instance because its record cannot be read: what comes behind it
    must not wait for ever. Whoever sent it is told."""
    message_id = queue.take_head(tx, agent_id, QueueStatus.DROPPED)
    if message_id is None:
        return False
    tx.emit(agent_id, MessageQuarantined(attempts=attempts), message_id=message_id)
    text = (
        f"this message could not be begun in {attempts} attempts ({type(problem).__name__}: {problem})"[:500]
        + "; it is set aside. Send it again; if that does not help, see the log of the runtime"
    )
    write_brief(tx, agent_id, BriefKind.FAILURE, text, message_id=message_id)
    return True


def _settle_strays(tx: Tx, resumed: set[str]) -> None:
    """States that no open turn stands behind: they cannot come about by a step, but a restart leaves none of them."""
    for agent_id in agents.ids_in_status(tx, [AgentStatus.AWAKE_RUNNING, AgentStatus.AWAITING_TASK]):
        if agent_id not in resumed and (stored := agents.get(tx, agent_id)):
            state = with_status(tx, stored.state, AgentStatus.AWAKE_IDLE, "restart")
            agents.save_state(tx, msgspec.structs.replace(state, current_run_id=None, current_turn_id=None))
    for entry in queue.open_claims(tx):
        if turns.by_message(tx, entry.message_id) is None:
            queue.put_back(tx, entry.agent_id, entry.message_id)


def resume(tx: Tx, turn_id: str, registry: ToolRegistry, limits: Limits, windows: Windows) -> tuple[Begun, Step]:
    """Takes a turn up where it stands. Calls that had begun are not run again: the model is told."""
    turn = turns.get(tx, turn_id)
    assert turn is not None
    stored = agents.get(tx, turn.agent_id)
    envelope = queue.message(tx, turn.message_id)
    assert stored is not None and envelope is not None
    window, prompt = windows.find(tx, stored)
    begun = Begun(turn, envelope, stored, window, prompt or load_prompt(tx, stored.state, window))
    if turn.phase is not TurnPhase.TOOLS:
        return begun, Step(turn)
    interrupt_begun(tx, turn)
    calls = turns.calls(tx, turn.id, turn.round)
    following = begin_calls(tx, calls, registry)
    if following:
        return begun, Step(turn, [], following)
    return begun, finish_tools(tx, turn, stored.state, calls, limits, stored.counters.pending)


def suspend(tx: Tx) -> None:
    """An orderly shutdown: the open turns will be taken up, and the restart is no crash of theirs.

    All of them, also those that this process had not come to yet.
    """
    for turn in turns.open_turns(tx):
        turns.save(tx, msgspec.structs.replace(turn, suspended=True))
