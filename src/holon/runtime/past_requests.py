"""Past requests: made again from what is stored, and compared with what the ledger kept of them.

The head of a request is stored byte for byte with its epoch, the rest of it is the transcript up to its newest entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from holon.context.drift import Chain, find_drift
from holon.context.epochs import Epoch
from holon.context.window import Window, WindowItem, tokens_of, window_of
from holon.core.codec import Record, dumps
from holon.core.errors import NotFound
from holon.core.ledger import CallRecord
from holon.core.usage import InputBuckets
from holon.core.values import Value
from holon.runtime.admission import require_agent
from holon.runtime.prompting import head_chain, locate_breach
from holon.store import Tx, calls, epochs, events, queue, transcript

#: Drifts that a comparison tells of.
MAX_DRIFTS = 10


class CallView(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the ledger."""

    call: int
    created_at: datetime
    turn_id: str
    model: str
    epoch: int
    blocks: int
    buckets: InputBuckets
    output: int
    dollars: float
    #: The share of the input that was read from the cache.
    hit_coverage: float | None


class Verification(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Whether a request that was made again is the one that was sent, byte for byte; if not, where it differs first."""

    verified: bool
    difference: str | None = None
    position: int | None = None
    source: str | None = None


class DriftView(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A drift that was noticed when it happened."""

    event_seq: int
    ts: datetime
    position: int
    source: str
    lost_tokens: int
    lost_dollars: float


class PromptDiff(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Two requests that follow one another."""

    agent_id: str
    older: CallView
    newer: CallView
    #: Whether the newer one is the older one plus what is new.
    extends: bool
    added_blocks: int
    added_tokens: int
    #: The same in words.
    sentence: str
    position: int | None
    source: str | None
    was_source: str | None
    drifts: list[DriftView]


def compare(tx: Tx, agent_id: str, number: int | None) -> PromptDiff:
    """A call and the one before it: the newest two, unless one is named."""
    require_agent(tx, agent_id)
    newest = calls.newest(tx, agent_id)
    number = number if number is not None else newest.seq if newest else 0
    if number < 2:
        raise NotFound(
            f"agent {agent_id!r} has not made two requests yet",
            hint=f"say something to it: 'holon prompt -a {agent_id}'",
        )
    older, newer = find_call(tx, agent_id, number - 1), find_call(tx, agent_id, number)
    epoch, window = stored_request(tx, newer)
    chain = chain_of(epoch, window.entries)
    found = _compare(tx, older, newer, epoch, window, chain)
    return PromptDiff(
        agent_id=agent_id,
        older=call_view(older),
        newer=call_view(newer),
        extends=found is None,
        added_blocks=newer.blocks - older.blocks if found is None else 0,
        added_tokens=sum(link.tokens for link in chain.links[older.blocks :]) if found is None else 0,
        sentence=found.sentence if found else _extension(older, newer, chain),
        position=found.position if found else None,
        source=found.source if found else None,
        was_source=found.was_source if found else None,
        drifts=_drifts(tx, agent_id),
    )


class _Difference(Value, frozen=True):
    sentence: str
    position: int | None
    source: str | None
    was_source: str | None


def _compare(
    tx: Tx, older: CallRecord, newer: CallRecord, epoch: Epoch, window: Window, chain: Chain
) -> _Difference | None:
    """The first difference of two requests; `None` if the newer one extends the older one."""
    verification = verify(tx, newer, epoch, window, chain)
    if not verification.verified:
        return _Difference(
            f"call {newer.seq} cannot be made again as it was sent: {verification.difference}",
            verification.position,
            verification.source,
            verification.source,
        )
    if older.epoch != newer.epoch:
        before_epoch, before = stored_request(tx, older)
        drift = find_drift(chain_of(before_epoch, before.entries), chain)
        position, source = (drift.position, drift.source) if drift else (len(chain.links), "(end)")
        return _Difference(
            f"call {newer.seq} began epoch {newer.epoch} ({epoch.reason}); the first difference is block {position},"
            f" {source}",
            position,
            source,
            drift.was_source if drift else "(end)",
        )
    if chain.names(older.blocks) == older.chain:
        return None
    breach = locate_breach(tx, epoch, chain, older.seq)
    position, source = (breach.position, breach.source) if breach else (0, "(stored prompt)")
    return _Difference(
        f"the prompt drifted between call {older.seq} and call {newer.seq}: the first difference is block {position},"
        f" {source}",
        position,
        source,
        source,
    )


def _extension(older: CallRecord, newer: CallRecord, chain: Chain) -> str:
    added = chain.links[older.blocks :]
    tokens = sum(link.tokens for link in added)
    return f"call {newer.seq} extends call {older.seq} by {len(added)} blocks, {tokens:,} tokens"


def find_call(tx: Tx, agent_id: str, number: int) -> CallRecord:
    found = calls.get(tx, agent_id, number)
    if found is None:
        newest = calls.newest(tx, agent_id)
        raise NotFound(
            f"agent {agent_id!r} has no call {number} in its ledger",
            hint=f"its newest call is {newest.seq}; retention takes the oldest" if newest else "it has made none yet",
        )
    return found


def stored_request(tx: Tx, call: CallRecord) -> tuple[Epoch, Window]:
    """The epoch and the window of a call, as they are stored."""
    epoch = epochs.get(tx, call.agent_id, call.epoch, Epoch)
    if epoch is None:
        raise NotFound(
            f"the prompt of call {call.seq} is gone: retention took epoch {call.epoch}",
            hint="its cost is still in 'holon cost'; ask for a newer call",
        )
    entries = transcript.after(tx, call.agent_id, epoch.after_seq, limit=max(0, call.upto_seq - epoch.after_seq))
    entries = [entry for entry in entries if entry.seq <= call.upto_seq]
    messages = queue.messages(tx, [entry.related_message_id for entry in entries if entry.related_message_id])
    return epoch, window_of(entries, messages, after_seq=epoch.after_seq, newest_seq=call.upto_seq)


def verify(tx: Tx, call: CallRecord, epoch: Epoch, window: Window, chain: Chain) -> Verification:
    if len(chain.links) == call.blocks and chain.head == call.chain:
        return Verification(verified=True)
    missing = call.upto_seq - epoch.after_seq - len(window.entries)
    breach = locate_breach(tx, epoch, chain, call.seq)
    position, source = (breach.position, breach.source) if breach else (0, "(stored prompt)")
    reason = f"; retention took {missing} of its entries" if missing > 0 else ""
    return Verification(
        verified=False,
        difference=f"the first difference is block {position}, {source}{reason}",
        position=position,
        source=source,
    )


def _drifts(tx: Tx, agent_id: str) -> list[DriftView]:
    return [
        DriftView(
            event_seq=event.event_seq,
            ts=event.created_at,
            position=event.payload["position"],
            source=event.payload["source"],
            lost_tokens=event.payload["lost_tokens"],
            lost_dollars=event.payload["lost_nanodollars"] / 1e9,
        )
        for event in events.newest_of(tx, agent_id, "prompt_drift", limit=MAX_DRIFTS)
    ]


def chain_of(epoch: Epoch, items: Iterable[WindowItem]) -> Chain:
    """The chain over a whole request."""
    chain = head_chain(epoch)
    for entry in items:
        chain.add(entry.source, dumps(entry.item), tokens_of(entry.item))
    return chain


def call_view(call: CallRecord) -> CallView:
    total = call.buckets.total
    return CallView(
        call=call.seq,
        created_at=call.created_at,
        turn_id=call.turn_id,
        model=call.model_ref,
        epoch=call.epoch,
        blocks=call.blocks,
        buckets=call.buckets,
        output=call.output,
        dollars=call.nanodollars / 1e9,
        hit_coverage=call.buckets.read / total if total else None,
    )
