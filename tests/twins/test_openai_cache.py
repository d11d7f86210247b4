"""What OpenAI's caches read, write and charge, seen through the SDK, against the published rules."""

from decimal import Decimal
from typing import Any

import openai
import pytest

from tests.twins.clients import GPT, openai_of, said, words
from twins import Twin
from twins.cache import MINUTE_MS


async def ask(twin: Twin, **request: Any) -> tuple[int, int, int]:
    """Read, written, and the whole input."""
    response = await openai_of(twin).responses.create(**{"model": GPT, "input": "hi", **request})
    assert response.usage is not None
    details = response.usage.input_tokens_details
    return details.cached_tokens, details.cache_write_tokens, response.usage.input_tokens


@pytest.mark.parametrize("tokens", [500, 990, 1100, 2000, 5000])
async def test_a_prompt_is_cached_by_itself_in_steps_of_128_from_1024_on(tokens):
    async with Twin.start() as twin:
        first = await ask(twin, instructions=words(tokens))
        second = await ask(twin, instructions=words(tokens))
    total = first[2]
    assert first[:2] == (0, 0)
    assert second == (total // 128 * 128 if total >= 1024 else 0, 0, total)


async def test_only_the_beginning_that_is_the_same_is_read():
    async with Twin.start() as twin:
        await ask(twin, instructions=words(1500), input=words(1500, "one"))
        read, _, total = await ask(twin, instructions=words(1500), input=words(1500, "two"))
    assert read % 128 == 0
    assert 1500 - 128 < read < 1600 < total


async def test_reads_cost_a_tenth_and_writes_cost_nothing():
    async with Twin.start() as twin:
        for _ in range(2):
            await ask(twin, instructions=words(2000))
        first, second = (call.bill for call in twin.calls)
    assert first is not None
    assert second is not None
    million = Decimal(1_000_000)
    assert first.dollars == (Decimal("1.25") * first.input + 10 * first.output) / million
    assert (
        second.dollars
        == (Decimal("1.25") * second.fresh + Decimal("0.125") * second.read + 10 * second.output) / million
    )
    assert second.read > 0


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_cache_key": "other"},
        {"model": "gpt-5-mini"},
        {"reasoning": {"effort": "high"}},
        {"text": {"verbosity": "low"}},
        {"service_tier": "priority"},
        {"tools": [{"type": "function", "name": "a", "parameters": {"type": "object"}, "strict": False}]},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_what_the_sdk_names_as_reasons_of_a_miss_are_reasons_of_a_miss(change):
    request: dict[str, Any] = {"instructions": words(2000), "prompt_cache_key": "mine"}
    async with Twin.start() as twin:
        await ask(twin, **request)
        same = await ask(twin, **request)
        changed = await ask(twin, **{**request, **change})
    assert same[0] > 0
    assert changed[0] == 0


@pytest.mark.parametrize(
    ("retention", "alive_ms"), [(None, 5 * MINUTE_MS), ("in_memory", 5 * MINUTE_MS), ("24h", 24 * 60 * MINUTE_MS)]
)
async def test_a_prefix_is_kept_as_long_as_it_is_used(retention, alive_ms):
    reads = []
    async with Twin.start() as twin:
        for wait_ms in (0, alive_ms - 1, alive_ms - 1, alive_ms):
            twin.clock.move(wait_ms)
            request = {"instructions": words(2000), "prompt_cache_retention": retention}
            reads.append(bool((await ask(twin, **request))[0]))
    assert reads == [False, True, True, False]


async def test_chat_completions_is_cached_in_the_same_way():
    messages: Any = [{"role": "system", "content": words(2000)}, *said("hi")]
    async with Twin.start() as twin:
        client = openai_of(twin)
        for _ in range(2):
            usage = (await client.chat.completions.create(model=GPT, messages=messages)).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens // 128 * 128


SOL = "gpt-5.6-sol"


def history(*texts: str, mark: str = "") -> list[dict[str, Any]]:
    explicit = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    return [
        {"role": "user", "content": [{"type": "input_text", "text": text, **(explicit if text == mark else {})}]}
        for text in texts
    ]


async def test_newer_models_write_behind_the_newest_input_and_charge_for_it():
    async with Twin.start() as twin:
        first = await ask(twin, model=SOL, instructions=words(2000), input=history("one"))
        second = await ask(twin, model=SOL, instructions=words(2000), input=history("one", "two"))
        bill = twin.calls[0].bill
    assert first == (0, first[2], first[2])
    assert second == (first[2], second[2] - first[2], second[2])
    assert bill is not None
    assert bill.dollars == (Decimal("6.25") * bill.written + 30 * bill.output) / 1_000_000


async def test_newer_models_do_not_find_a_stable_beginning_that_has_no_breakpoint():
    async with Twin.start() as twin:
        reads = [(await ask(twin, model=SOL, instructions=words(2000), input=history(text)))[0] for text in "abc"]
    assert reads == [0, 0, 0]


async def test_newer_models_find_a_stable_beginning_with_a_breakpoint():
    stable = words(2000, "stable")
    async with Twin.start() as twin:
        reads = [(await ask(twin, model=SOL, input=history(stable, text, mark=stable)))[0] for text in "abc"]
    assert reads[0] == 0
    assert reads[1] == reads[2] > 2000


async def test_with_explicit_breakpoints_only_nothing_else_is_written():
    request: dict[str, Any] = {"model": SOL, "prompt_cache_options": {"mode": "explicit"}}
    stable = words(2000, "stable")
    async with Twin.start() as twin:
        without = await ask(twin, **request, input=history(stable))
        with_one = await ask(twin, **request, input=history(stable, "new", mark=stable))
    assert without[1] == 0
    assert 2000 < with_one[1] < with_one[2]


async def test_a_prompt_beyond_the_window_is_refused():
    async with Twin.start() as twin:
        with pytest.raises(openai.BadRequestError) as refused:
            await ask(twin, input="apple " * 272_001)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "input")
