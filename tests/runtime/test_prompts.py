"""The prompt that only grows: over turns and restarts, through changes and compaction, and as people look at it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holon.context.epochs import Epoch
from holon.core.codec import dumps, loads, to_plain
from holon.core.conversation import UserText
from holon.core.errors import NotFound
from holon.core.ledger import cost_of
from holon.core.models import CacheKind, CacheRules, ModelCard
from holon.core.prompts import Stability
from holon.core.usage import InputBuckets
from holon.providers.contract import ProviderRequest
from holon.runtime.inspection import expected_buckets
from holon.runtime.timers import TimerRequest
from holon.store import calls
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Living

SCRIPT = """
rules:
  - when: {pattern: "^work"}
    rounds: [{text: on it, tools: [{name: Note, input: {text: a}}]}, {text: done}]
"""
PRICES = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
PRICED = {"scripted/": {"prices": PRICES, "cache": {"kind": "explicit", "floor_tokens": 1}}}


def parts(request: ProviderRequest) -> list[str]:
    """A request as the bytes of its parts, in order: tools, the frame's blocks, the conversation."""
    return [dumps(request.tools), *(dumps(block) for block in request.frame.blocks), *map(dumps, request.conversation)]


def extends(newer: ProviderRequest, older: ProviderRequest) -> bool:
    return parts(newer)[: len(parts(older))] == parts(older)


def tamper(home: Path, change: tuple[str, str]) -> None:
    """Edits the stored head of an epoch, as only somebody with the file can."""
    with closing(sqlite3.connect(home / "state" / "holon.sqlite3")) as connection, connection:
        (record,) = connection.execute("SELECT record FROM epochs WHERE agent_id = 'main' AND number = 1").fetchone()
        assert change[0] in record
        connection.execute("UPDATE epochs SET record = ? WHERE agent_id = 'main'", (record.replace(*change),))


async def newest_call(life: Living) -> int:
    return (await life.state()).total_model_rounds


@pytest.mark.spec("RT-211")
async def test_each_request_is_the_one_before_plus_what_is_new(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    for text in ("work", "hello", "work"):
        await life.ask(text)
    requests = life.model.requests
    assert len(requests) == 5
    assert all(extends(newer, older) for older, newer in pairwise(requests))
    assert await life.events("prompt_drift") == []


async def test_after_a_restart_the_next_request_extends_the_last_one_of_the_process_before(living: Opens) -> None:
    first = await living(SCRIPT, tools=[NOTE])
    await first.ask("work")
    await first.ask("hello")
    await first.close()
    second = await living(SCRIPT, tools=[NOTE])
    await second.ask("and on")
    before, after = first.model.requests[-1], second.model.requests[0]
    assert extends(after, before)
    # The last answer and the new input, and nothing else.
    assert len(after.conversation) == len(before.conversation) + 2
    assert after.frame.cache is not None
    assert before.frame.cache is not None
    assert after.frame.cache.prompt_cache_key == before.frame.cache.prompt_cache_key
    assert (await second.host.inspection.diff("main")).extends
    assert await second.events("prompt_drift") == []


@pytest.mark.spec("RT-207", "RT-208", "RT-211")
async def test_an_operators_turn_and_a_timers_turn_have_the_same_frame_and_cache_key(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    await life.host.timers.create("main", TimerRequest(duration_ms=1, summary="look"), surface=SURFACE)
    await life.event("turn_terminal", count=2)
    by_operator, by_timer = (request.frame for request in life.model.requests)
    assert by_operator.cache is not None
    assert by_timer.cache is not None
    assert by_operator.cache.prompt_cache_key == by_timer.cache.prompt_cache_key
    assert by_operator.cache.context_fingerprint != by_timer.cache.context_fingerprint
    assert (by_timer.cache.agent_id, by_timer.cache.compression_epoch, by_timer.cache.working_memory_revision) == (
        "main",
        1,
        0,
    )
    assert by_timer.blocks == by_operator.blocks
    assert len(by_timer.system_blocks) == 3


@pytest.mark.spec("RT-209")
async def test_another_set_of_tools_or_another_agent_has_another_cache_key(living: Opens, tmp_path: Path) -> None:
    keys: set[str] = set()
    for number, tools in enumerate(([], [NOTE])):
        life = await living(SCRIPT, home=tmp_path / str(number), tools=tools)
        await life.host.agents.create("second", surface=SURFACE)
        for agent_id in ("main", "second"):
            await life.ask("hello", agent_id)
            cache = life.model.requests[-1].frame.cache
            assert cache is not None
            keys.add(cache.prompt_cache_key)
    assert len(keys) == 4


async def test_a_changed_agents_md_is_appended_and_does_not_touch_the_prefix(living: Opens, tmp_path: Path) -> None:
    life = await living()
    guidance = tmp_path / "agents" / "main" / "AGENTS.md"
    guidance.write_text("be brief")
    await life.ask("hello")
    guidance.write_text("be thorough")
    view = await life.host.inspection.prompt("main", text=True)
    assert [block.text for block in view.blocks if block.source == "deltas"] == [
        "[context: agent_instructions changed; this text takes the place of the earlier one]\n"
        "# Instructions of this agent (AGENTS.md)\nbe thorough"
    ]
    await life.ask("again")
    older, newer = life.model.requests
    assert extends(newer, older)
    assert newer.frame.blocks == older.frame.blocks
    assert "be brief" in newer.frame.system_prompt
    delta, said = newer.conversation[-2:]
    assert isinstance(delta, UserText)
    assert delta.text.endswith("be thorough")
    assert isinstance(said, UserText)
    assert said.text.endswith("again")
    guidance.unlink()
    await life.ask("and now")
    assert UserText(text="[context: agent_instructions no longer applies]") in life.model.requests[-1].conversation
    assert await life.events("prompt_drift") == []
    assert len(await life.events("epoch_opened")) == 1


async def test_compaction_opens_an_epoch_and_keeps_the_newest_turns_exactly(living: Opens, tmp_path: Path) -> None:
    small = {"scripted/": {"context_window_tokens": 40_000, "max_output_tokens": 500}}
    life = await living(models=small)
    (tmp_path / "agents" / "main" / "AGENTS.md").write_text("be brief")
    number = 0
    while len(await life.events("epoch_opened")) < 2:
        number += 1
        await life.ask(f"message {number} " + "x" * 8_000)
        (tmp_path / "agents" / "main" / "AGENTS.md").write_text(f"be brief, said {number} times")
    older, newer = life.model.requests[-2:]
    summary, *kept = newer.conversation[:-1]
    assert isinstance(summary, UserText)
    assert summary.text.startswith("[earlier conversation, in short")
    assert "- in: [operator_prompt from operator" in summary.text
    assert "message 1 " in summary.text
    answered = older.conversation + [item for item in kept if item not in older.conversation]
    assert [dumps(item) for item in kept] == [dumps(item) for item in answered[-len(kept) :]]
    assert 4 <= len(kept) < len(older.conversation)
    assert f"be brief, said {number - 1} times" in newer.frame.system_prompt, "the new head has what deltas told"
    assert newer.frame.cache is not None
    assert newer.frame.cache.compression_epoch == 2
    assert await life.events("prompt_drift") == []
    await life.ask("on")
    assert extends(life.model.requests[-1], newer)
    call = await newest_call(life)
    for past in range(1, call + 1):
        assert (await life.host.inspection.prompt("main", call=past)).verification == await verified(life, past)
    diff = await life.host.inspection.diff("main", call=call - 1)
    assert not diff.extends
    assert "began epoch 2" in diff.sentence


async def verified(life: Living, call: int) -> Any:
    found = (await life.host.inspection.prompt("main", call=call)).verification
    assert found is not None
    assert found.verified, found
    return found


async def test_a_provoked_drift_is_named_with_its_source_and_its_price(living: Opens, tmp_path: Path) -> None:
    first = await living(models=PRICED)
    await first.ask("hello")
    await first.ask("again")
    before = (await first.host.inspection.prompt("main")).blocks
    await first.close()
    tamper(tmp_path, ("# How you live", "# Who you live"))
    second = await living(models=PRICED)
    await second.ask("go on")
    (event,) = await second.events("prompt_drift")
    assert (event.payload["source"], event.payload["position"]) == ("contract", 1)
    sent = second.model.requests[0]
    lost = sum(block.tokens for block in before[1 : len(parts(sent)) - 2])
    assert event.payload["lost_tokens"] == lost
    prices = ModelCard(model_ref="x", prices=second.host.models.card("scripted/test").prices).prices
    assert event.payload["lost_nanodollars"] == cost_of(prices, InputBuckets(fresh=lost), 0) - cost_of(
        prices, InputBuckets(read=lost), 0
    )
    assert event.payload["lost_nanodollars"] == round(lost * (3.0 - 0.3) * 1000)
    assert event.turn_id is not None
    diff = await second.host.inspection.diff("main")
    assert (diff.extends, diff.position, diff.source) == (False, 1, "contract")
    assert "drifted between call 2 and call 3: the first difference is block 1, contract" in diff.sentence
    assert [(drift.source, drift.lost_tokens) for drift in diff.drifts] == [("contract", lost)]
    past = await second.host.inspection.prompt("main", call=2)
    assert past.verification is not None
    assert not past.verification.verified
    assert (past.verification.position, past.verification.source) == (1, "contract")
    assert past.verification.difference == "the first difference is block 1, contract"
    await second.ask("and on")
    assert len(await second.events("prompt_drift")) == 1, "it is told once"


async def test_a_drift_behind_the_head_is_found_between_two_calls(living: Opens, tmp_path: Path) -> None:
    first = await living(models=PRICED)
    for text in ("one", "two", "three"):
        await first.ask(text)
    await first.close()
    with closing(sqlite3.connect(tmp_path / "state" / "holon.sqlite3")) as connection, connection:
        changed = connection.execute("UPDATE transcript SET data = replace(data, 'two', '2') WHERE seq = 4").rowcount
        assert changed == 1
    second = await living(models=PRICED)
    await second.ask("four")
    (event,) = await second.events("prompt_drift")
    assert event.payload["source"] == "answers or inputs"
    head = len(life_head := (await second.host.inspection.prompt("main")).blocks) - 8
    assert life_head[head + 3].source == "answers"
    assert event.payload["position"] == head + 3, "call 2 ended with its input: the answer after it is the first doubt"


async def test_a_past_call_is_shown_as_it_was_sent(living: Opens, tmp_path: Path) -> None:
    life = await living(SCRIPT, tools=[NOTE], models=PRICED)
    (tmp_path / "agents" / "main" / "AGENTS.md").write_text("be brief")
    for text in ("work", "hello"):
        await life.ask(text)
    for number, request in enumerate(life.model.requests, 1):
        view = await life.host.inspection.prompt("main", call=number, text=True)
        await verified(life, number)
        texts = [block.text for block in view.blocks]
        assert texts[1 : 1 + len(request.frame.blocks)] == [block.text for block in request.frame.blocks]
        assert texts[1 + len(request.frame.blocks) :] == [
            item.text if isinstance(item, UserText) else dumps(item) for item in request.conversation
        ]
        assert view.cache == request.frame.cache
        assert view.call is not None
        record = await life.host.store.read(lambda tx, number=number: calls.get(tx, "main", number))  # type: ignore[misc]
        assert record is not None
        assert (view.call.buckets, view.call.dollars) == (record.buckets, record.nanodollars / 1e9)
        together = InputBuckets()
        for section in view.sections:
            together += section.buckets
        assert together == record.buckets
        assert sum(section.tokens for section in view.sections) == view.total_tokens


@pytest.mark.spec("RT-205", "RT-206")
async def test_the_next_prompt_is_what_the_next_turn_sends_in_front_of_its_input(living: Opens, tmp_path: Path) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    for expected_epoch in ("opens", "goes on"):
        (tmp_path / "agents" / "main" / "AGENTS.md").write_text(f"be brief, {expected_epoch}")
        view = await life.host.inspection.prompt("main", text=True)
        assert view.opens_epoch is (expected_epoch == "opens")
        assert (view.call, view.verification, view.cache_state) == (None, None, "expected")
        await life.ask("hello")
        request = life.model.requests[-1]
        shown = [block.text for block in view.blocks[1:]]
        sent = [block.text for block in request.frame.blocks] + [
            item.text if isinstance(item, UserText) else dumps(item) for item in request.conversation[:-1]
        ]
        assert shown == sent
        scopes = [block.stability for block in view.blocks[1:]]
        assert scopes[: len(request.frame.blocks)] == [block.stability for block in request.frame.blocks]
        assert set(scopes[len(request.frame.blocks) :]) <= {Stability.TURN_SCOPED}
        marked = [block.source for block in view.blocks if block.cache_breakpoint]
        assert marked == ["tools", "agent_instructions"]
        assert request.frame.system_prompt == "\n\n".join(block.text for block in request.frame.blocks)
    assert await life.events("epoch_opened") != []
    assert len(await life.events("epoch_opened")) == 1, "looking opened nothing"


@pytest.mark.spec("RT-228", "RT-229")
async def test_where_an_agent_acts_and_which_instructions_it_has_is_shown_without_their_text(
    living: Opens, tmp_path: Path
) -> None:
    life = await living()
    home = tmp_path / "agents" / "main"
    (home / "AGENTS.md").unlink()  # the one from its template
    assert to_plain((await life.host.views.summary()).loaded_agents_md) == {
        "agent_source": None,
        "workspace_source": None,
    }
    (home / "AGENTS.md").write_text("never say the word heliotrope")
    view = await life.host.inspection.prompt("main")
    assert view.agent_home == str(home)
    execution = view.execution
    assert (execution.workspace_id, execution.workspace_anchor, execution.execution_root, execution.cwd) == (
        "agent_home",
        str(home),
        str(home),
        str(home),
    )
    assert execution.policy.resource_authority.message_ingress == "hard_enforced"
    summary = await life.host.views.summary()
    assert to_plain(summary.loaded_agents_md) == {
        "agent_source": {"scope": "agent", "kind": "agents_md", "path": str(home / "AGENTS.md"), "bytes": 29},
        "workspace_source": None,
    }
    assert view.loaded_agents_md == summary.loaded_agents_md
    assert "heliotrope" not in dumps(summary)
    assert "heliotrope" not in dumps(view)
    assert "heliotrope" in dumps(await life.host.inspection.prompt("main", text=True))
    origins = {section.source: section.origin for section in view.sections}
    assert origins["agent_instructions"] == str(home / "AGENTS.md")
    assert origins["contract"] == "holon.context.policy"


@pytest.mark.spec("RT-228", "RT-229")
async def test_in_a_project_the_root_the_policy_and_the_instructions_of_both_places_are_shown(
    living: Opens, tmp_path: Path, outside: Path
) -> None:
    life = await living()
    project = outside / "project"
    project.mkdir()
    (project / "CLAUDE.md").write_text("run make heliotrope")
    (tmp_path / "agents" / "main" / "AGENTS.md").write_text("be brief")
    entered = await life.host.housing.enter("main", project, surface=SURFACE)
    view = await life.host.inspection.prompt("main")
    execution = view.execution
    assert view.agent_home == str(tmp_path / "agents" / "main")
    assert execution.workspace_id == entered.active.workspace_id != "agent_home"
    assert (execution.workspace_anchor, execution.execution_root, execution.cwd) == (str(project),) * 3
    assert (execution.policy.backend, execution.policy.process_execution_exposed) == ("host_local", True)
    loaded = view.loaded_agents_md
    assert loaded == (await life.host.views.summary()).loaded_agents_md
    assert loaded.agent_source is not None
    assert loaded.workspace_source is not None
    assert (loaded.agent_source.scope, loaded.agent_source.kind) == ("agent", "agents_md")
    assert (loaded.workspace_source.scope, loaded.workspace_source.kind, loaded.workspace_source.path) == (
        "workspace",
        "claude_md_fallback",
        str(project / "CLAUDE.md"),
    )
    assert "heliotrope" not in dumps(view)
    origins = {section.source: section.origin for section in view.sections}
    assert origins["workspace_instructions"] == str(project / "CLAUDE.md")


async def test_a_prompt_never_holds_the_agents_trigger(living: Opens) -> None:
    life = await living()
    capability = await life.host.triggers.reveal("main", surface=SURFACE)
    token = str(capability.trigger_url).rpartition("/")[2]
    await life.ask("hello")
    for call in (None, 1):
        view = await life.host.inspection.prompt("main", call=call, text=True)
        assert token not in dumps(view)
        assert "/callbacks/" not in dumps(view)


async def test_what_is_not_there_is_said(living: Opens) -> None:
    life = await living()
    with pytest.raises(NotFound, match="it has made none yet"):
        await life.host.inspection.prompt("main", call=1)
    with pytest.raises(NotFound, match="two requests"):
        await life.host.inspection.diff("main")
    await life.ask("hello")
    with pytest.raises(NotFound, match="its newest call is 1"):
        await life.host.inspection.prompt("main", call=2)


async def test_the_stored_head_is_what_the_ledger_says_of_it(living: Opens, tmp_path: Path) -> None:
    life = await living()
    await life.ask("hello")
    with closing(sqlite3.connect(tmp_path / "state" / "holon.sqlite3")) as connection:
        (record,) = connection.execute("SELECT record FROM epochs WHERE agent_id = 'main'").fetchone()
    epoch = loads(record, Epoch)
    assert epoch.blocks == life.model.requests[0].frame.blocks


EXPLICIT = ModelCard(model_ref="x", cache=CacheRules(kind=CacheKind.EXPLICIT, floor_tokens=1_000))
AUTOMATIC = ModelCard(model_ref="x", cache=CacheRules(kind=CacheKind.AUTOMATIC, floor_tokens=1_000, step_tokens=128))
NONE = ModelCard(model_ref="x")


@pytest.mark.parametrize(
    ("card", "total", "sent", "warm", "expected"),
    [
        (NONE, 5_000, 4_000, True, InputBuckets(fresh=5_000)),
        (EXPLICIT, 900, 800, True, InputBuckets(fresh=900)),
        (EXPLICIT, 5_000, 0, False, InputBuckets(written=5_000)),
        (EXPLICIT, 5_000, 4_000, True, InputBuckets(read=4_000, written=1_000)),
        (EXPLICIT, 5_000, 4_000, False, InputBuckets(written=5_000)),
        (EXPLICIT, 1_200, 900, True, InputBuckets(written=1_200)),
        (AUTOMATIC, 5_000, 4_000, True, InputBuckets(read=3_968, fresh=1_032)),
        (AUTOMATIC, 5_000, 4_000, False, InputBuckets(fresh=5_000)),
    ],
)
def test_what_a_provider_will_read_follows_from_its_rules(
    card: ModelCard, total: int, sent: int, warm: bool, expected: InputBuckets
) -> None:
    assert expected_buckets(card, total, sent, warm=warm) == expected
