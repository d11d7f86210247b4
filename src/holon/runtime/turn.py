"""The turn: a small machine of short steps, each committed before the next one begins.

    round begun ── answer ──> tools ── results ──> round begun ── … ── answer without calls ──> terminal

The step where a turn stands is on disk, so a restart takes it up there. This module only drives; what each step writes
is in `rounds`, how a turn ends is in `settling`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from holon.context.window import Window, WindowItem
from holon.core.agents import AgentIdentity
from holon.core.codec import loads, to_plain
from holon.core.conversation import TextBlock, tool_uses
from holon.core.errors import HolonError, StoreUnavailable
from holon.core.failures import FailureArtifact, FailureCategory
from holon.core.limits import Limits
from holon.core.messages import MessageEnvelope
from holon.core.models import ModelCard
from holon.core.transitions import Transition
from holon.core.turns import ToolCall, Turn, TurnPhase
from holon.core.usage import TokenUsage
from holon.providers.attempts import Candidate, RoundOutcome, run_round
from holon.providers.contract import ProviderRequest, RoundFailed
from holon.providers.failures import artifact_of
from holon.providers.models import ModelTable
from holon.providers.selection import Providers
from holon.runtime.outages import Outages
from holon.runtime.prompting import Prompt, Sent, build_request, drifted, note_drift, sent_of
from holon.runtime.rounds import Booking, CallResult, RoundTimes, Step, record_answer, record_results
from holon.runtime.settling import fail, settle
from holon.runtime.windows import Windows
from holon.store import Store, Tx, agents
from holon.tools.envelope import TRUNCATED, ToolError, ToolFailure, receipt
from holon.tools.registry import CallContext, ToolRegistry
from holon.workspaces.names import printable

log = logging.getLogger("holon.turn")

T = TypeVar("T")
MAX_OUTPUT_TOKENS = 8_192


class NextRound(NamedTuple):
    """A request that is ready, and what the books will want to know of it."""

    card: ModelCard
    request: ProviderRequest
    sent: Sent
    candidates: list[Candidate]
    build_ms: float


@dataclass(slots=True)
class LiveTurn:
    """A turn that this process drives now."""

    turn: Turn
    envelope: MessageEnvelope
    identity: AgentIdentity
    window: Window
    prompt: Prompt
    begun: list[ToolCall]
    used: TokenUsage = field(default_factory=TokenUsage)
    nanodollars: int = 0
    next_round: NextRound | None = None
    #: Its task, while that waits on something outside the store: a provider or a tool. An abort ends the wait.
    current: asyncio.Task[Any] | None = None
    aborted_current: bool = False
    aborting: bool = False
    #: When it last got somewhere, on the monotonic clock; the watchdog reads it.
    progress_at: float = 0.0
    doing: str = "beginning"
    #: It has ended and nothing waits for its agent; what comes from now on announces itself.
    at_rest: bool = False

    def hear(self, piece: TextBlock) -> None:
        """A piece of the answer arrives: the model is at work, whatever the round takes."""
        self.progress_at = time.monotonic()
        self.doing = f"answering: …{' '.join(piece.text.split())[-60:]}"

    def abort(self) -> None:
        self.aborting = True
        if self.current is not None and not self.aborted_current:
            self.aborted_current = True
            self.current.cancel()


class TurnDriver:
    def __init__(
        self,
        store: Store,
        providers: Providers,
        registry: ToolRegistry,
        windows: Windows,
        models: ModelTable,
        limits: Limits,
        fallbacks: list[str],
        outages: Outages,
    ) -> None:
        self._store, self._providers, self._registry = store, providers, registry
        self._windows, self._models, self._limits, self._fallbacks = windows, models, limits, fallbacks
        self._outages = outages

    def prepare(self, live: LiveTurn) -> None:
        """Makes the request of the turn's next round. It is sent when what it was made from is on disk."""
        began = time.perf_counter()
        card = self._models.card(live.turn.model)
        request = build_request(live.turn, live.prompt, live.window, card, max_output_tokens=MAX_OUTPUT_TOKENS)
        candidates = self._providers.candidates(live.turn.model, self._fallbacks)
        took_ms = (time.perf_counter() - began) * 1000
        live.next_round = NextRound(card, request, sent_of(live.prompt, live.window), candidates, took_ms)

    async def drive(self, live: LiveTurn) -> None:
        """Drives the turn to its end. Cancelled from outside, it leaves the turn open on disk, where it stands."""
        try:
            while live.turn.phase is not TurnPhase.TERMINAL:
                live.progress_at = time.monotonic()
                if live.aborting:
                    await self._abort(live)
                elif live.turn.phase is TurnPhase.ROUND_BEGUN:
                    await self._round(live)
                else:
                    await self._work_tools(live)
        except RoundFailed as error:
            await self._fail(live, artifact_of(error), error)
        except (asyncio.CancelledError, msgspec.MsgspecError):
            raise
        except Exception as error:
            log.exception("turn %s failed", live.turn.id)
            await self._fail(live, artifact_of(error))

    async def _round(self, live: LiveTurn) -> None:
        if exceeded := self._exceeded(live):
            return await self._fail(live, exceeded)
        if live.next_round is None:
            self.prepare(live)
        assert live.next_round is not None
        (card, request, sent, candidates, build_ms), live.next_round = live.next_round, None
        if drifted(live.prompt):
            await self._commit(live, lambda tx: note_drift(tx, live.turn, live.prompt, card), Transition.AUDIT)
        started_ms, started = self._store.clock.now_ms(), time.perf_counter()
        live.doing = f"waiting for {live.turn.model}, round {live.turn.round}"
        outcome: RoundOutcome | None = await self._outside(
            live,
            run_round(
                request,
                candidates,
                policy=self._providers.policy,
                timeout_ms=self._limits.round_timeout_ms,
                on_progress=live.hear,
            ),
        )
        if outcome is None:
            return None
        times = RoundTimes(
            context_build_ms=build_ms,
            started_ms=started_ms,
            completed_ms=self._store.clock.now_ms(),
            round_ms=(time.perf_counter() - started) * 1000,
        )
        calls = tool_uses(outcome.response.blocks)
        winner = outcome.timeline.winning_model_ref or live.turn.model
        booking = Booking(card if winner == live.turn.model else self._models.card(winner), sent)
        step = await self._commit(
            live,
            lambda tx: record_answer(tx, live.turn, outcome, times, booking, self._registry, self._limits),
            Transition.TURN_ROUND if calls else Transition.TURN_SETTLE,
        )
        live.prompt.was_sent(sent, request.marks)
        self._advance(live, step)
        return None

    async def _work_tools(self, live: LiveTurn) -> None:
        live.doing = "running " + ", ".join(call.name for call in live.begun)
        results: list[CallResult] | None = await self._outside(
            live, asyncio.gather(*(self._call(live, call) for call in live.begun))
        )
        if results is None:
            return
        step = await self._commit(
            live, lambda tx: record_results(tx, live.turn, results, self._registry, self._limits), Transition.TOOL_DONE
        )
        self._advance(live, step)
        for result in results:
            if result.outcome and result.outcome.after:
                await result.outcome.after()

    async def _call(self, live: LiveTurn, call: ToolCall) -> CallResult:
        began = time.perf_counter()
        context = CallContext(
            agent=live.identity,
            envelope=live.envelope,
            turn_id=live.turn.id,
            run_id=live.turn.run_id,
            call_id=call.call_id,
            aborted=lambda: live.aborting,
        )
        if call.truncated and not self._registry.read_only(call.name):
            return self._failed_call(call, TRUNCATED, began)
        try:
            outcome = await self._registry.call(call.name, loads(call.input, dict), context)
        except ToolFailure as failure:
            return self._failed_call(call, failure.error, began)
        except HolonError as refused:
            error = ToolError(
                kind=refused.code,
                message=refused.message,
                details=refused.details or None,
                recovery_hint=refused.hint,
                retryable=refused.status == 503,
            )
            return self._failed_call(call, error, began)
        except Exception as error:
            log.exception("tool %s failed", call.name)
            unexpected = ToolError(
                kind="tool_execution_failed", message=printable(f"{type(error).__name__}: {error}"[:500])
            )
            return self._failed_call(call, unexpected, began)
        return CallResult(call, outcome.content, outcome.summary, (time.perf_counter() - began) * 1000, outcome)

    def _failed_call(self, call: ToolCall, error: ToolError, began: float) -> CallResult:
        duration_ms = (time.perf_counter() - began) * 1000
        return CallResult(call, receipt(call.name, error), error.message, duration_ms, error=error)

    async def _outside(self, live: LiveTurn, work: Awaitable[T]) -> T | None:
        """Waits for something outside the store. `None` if the operator aborted it meanwhile; but what was over at that
        very moment, of work that goes on by itself (a future), is told: its consequences must not be lost."""
        live.current = asyncio.current_task()
        assert live.current is not None
        try:
            return await work
        except asyncio.CancelledError:
            if not live.aborted_current or live.current.uncancel() > 0:  # it is the process that ends
                raise
            if isinstance(work, asyncio.Future) and work.done() and not work.cancelled() and not work.exception():
                return cast(T, work.result())
            return None
        finally:
            live.current, live.aborted_current = None, False

    async def _abort(self, live: LiveTurn) -> None:
        def end(tx: Tx) -> None:
            stored = agents.get(tx, live.turn.agent_id)
            assert stored is not None
            settle(tx, stored.state, live.turn, self._limits, aborted="aborted by the operator")

        await self._commit(live, end, Transition.TURN_FAIL)
        live.turn = msgspec.structs.replace(live.turn, phase=TurnPhase.TERMINAL)

    async def _fail(self, live: LiveTurn, artifact: FailureArtifact, error: RoundFailed | None = None) -> None:
        timeline = to_plain(error.timeline) if error else None
        usage = error.timeline.aggregated_token_usage if error else None
        await self._commit(
            live,
            lambda tx: fail(tx, live.turn, artifact, self._limits, timeline=timeline, usage=usage),
            Transition.TURN_FAIL,
        )
        live.turn = msgspec.structs.replace(live.turn, phase=TurnPhase.TERMINAL)

    async def _commit(self, live: LiveTurn, fn: Callable[[Tx], T], at: Transition) -> T:
        """What happened outside must not be lost to a full disk: it is written as soon as the disk takes it."""
        while True:
            try:
                written = await self._store.write(fn, at=at)
                self._outages.over(live.turn.id)
                return written
            except StoreUnavailable as error:
                live.doing = "waiting for the disk, which takes no writes"
                await self._outages.wait(live.turn.id, error)

    def _advance(self, live: LiveTurn, step: Step) -> None:
        live.turn, live.begun, live.used = step.turn, step.begun, live.used + step.used
        live.nanodollars += step.nanodollars
        live.at_rest = step.at_rest
        self.grow(live, step.added)

    def grow(self, live: LiveTurn, added: list[WindowItem]) -> None:
        self._windows.grow(live.turn.agent_id, live.window, live.prompt, added)

    def _exceeded(self, live: LiveTurn) -> FailureArtifact | None:
        if live.turn.round > self._limits.rounds_per_turn:
            return _limit("rounds_per_turn", self._limits.rounds_per_turn)
        if live.used.total_tokens > self._limits.tokens_per_turn:
            return _limit("tokens_per_turn", self._limits.tokens_per_turn)
        if live.nanodollars > self._limits.dollars_per_turn * 1e9:
            return _limit("dollars_per_turn", self._limits.dollars_per_turn)
        return None


def _limit(name: str, value: float) -> FailureArtifact:
    return FailureArtifact(
        category=FailureCategory.RUNTIME,
        kind="limit_reached",
        summary=f"the turn reached its limit of {value} ({name}); ask for less at a time, or raise limits.{name}",
        metadata={"limit": name, "value": str(value)},
    )
