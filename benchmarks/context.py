"""Context: what a prompt that only grows costs, billed by the provider twins, beside designs that do otherwise.

The reference workload: a base of 1,000 tokens, twenty skills of 3,000 tokens behind index lines of 100 tokens, two of
them used, 1,200 tokens more with each call, three writes to memory. The skills are files that the catalog finds and
the model's tool loads; the index's own guidance comes on top. Costs are in tokens at the uncached input price.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import homes, shelf
from benchmarks.measures import Bound, Measure, Result, Scale, middle
from benchmarks.progress import Progress
from benchmarks.shelf import Shelf, words
from holon.context.epochs import open_epoch
from holon.context.guidelines import OPERATING_GUIDELINES
from holon.context.padding import Filler, PaddingMode, plan_padding, run_cost
from holon.context.sections import Place, Section
from holon.context.window import Window, WindowItem
from holon.core.conversation import AssistantBlocks, TextBlock, ToolResultBlock, ToolResults, ToolUseBlock, UserText
from holon.core.models import CacheKind, CacheRules, ModelCard, Prices
from holon.core.prompts import Stability
from holon.core.tokens import count
from holon.core.turns import Turn, TurnPhase
from holon.core.usage import InputBuckets
from holon.providers.models import ModelTable
from holon.providers.selection import Providers
from holon.runtime.prompting import Prompt, build_request, drifted, head_chain, sent_of

BASE, INDEX_LINE, SKILLS, BODY, USED, STEP, MEMORY_WRITES, MEMORY = 1_000, 100, 20, 3_000, 2, 1_200, 3, 100
RUNS = {Scale.QUICK: (3,), Scale.NORMAL: (3, 10, 30, 60), Scale.FULL: (3, 10, 30, 60)}
HAIKU, GPT = "anthropic/claude-haiku-4-5", "openai/gpt-5"
LIMIT_AT_30 = 138_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = Prices(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)
GUIDELINES = Filler("operating_guidelines", OPERATING_GUIDELINES)


@dataclass(frozen=True, slots=True)
class Run:
    cost: float
    coverage: float
    drifts: int


def measure(scale: Scale, progress: Progress) -> Result:
    progress.say(f"writing and loading {SKILLS} skills")
    with homes.scratch() as home:
        skills = shelf.fill(home, skills=SKILLS, line_tokens=INDEX_LINE, body_tokens=BODY, used=USED)
    measures: list[Measure] = []
    details: dict[str, object] = {}
    for model in (HAIKU, GPT):
        card = ModelTable().card(model)
        for calls in RUNS[scale]:
            progress.say(f"{calls} calls on {model}")
            run = asyncio.run(_run(model, card, calls, skills))
            others = baselines(card, calls)
            details[f"{model}, {calls} calls"] = {"ours": round(run.cost), **{k: round(v) for k, v in others.items()}}
            limit = LIMIT_AT_30 if (model, calls) == (HAIKU, 30) else others["the text's own design"]
            measures.append(
                Measure(
                    what=f"input of {calls} calls, {model.split('/')[1]}",
                    unit="uncached tokens",
                    ours=run.cost,
                    baseline=others["eager, static marks"],
                    baseline_is="all bodies in the prompt, static marks",
                    limit=limit,
                    limit_is="138,000" if limit == LIMIT_AT_30 else "the text's own design",
                )
            )
            measures.append(
                Measure(
                    what=f"hit coverage, {calls} calls, {model.split('/')[1]}",
                    unit="of what was sent before",
                    ours=run.coverage,
                    baseline=1.0,
                    baseline_is="all of it",
                    limit=0.97,
                    limit_is="97 %",
                    bound=Bound.AT_LEAST,
                )
            )
            assert run.drifts == 0, "the prompt drifted"
    progress.say("padding or not, over prefixes and floors")
    measures.append(_padding_regret())
    progress.say("assembling the next request")
    measures += _assembly(scale, skills)
    details["skills"] = {
        "index_tokens": count(skills.index.text),
        "body_tokens": [count(b) for b in skills.bodies.values()],
    }
    return Result(measures=measures, details=details)


def baselines(card: ModelCard, calls: int) -> dict[str, float]:
    """The same work by other designs, by the same rules."""
    read, write = card.prices.read_ratio, card.prices.write_ratio if card.cache.kind is CacheKind.EXPLICIT else 1.0
    eager, lazy, padded = BASE + SKILLS * BODY, BASE + SKILLS * INDEX_LINE, 5_670

    def static(prefix: int, talk: list[int]) -> float:
        return sum(said + prefix * (write if call == 0 else read) for call, said in enumerate(talk))

    plain = [STEP * (call + 1) for call in range(calls)]
    with_skills = [said + BODY * min(call, USED) + MEMORY * _writes(call, calls) for call, said in enumerate(plain)]
    return {
        "eager, no cache": float(sum(eager + said for said in plain)),
        "eager, static marks": static(eager, plain),
        "on demand, static marks": sum(lazy + said for said in with_skills)
        if lazy < card.cache.floor_tokens
        else static(lazy, with_skills),
        "the text's own design": static(padded, with_skills),
    }


async def _run(model: str, card: ModelCard, calls: int, skills: Shelf) -> Run:
    from twins import Twin

    async with Twin.start("rules: [{answers: [{text: ok}]}]") as twin:
        environment = {
            "ANTHROPIC_BASE_URL": twin.anthropic_url,
            "ANTHROPIC_API_KEY": "twin-bench",
            "OPENAI_BASE_URL": twin.openai_url,
            "OPENAI_API_KEY": "twin-bench",
        }
        (candidate,) = Providers.from_configuration(Path(), {}, environment).candidates(model)
        provider = candidate.provider  # type: ignore[union-attr]
        prompt, window, drifts = *_opened(skills), 0
        for call in range(calls):
            _say(window, prompt, skills, call, calls)
            request = build_request(_turn(call, model), prompt, window, card, max_output_tokens=64)
            drifts += drifted(prompt)
            sent = sent_of(prompt, window)
            await provider.respond(request)
            prompt.was_sent(sent, request.marks)
        bills = [call.bill for call in twin.calls if call.bill is not None]
    assert len(bills) == calls
    buckets = [InputBuckets(fresh=b.fresh, read=b.read, written=b.written) for b in bills]
    write = card.prices.write_ratio if card.cache.kind is CacheKind.EXPLICIT else 1.0
    cost = sum(b.fresh + b.read * card.prices.read_ratio + b.written * write for b in buckets)
    before = sum(b.total for b in buckets[:-1])
    return Run(cost, sum(b.read for b in buckets[1:]) / before if before else 1.0, drifts)


def _opened(skills: Shelf) -> tuple[Prompt, Window]:
    sections = [Section("policy", Place.POLICY, Stability.STABLE, words(BASE)), skills.index]
    epoch = open_epoch("main", 1, NOW, sections, [], reason="benchmark", after_seq=0)
    return Prompt(epoch, head_chain(epoch)), Window(after_seq=0, newest_seq=0)


def _say(window: Window, prompt: Prompt, skills: Shelf, call: int, calls: int) -> None:
    """What one more call adds: its input, for the first calls a skill's body, now and then a change of memory."""
    added: list[WindowItem] = []

    def add(item: UserText | AssistantBlocks | ToolResults, source: str) -> None:
        added.append(WindowItem(window.newest_seq + len(added) + 1, item, source == "inputs", source))

    if call > 0:
        add(AssistantBlocks(blocks=[TextBlock(text="ok")]), "answers")
    if 0 < call <= USED:
        name, body = list(skills.bodies.items())[call - 1]
        use = ToolUseBlock(id=f"call_{call}", name="skill_load", input={"name": name})
        added[-1] = added[-1]._replace(item=AssistantBlocks(blocks=[TextBlock(text="ok"), use]))
        add(ToolResults(results=[ToolResultBlock(tool_use_id=use.id, content=body)]), "tool_results")
    if _writes(call, calls) > _writes(call - 1, calls):
        add(UserText(text="[context: memory changed] " + words(MEMORY)), "deltas")
    add(UserText(text=f"call {call} " + words(STEP - 4)), "inputs")
    window.append(added)
    prompt.grow(added)


def _writes(call: int, calls: int) -> int:
    """How many writes to memory came before this call: three, spread evenly."""
    return 0 if call < 0 else min(MEMORY_WRITES, (call * (MEMORY_WRITES + 1)) // max(1, calls))


def _padding_regret() -> Measure:
    """The worst ratio of our choice to the better of padding and not padding."""
    worst = 1.0
    for floor in (512, 1_024, 2_048, 4_096):
        for kind, step in ((CacheKind.EXPLICIT, 1), (CacheKind.AUTOMATIC, 128)):
            rules = CacheRules(kind=kind, floor_tokens=floor, step_tokens=step)
            for prefix in range(200, 6_001, 100):
                for calls in (1, 3, 10, 30, 100):
                    costs = {mode: _padded_cost(prefix, rules, mode, calls) for mode in PaddingMode}
                    better = min(costs[PaddingMode.ALWAYS], costs[PaddingMode.NEVER])
                    worst = max(worst, costs[PaddingMode.AUTO] / better)
    return Measure(
        what="padding, worst case over 200–6,000 tokens and all floors",
        unit="of the better choice",
        ours=worst,
        baseline=1.0,
        baseline_is="the better of padding and not padding",
        limit=1.0,
        limit_is="never worse",
    )


def _padded_cost(prefix: int, rules: CacheRules, mode: PaddingMode, calls: int) -> float:
    growth = 300
    plan = plan_padding(prefix, rules, PRICES, [], GUIDELINES, mode=mode, expected_calls=calls, growth_tokens=growth)
    return run_cost(prefix + plan.tokens, rules, PRICES, calls=calls, growth_tokens=growth)


def _assembly(scale: Scale, skills: Shelf) -> list[Measure]:
    card = ModelTable().card(HAIKU)
    times = {length: _assembly_ms(card, skills, length, 20 if scale is Scale.QUICK else 300) for length in (20, 2_000)}
    return [
        Measure(
            what="assembling the next request of 2,000 messages",
            unit="ms",
            ours=times[2_000],
            baseline=times[20],
            baseline_is="the same for 20 messages",
            limit=5.0,
            limit_is="5 ms",
        )
    ]


def _assembly_ms(card: ModelCard, skills: Shelf, length: int, repeats: int) -> float:
    prompt, window = _opened(skills)
    for call in range(length // 2):
        _say(window, prompt, skills, call, 10**9)
    found = []
    for number in range(repeats):
        began = time.perf_counter()
        _say(window, prompt, skills, length + number, 10**9)
        request = build_request(_turn(1, HAIKU), prompt, window, card, max_output_tokens=64)
        drifted(prompt)
        prompt.was_sent(sent_of(prompt, window), request.marks)
        found.append((time.perf_counter() - began) * 1000)
    return middle(found)


def _turn(number: int, model: str) -> Turn:
    return Turn(
        id=f"turn_{number}",
        agent_id="main",
        turn_index=number + 1,
        run_id="run_1",
        message_id="msg_1",
        phase=TurnPhase.ROUND_BEGUN,
        round=1,
        started_at=NOW,
        model=model,
    )
