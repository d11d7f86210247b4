"""Prompting: an agent's prompt, from its epoch's frozen head to the newest item, and the books about it.

The rooms hand in sections; `context` decides; this module reads and writes. A view of the agent's prompt is kept in
memory beside its window, and used only while it is current.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from holon.context.compaction import KEEP_SHARE, CompactionFacts, decide_compaction, keep_from, summarise
from holon.context.deltas import Delta, find_deltas, known_after
from holon.context.drift import Chain, find_breach, fingerprint
from holon.context.epochs import Epoch, FrozenTool, open_epoch, tools_tokens
from holon.context.guidelines import OPERATING_GUIDELINES
from holon.context.marks import plan_marks
from holon.context.offers import NOTHING, Offer
from holon.context.padding import Filler, PaddingMode, PaddingPlan, plan_padding
from holon.context.sections import Place, Section
from holon.context.window import Window, WindowItem, tokens_of
from holon.core.agents import AgentState
from holon.core.clock import moment, to_ms
from holon.core.codec import dumps, from_plain, to_plain
from holon.core.conversation import ConversationItem, UserText
from holon.core.event_kinds import EpochOpened, PromptDrifted, SessionCreated
from holon.core.ids import new_id
from holon.core.ledger import CallRecord, cost_of
from holon.core.models import ModelCard
from holon.core.prompts import PromptFrame, Stability
from holon.core.tokens import estimate
from holon.core.transcripts import TranscriptKind
from holon.core.turns import Turn
from holon.core.usage import InputBuckets, TokenUsage
from holon.core.values import Value
from holon.providers.contract import ProviderRequest, ToolSpec
from holon.store import Tx, calls, epochs, transcript
from holon.store.transaction import END

GUIDELINES = Filler("operating_guidelines", OPERATING_GUIDELINES)
EXPECTED_CALLS = 10


@dataclass(slots=True)
class Prompt:
    """One agent's prompt in memory: the epoch, the chain over its blocks, and the last request that was sent."""

    epoch: Epoch
    chain: Chain
    #: Blocks and chain of the last request that was answered: the next one must begin with it.
    sent_blocks: int = 0
    sent_chain: str = ""
    last_marked: int | None = None
    #: What follows from the epoch alone, and is the same for each of its requests.
    tools: list[ToolSpec] = field(init=False)
    head_tokens: int = field(init=False)
    _frame: PromptFrame = field(init=False)

    def __post_init__(self) -> None:
        self.tools = [from_plain(to_plain(tool), ToolSpec) for tool in self.epoch.tools]
        self.head_tokens = self.epoch.head_tokens
        self._frame = self.epoch.frame()

    def frame(self) -> PromptFrame:
        """The frame of the next request."""
        assert self._frame.cache is not None
        cache = msgspec.structs.replace(self._frame.cache, context_fingerprint=self.chain.head)
        return msgspec.structs.replace(self._frame, cache=cache)

    def was_sent(self, sent: Sent, marks: list[int]) -> None:
        """The request was answered: the next one must begin with it."""
        self.sent_blocks, self.sent_chain = sent.blocks, sent.chain
        self.last_marked = marks[-1] if marks else None

    def grow(self, added: Sequence[WindowItem]) -> None:
        for entry in added:
            self.add(entry, tokens_of(entry.item))

    def add(self, entry: WindowItem, tokens: int) -> None:
        self.chain.add(entry.source, dumps(entry.item), tokens)


class Prepared(Value, frozen=True):
    """What a turn begins with: the state after it was prepared, and what was added to the conversation."""

    state: AgentState
    prompt: Prompt
    window: Window
    added: list[WindowItem]


def prepare(
    tx: Tx,
    state: AgentState,
    window: Window,
    prompt: Prompt | None,
    card: ModelCard,
    sections: Sequence[Section],
    tools: Sequence[ToolSpec],
    padding: PaddingMode,
    offer: Offer = NOTHING,
    opened: Opened | None = None,
) -> Prepared:
    """Opens the agent's first epoch, or the next one where compaction says so, or appends what changed."""
    if state.epoch and (prompt is None or prompt.epoch.number != state.epoch):
        prompt = load_prompt(tx, state, window)
    reason = why_open(state, window, prompt, card, tx.now_ms, tools)
    if reason is None:
        assert prompt is not None
        return _with_deltas(tx, state, window, prompt, sections, offer)
    plan = plan_epoch(state, window, prompt, card, sections, tools, padding, reason, tx.now_ms, offer)
    return _open(tx, state, plan, opened)


def why_open(
    state: AgentState,
    window: Window,
    prompt: Prompt | None,
    card: ModelCard,
    now_ms: int,
    tools: Sequence[ToolSpec],
) -> str | None:
    """Why the next turn opens an epoch; `None` if it goes on in the one that is there."""
    if prompt is None:
        return "the agent's first prompt"
    if {tool.name for tool in tools} != {tool.name for tool in prompt.epoch.tools}:
        return "other tools are offered now"
    idle = now_ms - to_ms(state.last_call_at) if state.last_call_at else None
    return decide_compaction(CompactionFacts(prompt.head_tokens, window.tokens, card, idle, window.turns))


class EpochPlan(Value, frozen=True):
    """An epoch as it would be opened now, with the part of the window that stays exactly as it is."""

    epoch: Epoch
    kept: Window
    #: Messages that leave the window with it.
    dropped: int
    padding: str
    #: What the model knows with it, and may be told changes of.
    sections: list[Section]
    #: Bodies in the head that were in use before.
    carried: list[str]


def plan_epoch(
    state: AgentState,
    window: Window,
    before: Prompt | None,
    card: ModelCard,
    sections: Sequence[Section],
    tools: Sequence[ToolSpec],
    padding: PaddingMode,
    reason: str,
    now_ms: int,
    offer: Offer = NOTHING,
) -> EpochPlan:
    """Pure but for bodies, which are read here: what is known now, arranged anew; what leaves the window, in short."""
    cut, summary = state.window_after, before.epoch.summary if before else None
    dropped = 0
    if before is not None:
        starts = window.turn_starts()
        first = keep_from(starts, round(card.context_window_tokens * KEEP_SHARE))
        if first > 0:
            leaving = window.before(starts[first][0])
            cut, summary = starts[first][0] - 1, summarise(summary, leaving)
            dropped = sum(isinstance(item, UserText) for item in leaving)
    frozen = [from_plain(to_plain(tool), FrozenTool) for tool in tools]
    carried = [_body_section(filler) for filler in offer.carried(cut)]
    heads = [section.origin for section in carried]
    plain = [*sections, *carried, *offer.sections(heads)]
    plan = _padding(state, card, plain, frozen, padding, offer, heads)
    heads += [filler.name for filler in plan.fillers if filler.name != GUIDELINES.name]
    known = [*sections, *offer.sections(heads)]
    epoch = open_epoch(
        state.id,
        state.total_epochs + 1,
        moment(now_ms),
        [*known, *carried, *(_body_section(filler) for filler in plan.fillers)],
        frozen,
        reason=reason,
        after_seq=cut,
        summary=summary,
        preloaded=heads,
    )
    return EpochPlan(epoch, window.from_seq(cut), dropped, plan.reason, known, [section.origin for section in carried])


def missing_deltas(state: AgentState, epoch: Epoch, sections: Sequence[Section], offer: Offer = NOTHING) -> list[Delta]:
    """What changed since the model was last told."""
    shown = {block.source: block.text for block in epoch.blocks}
    said = [*sections, *offer.sections(epoch.preloaded)]
    return find_deltas(state.known_sections, _agent_scoped(said), shown)


def load_prompt(tx: Tx, state: AgentState, window: Window) -> Prompt:
    """The prompt as it is stored: after a restart its bytes are those from before."""
    epoch = epochs.get(tx, state.id, state.epoch, Epoch)
    assert epoch is not None, f"epoch {state.epoch} of agent {state.id} is gone"
    prompt = Prompt(epoch, head_chain(epoch))
    prompt.grow(window.entries)
    last = calls.newest(tx, state.id)
    if last is not None and last.epoch == epoch.number:
        prompt.sent_blocks, prompt.sent_chain = last.blocks, last.chain
    return prompt


def build_request(
    turn: Turn, prompt: Prompt, window: Window, card: ModelCard, *, max_output_tokens: int
) -> ProviderRequest:
    """The request of the next round: the frozen head, the conversation, and where the cache is marked."""
    conversation = conversation_of(prompt.epoch, window)
    counts = [1, *window.block_counts] if prompt.epoch.summary else window.block_counts
    plan = plan_marks(card.cache, counts, has_tools=bool(prompt.epoch.tools), last_marked=prompt.last_marked)
    return ProviderRequest(
        agent_id=turn.agent_id,
        turn_id=turn.id,
        round=turn.round,
        model=turn.model,
        frame=prompt.frame(),
        conversation=conversation,
        tools=prompt.tools,
        mark_tools=plan.tools,
        marks=plan.conversation,
        max_output_tokens=min(max_output_tokens, card.max_output_tokens),
    )


def conversation_of(epoch: Epoch, window: Window) -> list[ConversationItem]:
    return [UserText(text=epoch.summary), *window.items] if epoch.summary else list(window.items)


def drifted(prompt: Prompt) -> bool:
    """Whether the next request is not the last one plus what is new. One comparison, however long they are."""
    return prompt.chain.names(prompt.sent_blocks) != prompt.sent_chain


def note_drift(tx: Tx, turn: Turn, prompt: Prompt, card: ModelCard) -> None:
    """A drift as an event, with its place and its price."""
    breach = locate_breach(tx, prompt.epoch, prompt.chain)
    position = breach.position if breach else 0
    lost = sum(link.tokens for link in prompt.chain.links[position : prompt.sent_blocks])
    tx.emit(
        turn.agent_id,
        PromptDrifted(
            position=position,
            source=breach.source if breach else "(stored prompt)",
            was_source=breach.source if breach else "(sent prompt)",
            lost_tokens=lost,
            lost_nanodollars=cost_of(card.prices, InputBuckets(fresh=lost), 0)
            - cost_of(card.prices, InputBuckets(read=lost), 0),
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )


class PlacedBreach(Value, frozen=True):
    """Where a stored prompt first differs from what was sent, and what stands there."""

    position: int
    source: str


def locate_breach(tx: Tx, epoch: Epoch, chain: Chain, upto_call: int = END) -> PlacedBreach | None:
    """Looks through the books: requests up to this call, and the fingerprints of the sections in the epoch's head."""
    found = find_breach(chain, calls.prefixes(tx, epoch.agent_id, epoch.number, upto_call))
    if found is None:
        return None
    intact: set[int] = set()
    for position, block in enumerate(epoch.blocks, 1 if epoch.tools else 0):
        if epoch.sections.get(block.source) == fingerprint(block.text):
            intact.add(position)
        elif position >= found.first:
            return PlacedBreach(position, block.source)
    doubtful = [position for position in range(found.first, found.last + 1) if position not in intact]
    sources = dict.fromkeys(link.source for link in (chain.links[p] for p in doubtful if p < len(chain.links)))
    return PlacedBreach(doubtful[0] if doubtful else found.first, " or ".join(sources) or "(end)")


class Sent(Value, frozen=True):
    """What was sent, as the ledger needs it. Taken when the request is built, booked when the answer is there."""

    epoch: int
    upto_seq: int
    blocks: int
    chain: str
    sections: dict[str, int]


def sent_of(prompt: Prompt, window: Window) -> Sent:
    return Sent(
        epoch=prompt.epoch.number,
        upto_seq=window.newest_seq,
        blocks=len(prompt.chain.links),
        chain=prompt.chain.head,
        sections=dict(prompt.chain.tokens),
    )


def book_call(
    tx: Tx,
    state: AgentState,
    turn: Turn,
    card: ModelCard,
    sent: Sent,
    usage: TokenUsage,
    buckets: InputBuckets | None,
) -> tuple[AgentState, int]:
    """Writes the call into the ledger; the state with its counts, and what it cost in nanodollars."""
    counted = buckets or InputBuckets(fresh=usage.input_tokens)
    cost = cost_of(card.prices, counted, usage.output_tokens)
    calls.insert(
        tx,
        CallRecord(
            agent_id=turn.agent_id,
            seq=state.total_model_rounds,
            created_at=moment(tx.now_ms),
            turn_id=turn.id,
            model_ref=card.model_ref,
            epoch=sent.epoch,
            upto_seq=sent.upto_seq,
            chain=sent.chain,
            blocks=sent.blocks,
            buckets=counted,
            output=usage.output_tokens,
            nanodollars=cost,
            sections=sent.sections,
        ),
        card.prices,
    )
    state = msgspec.structs.replace(state, epoch_calls=state.epoch_calls + 1, last_call_at=moment(tx.now_ms))
    return state, cost


def head_chain(epoch: Epoch) -> Chain:
    chain = Chain()
    if epoch.tools:
        chain.add("tools", dumps(epoch.tools), tools_tokens(epoch.tools))
    for block in epoch.blocks:
        chain.add(block.source, block.text, estimate(block.text))
    if epoch.summary:
        chain.add("summary", epoch.summary, estimate(epoch.summary))
    return chain


def _with_deltas(
    tx: Tx, state: AgentState, window: Window, prompt: Prompt, sections: Sequence[Section], offer: Offer
) -> Prepared:
    deltas = missing_deltas(state, prompt.epoch, sections, offer)
    added = [_append(tx, state.id, delta) for delta in deltas]
    if deltas:
        state = msgspec.structs.replace(state, known_sections=known_after(state.known_sections, deltas))
    return Prepared(state, prompt, window, added)


def _open(tx: Tx, state: AgentState, plan: EpochPlan, opened: Opened | None) -> Prepared:
    epoch, kept = plan.epoch, plan.kept
    session = state.session_id or new_id("sess", tx.now_ms)
    if state.session_id is None:
        tx.emit(state.id, SessionCreated(session_id=session, epoch=epoch.number))
    epochs.insert(tx, state.id, epoch.number, epoch)
    prompt = Prompt(epoch, head_chain(epoch))
    prompt.grow(kept.entries)
    tx.emit(
        state.id,
        EpochOpened(
            epoch=epoch.number,
            reason=epoch.reason,
            head_tokens=epoch.head_tokens,
            kept_tokens=kept.tokens,
            sections=[block.source for block in epoch.blocks],
            padding=plan.padding,
        ),
    )
    if opened is not None:
        opened(tx, session, epoch, plan.carried)
    state = msgspec.structs.replace(
        state,
        session_id=session,
        epoch=epoch.number,
        total_epochs=epoch.number,
        epoch_calls=0,
        window_after=epoch.after_seq,
        known_sections={s.id: s.fingerprint for s in _agent_scoped(plan.sections) if s.text.strip()},
        compacted_message_count=state.compacted_message_count + plan.dropped,
    )
    return Prepared(state, prompt, kept, [])


def _padding(
    state: AgentState,
    card: ModelCard,
    sections: Sequence[Section],
    tools: Sequence[FrozenTool],
    mode: PaddingMode,
    offer: Offer,
    heads: Sequence[str],
) -> PaddingPlan:
    prefix = sum(section.tokens for section in sections) + tools_tokens(tools)
    wanted = prefix < card.cache.floor_tokens and mode is not PaddingMode.NEVER
    usual = round(state.total_model_rounds / state.total_epochs) if state.total_epochs else EXPECTED_CALLS
    return plan_padding(
        prefix,
        card.cache,
        card.prices,
        [body for body in offer.bodies() if body.name not in heads] if wanted else [],
        GUIDELINES,
        mode=mode,
        expected_calls=max(1, usual),
    )


def _body_section(filler: Filler) -> Section:
    return Section(f"padding_{filler.name}", Place.PADDING, Stability.AGENT_SCOPED, filler.text, filler.name)


def _agent_scoped(sections: Sequence[Section]) -> list[Section]:
    return [section for section in sections if section.stability is not Stability.STABLE]


def _append(tx: Tx, agent_id: str, delta: Delta) -> WindowItem:
    seq = transcript.append(
        tx, agent_id, TranscriptKind.CONTEXT_DELTA, {"text": delta.text, "section": delta.section_id}
    )
    return WindowItem(seq, UserText(text=delta.text), opens_turn=False, source="deltas")


#: Told of an epoch that was opened, in its transaction: the session, the epoch, and the bodies carried into its head.
Opened = Callable[[Tx, str, Epoch, Sequence[str]], None]

#: Hands in the sections of an agent, from files and rooms; called outside of transactions.
Sections = Callable[[str], Sequence[Section]]
