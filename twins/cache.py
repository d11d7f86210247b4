"""The prompt caches of the services, simulated: which part of a prompt is read, which is written, which is fresh.

Two kinds. A marked prompt is cached where it says so: Anthropic's `cache_control`, and OpenAI's breakpoints from
GPT-5.6 on. A plain prompt is cached by itself, in steps of 128 tokens: OpenAI before GPT-5.6. Nothing here reads a
clock: the time comes with each call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from twins.counting import name_of

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

#: A plain prompt is cached from so many tokens on, in steps of so many.
AUTOMATIC_MINIMUM = 1_024
AUTOMATIC_STEP = 128


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a marked prompt. Its name says what stands in it; marks are no part of the name."""

    name: str
    tokens: int
    #: Write the prefix that ends here, and keep it so long. `None`: no mark.
    keep_ms: int | None = None
    #: Whether an earlier request can have written a prefix that ends here without a mark here (OpenAI's implicit ones).
    boundary: bool = False


@dataclass(frozen=True, slots=True)
class LookBack:
    """Anthropic's reach: from each mark back over so many positions, the mark's own being the first."""

    positions: int = 20


@dataclass(frozen=True, slots=True)
class Newest:
    """OpenAI's reach: the newest so many breakpoints, however far back they stand."""

    breakpoints: int = 80


@dataclass(frozen=True, slots=True)
class MarkedPrompt:
    scope: Hashable
    blocks: Sequence[Block]
    #: A prefix with fewer tokens is silently not cached.
    floor: int
    reach: LookBack | Newest = LookBack()

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)


@dataclass(frozen=True, slots=True)
class PlainPrompt:
    scope: Hashable
    token_ids: Sequence[int]
    #: A prefix is forgotten when it was not used for so long.
    keep_ms: int = 5 * MINUTE_MS

    @property
    def tokens(self) -> int:
        return len(self.token_ids)


Prompt = MarkedPrompt | PlainPrompt


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a request costs in input tokens, in three disjoint parts, and what the cache knows once it is answered."""

    read: int
    written: int
    #: The part of `written` that is kept for an hour.
    written_1h: int
    fresh: int
    #: Prefixes that are new or used again: name and lifetime.
    kept: tuple[tuple[str, int], ...] = ()

    @property
    def total(self) -> int:
        return self.read + self.written + self.fresh


class PromptCache:
    """What a service remembers. `plan` looks, `commit` remembers: the services write when the answer begins."""

    def __init__(self) -> None:
        #: By the prefix's name: when it is forgotten, and how long each use keeps it.
        self._entries: dict[str, _Entry] = {}

    def plan(self, prompt: Prompt, now_ms: int) -> CacheUse:
        match prompt:
            case MarkedPrompt():
                return self._plan_marked(prompt, now_ms)
            case PlainPrompt():
                return self._plan_plain(prompt, now_ms)

    def commit(self, use: CacheUse, now_ms: int) -> None:
        for name, keep_ms in use.kept:
            known = self._alive(name, now_ms)
            keep = known.keep_ms if known else keep_ms  # a use refreshes an entry; it does not change its lifetime
            self._entries[name] = _Entry(now_ms + keep, keep)
        if len(self._entries) > _MANY:
            self._entries = {name: entry for name, entry in self._entries.items() if entry.until_ms > now_ms}

    def _plan_marked(self, prompt: MarkedPrompt, now_ms: int) -> CacheUse:
        names = _prefix_names(prompt.scope, (block.name for block in prompt.blocks))
        tokens = [0, *accumulate(block.tokens for block in prompt.blocks)]
        marks = [
            position
            for position, block in enumerate(prompt.blocks, start=1)
            if block.keep_ms is not None and tokens[position] >= prompt.floor
        ]
        read = max((p for p in _reached(prompt) if self._alive(names[p], now_ms)), default=0)
        last = max([read, *marks])
        long = max([read, *(mark for mark in marks if prompt.blocks[mark - 1].keep_ms == HOUR_MS)])
        used = [(names[p], entry.keep_ms) for p in range(1, read + 1) if (entry := self._alive(names[p], now_ms))]
        new = [(names[mark], prompt.blocks[mark - 1].keep_ms or 0) for mark in marks]
        return CacheUse(
            read=tokens[read],
            written=tokens[last] - tokens[read],
            written_1h=tokens[long] - tokens[read],
            fresh=tokens[-1] - tokens[last],
            kept=(*used, *new),
        )

    def _plan_plain(self, prompt: PlainPrompt, now_ms: int) -> CacheUse:
        if prompt.tokens < AUTOMATIC_MINIMUM:
            return CacheUse(read=0, written=0, written_1h=0, fresh=prompt.tokens)
        ends = range(AUTOMATIC_STEP, prompt.tokens + 1, AUTOMATIC_STEP)
        steps = (" ".join(map(str, prompt.token_ids[end - AUTOMATIC_STEP : end])) for end in ends)
        names = _prefix_names(prompt.scope, steps)[1:]
        known = next((n for n, name in enumerate(names) if not self._alive(name, now_ms)), len(names)) * AUTOMATIC_STEP
        read = known if known >= AUTOMATIC_MINIMUM else 0
        kept = tuple((name, prompt.keep_ms) for name in names)
        return CacheUse(read=read, written=0, written_1h=0, fresh=prompt.tokens - read, kept=kept)

    def _alive(self, name: str, now_ms: int) -> _Entry | None:
        entry = self._entries.get(name)
        return entry if entry is not None and now_ms < entry.until_ms else None


#: Forgotten entries are swept when there are more than so many.
_MANY = 50_000


@dataclass(frozen=True, slots=True)
class _Entry:
    until_ms: int
    keep_ms: int


def _prefix_names(scope: Hashable, pieces: Iterable[str]) -> list[str]:
    """The names of all prefixes, from the empty one on."""
    return list(accumulate(pieces, lambda before, piece: name_of(piece, before), initial=name_of(repr(scope))))


def _reached(prompt: MarkedPrompt) -> Iterable[int]:
    """The positions at which the service looks for an entry."""
    marks = [position for position, block in enumerate(prompt.blocks, start=1) if block.keep_ms is not None]
    match prompt.reach:
        case LookBack(positions=positions):
            return {p for mark in marks for p in range(max(1, mark - positions + 1), mark + 1)}
        case Newest(breakpoints=breakpoints):
            ends = [p for p, block in enumerate(prompt.blocks, start=1) if block.boundary or block.keep_ms is not None]
            return ends[-breakpoints:]
