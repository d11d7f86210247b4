"""Models: what a model can hold, what it costs, and how its provider caches. Data with a date, never constants."""

from __future__ import annotations

from enum import StrEnum

from holon.core.codec import Record

#: For a model that the table does not know: the context text's own values, in heuristic tokens (characters / 4).
MIN_CACHEABLE_PREFIX_TOKENS = 4_500
MAX_CACHEABLE_PREFIX_TOKENS = 5_500


class CacheKind(StrEnum):
    #: The request carries marks; what stands before a mark is written once and read for a fraction.
    EXPLICIT = "explicit"
    #: The provider caches prefixes by itself, in steps.
    AUTOMATIC = "automatic"
    NONE = "none"


class CacheRules(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: CacheKind = CacheKind.NONE
    #: A prefix shorter than this is never cached; the provider does not say so.
    floor_tokens: int = MIN_CACHEABLE_PREFIX_TOKENS
    #: Cached lengths are multiples of this.
    step_tokens: int = 1
    #: How many blocks before a mark the provider looks for an earlier cached prefix.
    look_back_blocks: int = 20
    max_marks: int = 4
    #: How long a cached prefix lives without being read.
    lifetime_ms: int = 300_000


class Prices(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def read_ratio(self) -> float:
        return self.cache_read / self.input if self.input else 1.0

    @property
    def write_ratio(self) -> float:
        return self.cache_write / self.input if self.input else 1.0


class ModelCard(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the model table."""

    model_ref: str
    display_name: str = ""
    context_window_tokens: int = 128_000
    max_output_tokens: int = 8_192
    cache: CacheRules = CacheRules()
    prices: Prices = Prices()
    #: The day on which these figures were read from the provider's published pages.
    dated: str = ""
    #: Where the card came from: the shipped table, the operator's configuration, or nowhere (defaults).
    source: str = "unknown_fallback"

    @property
    def supports_prompt_caching(self) -> bool:
        return self.cache.kind is not CacheKind.NONE
