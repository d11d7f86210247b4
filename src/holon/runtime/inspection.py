"""Inspection: an agent's prompt shown to people, as its next turn would send it or as a past call sent it.

A past request is made again from the stored head of its epoch and the transcript up to its newest entry, and compared
with the chain that the ledger kept: so what is shown is what was sent, or it says where it is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from holon.context.drift import Chain
from holon.context.epochs import Epoch
from holon.context.window import WindowItem
from holon.core.agents import AgentSummary
from holon.core.clock import to_ms
from holon.core.codec import Record, dumps
from holon.core.conversation import ConversationItem, UserText
from holon.core.guidance import LoadedGuidance
from holon.core.ledger import CallRecord, by_section
from holon.core.models import CacheKind, ModelCard
from holon.core.policy import ExecutionSnapshot
from holon.core.prompts import PromptCache, Stability
from holon.core.usage import InputBuckets
from holon.core.values import Value
from holon.runtime.admission import require_agent
from holon.runtime.beginning import Assembly
from holon.runtime.past_requests import (
    CallView,
    PromptDiff,
    Verification,
    call_view,
    chain_of,
    compare,
    find_call,
    stored_request,
    verify,
)
from holon.runtime.prompting import GUIDELINES, Prompt, head_chain, load_prompt, missing_deltas, plan_epoch, why_open
from holon.runtime.views import Views
from holon.runtime.windows import Windows
from holon.store import Store, Tx, calls


class CacheState(StrEnum):
    READ = "read"
    WRITTEN = "written"
    FRESH = "fresh"


class BlockView(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One block of a request. Its text is there only if it was asked for."""

    position: int
    source: str
    stability: Stability
    tokens: int
    cache: CacheState
    cache_breakpoint: bool = False
    text: str | None = None


class SectionView(Record, frozen=True, kw_only=True, omit_defaults=False):
    """All blocks of one source together. `tokens` are estimated, `buckets` are as the provider counted them."""

    source: str
    stability: Stability
    #: The file or the room that it comes from.
    origin: str
    blocks: int
    tokens: int
    cache: CacheState
    buckets: InputBuckets


class PromptView(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    #: The call that is shown; nothing if it is the prompt of the next turn, whose input follows at its end.
    call: CallView | None
    newest_call: int
    model: str
    context_window_tokens: int
    epoch: int
    epoch_reason: str
    #: Whether the next turn would begin this epoch.
    opens_epoch: bool
    total_tokens: int
    cache: PromptCache
    #: Where the cache state comes from: what the provider reported, or what its published rules let expect.
    cache_state: Literal["ledger", "expected"]
    agent_home: str
    execution: ExecutionSnapshot
    loaded_agents_md: LoadedGuidance
    sections: list[SectionView]
    blocks: list[BlockView]
    verification: Verification | None = None


class Inspection:
    def __init__(
        self,
        store: Store,
        views: Views,
        assemble: Callable[[str], Awaitable[Assembly]],
        caches: Callable[[str], bool],
        default_agent_id: str,
    ) -> None:
        self._store, self._views, self._assemble = store, views, assemble
        self._caches, self._default = caches, default_agent_id

    async def prompt(self, agent_id: str | None = None, *, call: int | None = None, text: bool = False) -> PromptView:
        """The prompt of the next turn, or of a call in the ledger."""
        target = agent_id or self._default
        summary = await self._views.summary(target)
        assembly, cached = await self._assemble(target), self._caches(summary.model.effective_model)
        return await self._store.read(
            lambda tx: (
                _next(tx, summary, assembly, text=text, cached=cached)
                if call is None
                else _past(tx, summary, assembly, call, text=text)
            )
        )

    async def diff(self, agent_id: str | None = None, *, call: int | None = None) -> PromptDiff:
        """A call and the one before it: the newest two, unless one is named."""
        target = agent_id or self._default
        return await self._store.read(lambda tx: compare(tx, target, call))


class _Piece(Value, frozen=True):
    """A block with its text, before it is shown."""

    source: str
    stability: Stability
    text: str
    marked: bool = False


def expected_buckets(card: ModelCard, total: int, sent: int, *, warm: bool) -> InputBuckets:
    """How a provider would book a prompt of `total` tokens of which it was sent the first `sent` before."""
    rules = card.cache
    if rules.kind is CacheKind.NONE or total < rules.floor_tokens:
        return InputBuckets(fresh=total)
    read = sent - sent % rules.step_tokens if warm and sent >= rules.floor_tokens else 0
    reach = total - total % rules.step_tokens
    written = max(0, reach - read) if rules.kind is CacheKind.EXPLICIT else 0
    return InputBuckets(fresh=total - read - written, read=read, written=written)


def _next(tx: Tx, summary: AgentSummary, assembly: Assembly, *, text: bool, cached: bool) -> PromptView:
    """Made as `prompting.prepare` would make it, without writing anything."""
    stored = require_agent(tx, summary.identity.agent_id, private=True)
    state, last = stored.state, calls.newest(tx, stored.state.id)
    card = assembly.models.card(summary.model.effective_model)
    window = Windows().find(tx, stored).window  # from the store: the one in memory grows while this is read
    prompt = load_prompt(tx, state, window) if state.epoch else None
    reason = why_open(state, window, prompt, card, tx.now_ms, assembly.tools)
    if reason is not None:
        plan = plan_epoch(
            state,
            window,
            prompt,
            card,
            assembly.sections,
            assembly.tools,
            assembly.padding,
            reason,
            tx.now_ms,
            assembly.offer(tx),
        )
        epoch, items, prompt = plan.epoch, list(plan.kept.entries), Prompt(plan.epoch, head_chain(plan.epoch))
    else:
        assert prompt is not None
        epoch, items = prompt.epoch, list(window.entries)
        items += [
            WindowItem(0, UserText(text=delta.text), opens_turn=False, source="deltas")
            for delta in missing_deltas(state, epoch, assembly.sections, assembly.offer(tx))
        ]
    chain = chain_of(epoch, items)
    warm = (
        last is not None
        and last.model_ref == card.model_ref
        and tx.now_ms - to_ms(last.created_at) <= card.cache.lifetime_ms
        and chain.names(prompt.sent_blocks) == prompt.sent_chain
    )
    total, sent = sum(chain.tokens.values()), sum(link.tokens for link in chain.links[: prompt.sent_blocks])
    buckets = expected_buckets(card, total, sent, warm=warm) if cached else InputBuckets(fresh=total)
    return _view(
        tx, summary, assembly, epoch, items, chain, buckets, card, text=text, last=last, opens=reason is not None
    )


def _past(tx: Tx, summary: AgentSummary, assembly: Assembly, number: int, *, text: bool) -> PromptView:
    agent_id = summary.identity.agent_id
    call, newest = find_call(tx, agent_id, number), calls.newest(tx, agent_id)
    epoch, window = stored_request(tx, call)
    chain = chain_of(epoch, window.entries)
    card = assembly.models.card(call.model_ref)
    view = _view(
        tx, summary, assembly, epoch, window.entries, chain, call.buckets, card, text=text, last=newest, call=call
    )
    return msgspec.structs.replace(view, verification=verify(tx, call, epoch, window, chain))


def _view(
    tx: Tx,
    summary: AgentSummary,
    assembly: Assembly,
    epoch: Epoch,
    items: Sequence[WindowItem],
    chain: Chain,
    buckets: InputBuckets,
    card: ModelCard,
    *,
    text: bool,
    last: CallRecord | None,
    call: CallRecord | None = None,
    opens: bool = False,
) -> PromptView:
    pieces = [*_head_pieces(epoch), *(_conversation_piece(entry) for entry in items)]
    shares = list(by_section({str(n): link.tokens for n, link in enumerate(chain.links)}, buckets).values())
    cache = epoch.frame(chain.head).cache
    assert cache is not None
    return PromptView(
        agent_id=summary.identity.agent_id,
        call=call_view(call) if call else None,
        newest_call=last.seq if last else 0,
        model=card.model_ref,
        context_window_tokens=card.context_window_tokens,
        epoch=epoch.number,
        epoch_reason=epoch.reason,
        opens_epoch=opens,
        total_tokens=sum(chain.tokens.values()),
        cache=cache,
        cache_state="ledger" if call else "expected",
        agent_home=summary.identity.agent_home,
        execution=summary.execution,
        loaded_agents_md=summary.loaded_agents_md,
        sections=_sections(pieces, chain, shares, _origins(tx, assembly, epoch)),
        blocks=[
            BlockView(
                position=position,
                source=piece.source,
                stability=piece.stability,
                tokens=link.tokens,
                cache=_state(share),
                cache_breakpoint=piece.marked,
                text=piece.text if text else None,
            )
            for position, (piece, link, share) in enumerate(zip(pieces, chain.links, shares, strict=True))
        ],
    )


def _sections(
    pieces: Sequence[_Piece], chain: Chain, shares: Sequence[InputBuckets], origins: Mapping[str, str]
) -> list[SectionView]:
    found: dict[str, SectionView] = {}
    for piece, link, share in zip(pieces, chain.links, shares, strict=True):
        before = found.get(piece.source)
        total = before.buckets + share if before else share
        found[piece.source] = SectionView(
            source=piece.source,
            stability=piece.stability,
            origin=origins.get(piece.source) or piece.source,
            blocks=(before.blocks if before else 0) + 1,
            tokens=(before.tokens if before else 0) + link.tokens,
            cache=_state(total),
            buckets=total,
        )
    return list(found.values())


#: Where blocks come from that no room handed in as a section.
_ORIGINS = {
    "tools": "the tool registry",
    "summary": "compaction",
    "inputs": "the transcript",
    "answers": "the transcript",
    "tool_results": "the transcript",
    "deltas": "what changed inside the epoch",
    "agent_instructions": "AGENTS.md of the agent's home",
    "workspace_instructions": "AGENTS.md of the workspace",
    f"padding_{GUIDELINES.name}": "holon.context.guidelines",
}


def _origins(tx: Tx, assembly: Assembly, epoch: Epoch) -> dict[str, str]:
    """Where each part comes from, as far as it is known now: an epoch keeps texts and not their origins."""
    said = [*assembly.sections, *assembly.offer(tx).sections(epoch.preloaded)]
    heads = {f"padding_{name}": f"skill {name}" for name in epoch.preloaded}
    return {**_ORIGINS, **heads, **{section.id: section.origin for section in said if section.origin}}


def _head_pieces(epoch: Epoch) -> list[_Piece]:
    pieces = [_Piece("tools", Stability.AGENT_SCOPED, dumps(epoch.tools), marked=True)] if epoch.tools else []
    pieces += [_Piece(block.source, block.stability, block.text, block.cache_breakpoint) for block in epoch.blocks]
    if epoch.summary:
        pieces.append(_Piece("summary", Stability.AGENT_SCOPED, epoch.summary))
    return pieces


def _conversation_piece(entry: WindowItem) -> _Piece:
    return _Piece(entry.source, Stability.TURN_SCOPED, _readable(entry.item))


def _readable(item: ConversationItem) -> str:
    return item.text if isinstance(item, UserText) else dumps(item)


def _state(share: InputBuckets) -> CacheState:
    """What most of it was."""
    most = max(share.read, share.written, share.fresh)
    if not most or share.fresh == most:
        return CacheState.FRESH
    return CacheState.READ if share.read == most else CacheState.WRITTEN
