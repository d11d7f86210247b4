"""The caches of the services, against their published rules, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twins.cache import (
    AUTOMATIC_MINIMUM,
    AUTOMATIC_STEP,
    HOUR_MS,
    MINUTE_MS,
    Block,
    CacheUse,
    LookBack,
    MarkedPrompt,
    Newest,
    PlainPrompt,
    PromptCache,
)

FIVE = 5 * MINUTE_MS


def marked(*pieces: tuple[str, int] | tuple[str, int, int], floor: int = 1000, scope: str = "a") -> MarkedPrompt:
    """Pieces are name, tokens, and the lifetime of a mark."""
    return MarkedPrompt(scope, [Block(*piece) for piece in pieces], floor)


def parts(use: CacheUse) -> tuple[int, int, int]:
    return use.read, use.written, use.fresh


class Requests:
    """A service that answers one request after another, at times that a test chooses."""

    def __init__(self) -> None:
        self._cache = PromptCache()
        self.now_ms = 0

    def send(self, prompt: MarkedPrompt | PlainPrompt) -> CacheUse:
        use = self._cache.plan(prompt, self.now_ms)
        self._cache.commit(use, self.now_ms)
        return use


def test_the_first_request_writes_up_to_its_last_mark_and_the_next_one_reads_it():
    service = Requests()
    first = service.send(marked(("tools", 600), ("system", 900, FIVE), ("hello", 50)))
    second = service.send(marked(("tools", 600), ("system", 900, FIVE), ("goodbye", 70)))
    assert (parts(first), parts(second)) == ((0, 1500, 50), (1500, 0, 70))


@pytest.mark.parametrize(("tokens", "cached"), [(1023, False), (1024, True)])
def test_a_prefix_below_the_floor_is_silently_not_cached(tokens, cached):
    service = Requests()
    prompt = marked(("system", tokens, FIVE), ("hello", 10), floor=1024)
    assert parts(service.send(prompt)) == ((0, tokens, 10) if cached else (0, 0, tokens + 10))
    assert parts(service.send(prompt)) == ((tokens, 0, 10) if cached else (0, 0, tokens + 10))


def test_a_mark_below_the_floor_does_not_hinder_a_later_one():
    service = Requests()
    prompt = marked(("tools", 300, FIVE), ("system", 900, FIVE), ("hello", 10))
    assert parts(service.send(prompt)) == (0, 1200, 10)


def test_without_marks_nothing_is_cached():
    service = Requests()
    prompt = marked(("system", 5000), ("hello", 10))
    assert [parts(service.send(prompt)) for _ in range(2)] == [(0, 0, 5010)] * 2


@pytest.mark.parametrize(("new_blocks", "read"), [(1, 2000), (18, 2000), (19, 2000), (20, 0), (40, 0)])
def test_a_mark_looks_back_over_twenty_positions_with_its_own(new_blocks, read):
    service = Requests()
    service.send(marked(("history", 2000, FIVE)))
    new = [(f"block {n}", 10) for n in range(new_blocks - 1)]
    use = service.send(marked(("history", 2000), *new, ("newest", 10, FIVE)))
    assert parts(use) == (read, 2000 + 10 * new_blocks - read, 0)


def test_a_second_mark_nearer_to_the_history_rescues_a_long_turn():
    service = Requests()
    service.send(marked(("history", 2000, FIVE)))
    new = [(f"block {n}", 10) for n in range(40)]
    use = service.send(marked(("history", 2000), *new[:15], ("anchor", 10, FIVE), *new[15:], ("newest", 10, FIVE)))
    assert parts(use) == (2000, 420, 0)


def test_what_stands_before_a_change_is_read_only_where_it_was_marked():
    service = Requests()
    service.send(marked(("system", 1500, FIVE), ("memory", 100), ("history", 900, FIVE)))
    use = service.send(marked(("system", 1500, FIVE), ("memory changed", 110), ("history", 900, FIVE)))
    assert parts(use) == (1500, 1010, 0)


@pytest.mark.parametrize(("wait_ms", "read"), [(FIVE - 1, 1500), (FIVE, 0)])
def test_an_entry_is_forgotten_after_five_minutes(wait_ms, read):
    service = Requests()
    prompt = marked(("system", 1500, FIVE))
    service.send(prompt)
    service.now_ms += wait_ms
    assert service.send(prompt).read == read


def test_each_use_keeps_an_entry_for_its_lifetime_again():
    service = Requests()
    prompt = marked(("system", 1500, FIVE))
    reads = []
    for _ in range(4):
        reads.append(service.send(prompt).read)
        service.now_ms += 4 * MINUTE_MS
    assert reads == [0, 1500, 1500, 1500]


def test_reading_a_long_prefix_keeps_the_shorter_ones_in_it():
    service = Requests()
    system, history = ("system", 1500, FIVE), ("history", 900, FIVE)
    service.send(marked(system, history))
    service.now_ms += 4 * MINUTE_MS
    service.send(marked(("system", 1500), history))  # reads both, marks only the second
    service.now_ms += 4 * MINUTE_MS
    assert parts(service.send(marked(system, ("other history", 800)))) == (1500, 0, 800)


def test_an_hour_is_an_hour_and_is_billed_apart():
    service = Requests()
    prompt = marked(("system", 1500, HOUR_MS), ("history", 900, FIVE), ("hello", 10))
    first = service.send(prompt)
    service.now_ms += 59 * MINUTE_MS
    later = service.send(prompt)
    assert (parts(first), first.written_1h) == ((0, 2400, 10), 1500)
    assert (parts(later), later.written_1h) == ((1500, 900, 10), 0)


def test_scopes_do_not_share_entries():
    service = Requests()
    service.send(marked(("system", 1500, FIVE), scope="haiku"))
    assert service.send(marked(("system", 1500, FIVE), scope="sonnet")).read == 0


def test_an_entry_can_be_read_only_once_the_answer_that_wrote_it_has_begun():
    cache = PromptCache()
    prompt = marked(("system", 1500, FIVE))
    at_the_same_time = [cache.plan(prompt, 0) for _ in range(2)]
    for use in at_the_same_time:
        cache.commit(use, 0)
    assert [use.read for use in (*at_the_same_time, cache.plan(prompt, 0))] == [0, 0, 1500]


@pytest.mark.parametrize(
    ("tokens", "read"),
    [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (2006, 1920)],
)
def test_a_plain_prompt_is_cached_from_1024_tokens_on_in_steps_of_128(tokens, read):
    service = Requests()
    prompt = PlainPrompt("a", range(tokens))
    assert parts(service.send(prompt)) == (0, 0, tokens)
    assert parts(service.send(prompt)) == (read, 0, tokens - read)


def test_a_plain_prompt_is_read_up_to_the_step_before_the_first_change():
    service = Requests()
    service.send(PlainPrompt("a", range(3000)))
    assert service.send(PlainPrompt("a", [*range(1500), *range(9000, 9100)])).read == 1408


@pytest.mark.parametrize(("wait_ms", "read"), [(FIVE - 1, 1024), (FIVE, 0)])
def test_a_plain_prefix_is_forgotten_when_it_is_not_used(wait_ms, read):
    service = Requests()
    prompt = PlainPrompt("a", range(1024))
    service.send(prompt)
    service.now_ms += wait_ms
    assert service.send(prompt).read == read


def breakpoints(*pieces: tuple[str, int, int | None, bool]) -> MarkedPrompt:
    return MarkedPrompt("a", [Block(*piece) for piece in pieces], 1024, Newest())


def test_newer_openai_models_read_exactly_at_a_breakpoint_however_far_back():
    service = Requests()
    half_an_hour = 30 * MINUTE_MS
    service.send(breakpoints(("system", 1500, None, False), ("first input", 100, half_an_hour, True)))
    many = [(f"answer {n}", 10, None, False) for n in range(50)]
    newest = ("second input", 20, half_an_hour, True)
    use = service.send(breakpoints(("system", 1500, None, False), ("first input", 100, None, True), *many, newest))
    assert parts(use) == (1600, 520, 0)


def test_newer_openai_models_do_not_fall_back_to_a_shorter_prefix_without_a_breakpoint():
    service = Requests()
    for name in ("first input", "other input"):
        use = service.send(breakpoints(("system", 9000, None, False), (name, 100, FIVE, True)))
    assert parts(use) == (0, 9100, 0)


# Properties: sequences of prompts that share beginnings, at growing times.

NAMES = st.sampled_from("abc")
PIECES = st.lists(st.tuples(NAMES, st.integers(1, 800), st.sampled_from([None, None, FIVE, HOUR_MS])), max_size=30)
WAITS = st.integers(0, 10 * MINUTE_MS)


@given(st.lists(st.tuples(PIECES, WAITS), max_size=8), st.integers(0, 3000))
def test_read_written_and_fresh_are_the_whole_prompt(requests, floor):
    service = Requests()
    for pieces, wait_ms in requests:
        prompt = MarkedPrompt("a", [Block(*piece) for piece in pieces], floor, LookBack())
        use = service.send(prompt)
        assert use.read + use.written + use.fresh == prompt.tokens
        assert min(use.read, use.written_1h, use.written - use.written_1h, use.fresh) >= 0
        service.now_ms += wait_ms


@given(st.lists(st.integers(1, 800), min_size=1, max_size=40), st.lists(st.integers(1, 800), min_size=1, max_size=19))
def test_a_strict_extension_reads_all_of_the_prompt_before_it(old, new):
    service = Requests()
    history = [(f"old {n}", tokens) for n, tokens in enumerate(old)]
    more = [(f"new {n}", tokens) for n, tokens in enumerate(new)]
    service.send(marked(*history[:-1], (*history[-1], FIVE), floor=1024))
    use = service.send(marked(*history, *more[:-1], (*more[-1], FIVE), floor=1024))
    assert use.read == (sum(old) if sum(old) >= 1024 else 0)


@given(st.lists(PIECES, min_size=2, max_size=6))
def test_nothing_is_read_that_no_earlier_prompt_began_with(requests):
    service = Requests()
    earlier: list[list[str]] = []
    for pieces in requests:
        read = service.send(MarkedPrompt("a", [Block(*piece) for piece in pieces], 0)).read
        names = [name for name, *_ in pieces]
        shared = max((_common(names, other) for other in earlier), default=0)
        assert read <= sum(tokens for _, tokens, _ in pieces[:shared])
        earlier.append(names)


def _common(left: list[str], right: list[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


@given(st.integers(0, 4000), st.integers(0, 4000))
def test_a_longer_plain_prompt_reads_at_least_the_whole_steps_of_the_one_before(old, more):
    service = Requests()
    service.send(PlainPrompt("a", range(old)))
    use = service.send(PlainPrompt("a", range(old + more)))
    steps = old // AUTOMATIC_STEP * AUTOMATIC_STEP
    assert use.read == (steps if steps >= AUTOMATIC_MINIMUM else 0)
    assert use.total == old + more
