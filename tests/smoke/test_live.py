"""The real services: two turns each, of which the second must read from the cache. `make smoke` runs it.

It spends money, a cent or two, and so needs both `HOLON_SMOKE` and a key. A model is changed by its variable.
"""

import asyncio
import os
import uuid
from pathlib import Path

import pytest

from holon.core.conversation import AssistantBlocks, ConversationItem, UserText, text_of
from holon.core.models import Prices
from holon.core.prompts import PromptBlock, PromptCache, PromptFrame, Stability
from holon.core.usage import InputBuckets
from holon.providers.attempts import Rejected, run_round
from holon.providers.contract import ProviderRequest, ProviderResponse, ToolSpec
from holon.providers.selection import Providers

MOST_DOLLARS = 0.05
#: A service's own cache may take a moment: the second turn is asked again so many times.
PATIENCE = 3

MODELS = {
    "anthropic": os.environ.get("HOLON_SMOKE_ANTHROPIC", "anthropic/claude-haiku-4-5"),
    "openai": os.environ.get("HOLON_SMOKE_OPENAI", "openai/gpt-5"),
    "openai-codex": os.environ.get("HOLON_SMOKE_OPENAI_CODEX", "openai-codex/gpt-5"),
    "openrouter": os.environ.get("HOLON_SMOKE_OPENROUTER", "openrouter/anthropic/claude-haiku-4.5"),
    "ollama": os.environ.get("HOLON_SMOKE_OLLAMA", ""),
    "vllm": os.environ.get("HOLON_SMOKE_VLLM", ""),
}
CLOCK = ToolSpec(
    name="Clock",
    description="The time. Call it only if you are asked for the time.",
    input_schema={"type": "object", "properties": {"zone": {"type": "string"}}, "required": []},
)


@pytest.mark.skipif(not os.environ.get("HOLON_SMOKE"), reason="it spends money: run `make smoke`")
@pytest.mark.parametrize("name", MODELS)
async def test_two_turns_of_which_the_second_reads_from_the_cache(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    providers = Providers.from_configuration(tmp_path, {}, os.environ)
    if not model:
        pytest.skip(f"set HOLON_SMOKE_{name.upper()} to a model")
    if isinstance(candidate := providers.candidates(model)[0], Rejected):
        pytest.skip(candidate.reason.message)
    first = UserText(text="Say the word 'apple' and nothing else.")
    spent = 0.0
    try:
        answer = await ask(providers, model, [first])
        spent += dollars(providers, model, answer)
        assert "apple" in text_of(answer.blocks).lower()
        talk: list[ConversationItem] = [
            first,
            AssistantBlocks(blocks=answer.blocks),
            UserText(text="Now say 'pear' and nothing else."),
        ]
        second = await ask(providers, model, talk)
        spent += dollars(providers, model, second)
        for _ in range(PATIENCE if providers.supports_prompt_caching(model) else 0):
            if second.buckets and second.buckets.read:
                break
            await asyncio.sleep(2)
            second = await ask(providers, model, talk)
            spent += dollars(providers, model, second)
    finally:
        await providers.close()
    assert "pear" in text_of(second.blocks).lower()
    if providers.supports_prompt_caching(model):
        assert second.buckets is not None
        assert second.buckets.read > 1_000
    assert spent < MOST_DOLLARS


#: New in each run, so that the first turn finds nothing and the second finds only what the first has written.
RUN = uuid.uuid4().hex


async def ask(providers: Providers, model: str, conversation: list[ConversationItem]) -> ProviderResponse:
    frame = PromptFrame(
        system_blocks=[
            PromptBlock(
                text=f"Run {RUN}. Be short. " + "The following words mean nothing: " + "apple pear plum " * 2_000,
                stability=Stability.STABLE,
                source="smoke",
                cache_breakpoint=True,
            )
        ],
        cache=PromptCache(agent_id="smoke", prompt_cache_key=f"smoke:{RUN[:16]}", context_fingerprint=RUN),
    )
    request = ProviderRequest(
        agent_id="smoke",
        turn_id="turn_smoke",
        round=1,
        model=model,
        frame=frame,
        conversation=list(conversation),
        tools=[CLOCK],
        marks=[len(conversation) - 1],
        max_output_tokens=1_024,
    )
    return (await run_round(request, providers.candidates(model), timeout_ms=120_000)).response


def dollars(providers: Providers, model: str, answer: ProviderResponse) -> float:
    prices: Prices = providers.models.card(model).prices
    buckets = answer.buckets or InputBuckets()
    output = answer.usage.output_tokens if answer.usage else 0
    parts = (
        buckets.fresh * prices.input,
        buckets.read * prices.cache_read,
        buckets.written * prices.cache_write,
        output * prices.output,
    )
    return sum(parts) / 1_000_000
