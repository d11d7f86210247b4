"""What Anthropic's cache reads, writes and charges, seen through the SDK, against the published rules."""

from decimal import Decimal
from typing import Any

import anthropic
import pytest

from tests.twins.clients import CLAUDE, anthropic_of, said, words
from twins import Twin
from twins.cache import MINUTE_MS

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def system(tokens: int, mark: dict[str, Any] = MARK, start: str = "w") -> list[dict[str, Any]]:
    return [{"type": "text", "text": words(tokens, start), **mark}]


async def ask(twin: Twin, **request: Any) -> Any:
    request = {"model": CLAUDE, "max_tokens": 9, "messages": said("hi"), **request}
    return (await anthropic_of(twin).messages.create(**request)).usage


def parts(usage: anthropic.types.Usage) -> tuple[int | None, int | None, int]:
    return usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens


async def test_a_marked_system_prompt_is_written_once_and_then_read():
    async with Twin.start() as twin:
        first = await ask(twin, system=system(2000))
        second = await ask(twin, system=system(2000), messages=said("something else"))
    written = first.cache_creation_input_tokens
    assert written is not None
    assert written > 2000
    assert parts(first)[:2] == (0, written)
    assert parts(second)[:2] == (written, 0)
    assert first.cache_creation is not None
    assert (first.cache_creation.ephemeral_5m_input_tokens, first.cache_creation.ephemeral_1h_input_tokens) == (
        written,
        0,
    )


async def test_the_bill_is_the_usage_times_the_list_prices():
    async with Twin.start() as twin:
        usages = [await ask(twin, system=system(2000)) for _ in range(2)]
        first, second = (call.bill for call in twin.calls)
        total = twin.bill_total()
    assert first is not None
    assert second is not None
    assert [(bill.read, bill.written, bill.fresh) for bill in (first, second)] == [parts(usage) for usage in usages]
    written, fresh, output = first.written, first.fresh, first.output
    million = Decimal(1_000_000)
    assert first.dollars == (Decimal("3.75") * written + 3 * fresh + 15 * output) / million
    assert second.dollars == (Decimal("0.30") * written + 3 * fresh + 15 * output) / million
    assert total == first + second


@pytest.mark.parametrize(
    ("model", "tokens", "cached"),
    [
        ("claude-haiku-4-5", 3900, False),
        ("claude-haiku-4-5", 4200, True),
        ("claude-sonnet-4-6", 900, False),
        ("claude-sonnet-4-6", 1100, True),
        ("claude-opus-4-7", 3900, False),
        ("claude-opus-5", 600, True),
    ],
)
async def test_each_model_has_its_floor_and_says_nothing_below_it(model, tokens, cached):
    async with Twin.start() as twin:
        usages = [await ask(twin, model=model, system=system(tokens)) for _ in range(2)]
    assert [bool(usage.cache_creation_input_tokens) for usage in usages] == [cached, False]
    assert [bool(usage.cache_read_input_tokens) for usage in usages] == [False, cached]


@pytest.mark.parametrize(("mark", "alive_ms"), [(MARK, 5 * MINUTE_MS), (HOUR, 60 * MINUTE_MS)])
async def test_an_entry_lives_as_long_as_its_mark_says_after_each_use(mark, alive_ms):
    reads = []
    async with Twin.start() as twin:
        for wait_ms in (0, alive_ms - 1, alive_ms - 1, alive_ms):
            twin.clock.move(wait_ms)
            reads.append(bool((await ask(twin, system=system(2000, mark))).cache_read_input_tokens))
    assert reads == [False, True, True, False]


async def test_an_hour_costs_twice_the_input():
    async with Twin.start() as twin:
        usage = await ask(twin, system=system(2000, HOUR))
        bill = twin.bill_total()
    written = usage.cache_creation_input_tokens
    assert usage.cache_creation is not None
    assert (usage.cache_creation.ephemeral_1h_input_tokens, bill.written_1h) == (written, written)
    assert bill.dollars == (6 * Decimal(bill.written) + 3 * bill.fresh + 15 * bill.output) / 1_000_000


def conversation(blocks: int, *marks: int) -> list[dict[str, Any]]:
    """One user message of so many blocks; the first is long, and those at the marks are marked."""
    texts = [words(2000), *(f"block {number}" for number in range(2, blocks + 1))]
    content = [{"type": "text", "text": text, **(MARK if n in marks else {})} for n, text in enumerate(texts, start=1)]
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(("blocks", "marks", "hit"), [(20, (20,), True), (21, (21,), False), (30, (15, 30), True)])
async def test_a_mark_finds_what_stands_at_most_twenty_blocks_back(blocks, marks, hit):
    async with Twin.start() as twin:
        first = await ask(twin, messages=conversation(1, 1))
        second = await ask(twin, messages=conversation(blocks, *marks))
    assert second.cache_read_input_tokens == (first.cache_creation_input_tokens if hit else 0)


async def test_a_growing_conversation_with_a_rolling_mark_reads_all_of_its_past():
    async with Twin.start() as twin:
        written = 0
        for blocks in range(1, 12):
            usage = await ask(twin, messages=conversation(blocks, blocks))
            assert usage.cache_read_input_tokens == written
            written += usage.cache_creation_input_tokens or 0
            assert usage.input_tokens == 0


async def test_tools_come_before_the_system_prompt_and_a_change_of_them_loses_all():
    def tools(description: str) -> list[dict[str, Any]]:
        return [{"name": "a", "description": description, "input_schema": {"type": "object"}}]

    async with Twin.start() as twin:
        await ask(twin, tools=tools("one"), system=system(2000))
        same = await ask(twin, tools=tools("one"), system=system(2000))
        changed = await ask(twin, tools=tools("two"), system=system(2000))
    assert bool(same.cache_read_input_tokens)
    assert changed.cache_read_input_tokens == 0


async def test_another_order_of_keys_in_a_schema_is_another_prompt():
    def tools(*names: str) -> list[dict[str, Any]]:
        properties = {name: {"type": "string"} for name in names}
        return [{"name": "a", "input_schema": {"type": "object", "properties": properties}, **MARK}]

    async with Twin.start() as twin:
        for names in (("a", "b"), ("b", "a")):
            usage = await ask(twin, tools=tools(*names), system=system(2000))
    assert usage.cache_read_input_tokens == 0


async def test_another_tool_choice_loses_the_messages_but_not_the_system_prompt():
    tools = [{"name": "a", "input_schema": {"type": "object"}}]
    request = {"tools": tools, "system": system(2000), "messages": conversation(3, 3)}
    async with Twin.start() as twin:
        first = await ask(twin, **request, tool_choice={"type": "auto"})
        second = await ask(twin, **request, tool_choice={"type": "any"})
    read, total = second.cache_read_input_tokens, first.cache_creation_input_tokens
    assert read is not None
    assert total is not None
    assert 2000 < read < total
    assert second.cache_creation_input_tokens == total - read


async def test_another_model_and_another_key_have_caches_of_their_own():
    async with Twin.start() as twin:
        await ask(twin, system=system(2000))
        model = await ask(twin, system=system(2000), model="claude-opus-4-8")
        other = anthropic_of(twin, key="twin-other").messages
        key = (await other.create(model=CLAUDE, max_tokens=9, messages=said("hi"), system=system(2000))).usage
    assert (model.cache_read_input_tokens, key.cache_read_input_tokens) == (0, 0)


async def test_the_mark_is_no_part_of_what_is_compared():
    async with Twin.start() as twin:
        await ask(twin, messages=conversation(5, 1, 5))
        usage = await ask(twin, messages=conversation(7, 7))
    assert bool(usage.cache_read_input_tokens)


async def test_a_string_is_the_same_as_one_block_of_text():
    async with Twin.start() as twin:
        first = await ask(
            twin, system=words(2000), messages=[{"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]}]
        )
        second = await ask(twin, system=system(2000, {}), cache_control={"type": "ephemeral"})
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens


async def test_a_refused_call_costs_nothing_and_writes_nothing():
    async with Twin.start() as twin:
        with pytest.raises(anthropic.BadRequestError):
            await ask(twin, system=system(2000), max_tokens=-1)
        bill = twin.bill_total()
        usage = await ask(twin, system=system(2000))
    assert bill.dollars == 0
    assert usage.cache_read_input_tokens == 0
