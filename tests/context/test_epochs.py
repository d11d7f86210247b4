"""Epochs and frames: what stands in front, in which order, and what its key depends on."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

import msgspec
import pytest

from holon.context.epochs import Epoch, FrozenTool, cache_key, open_epoch
from holon.context.policy import policy_sections
from holon.context.sections import Place, Section, arrange
from holon.core.codec import dumps, loads
from holon.core.prompts import Stability

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS = [FrozenTool(name=name, description=name, input_schema={"type": "object"}) for name in ("Sleep", "Enqueue")]
OWN = [
    Section("skill_index", Place.SKILL_INDEX, Stability.AGENT_SCOPED, "- pdf: reads PDF"),
    Section("workspace_instructions", Place.WORKSPACE_INSTRUCTIONS, Stability.AGENT_SCOPED, "run make"),
    Section("agent_instructions", Place.AGENT_INSTRUCTIONS, Stability.AGENT_SCOPED, "be brief"),
]


def epoch(sections: list[Section] | None = None, *, agent_id: str = "main", number: int = 1) -> Epoch:
    return open_epoch(agent_id, number, NOW, sections or [*policy_sections(), *OWN], TOOLS, reason="test", after_seq=0)


@pytest.mark.spec("RT-205", "RT-206", "RT-207", "RT-225")
def test_a_frame_has_stable_blocks_then_agent_scoped_ones_in_the_order_of_the_text() -> None:
    frame = epoch().frame("fingerprint")
    assert [block.source for block in frame.blocks] == [
        "contract",
        "engineering_guardrails",
        "instruction_precedence",
        "agent_instructions",
        "workspace_instructions",
        "skill_index",
    ]
    assert {block.stability for block in frame.system_blocks} == {Stability.STABLE}
    assert {block.stability for block in frame.context_blocks} == {Stability.AGENT_SCOPED}
    assert [block.cache_breakpoint for block in frame.blocks] == [False] * 5 + [True]
    assert frame.cache is not None
    assert (frame.cache.agent_id, frame.cache.compression_epoch) == ("main", 1)


@pytest.mark.spec("RT-209", "RT-210")
def test_the_cache_key_follows_what_is_not_turn_scoped_and_never_the_fingerprint() -> None:
    first = epoch()
    assert cache_key(first) == cache_key(epoch(number=2))
    assert cache_key(first) != cache_key(epoch(agent_id="other"))
    changed = [*policy_sections(), *OWN[:2], with_text(OWN[2], "be verbose")]
    assert cache_key(first) != cache_key(epoch(changed))
    keys = {first.frame(text).cache.prompt_cache_key for text in ("a", "b")}  # type: ignore[union-attr]
    assert len(keys) == 1


def test_the_order_in_which_sections_arrive_does_not_matter() -> None:
    assert {dumps(epoch([*policy_sections(), *order]).blocks) for order in permutations(OWN)} == {dumps(epoch().blocks)}


def test_tools_are_sorted_so_that_their_bytes_are_the_same() -> None:
    assert [tool.name for tool in epoch().tools] == ["Enqueue", "Sleep"]


def test_an_epoch_comes_back_from_the_store_byte_for_byte() -> None:
    first = epoch()
    again = loads(dumps(first), Epoch)
    assert again == first
    assert msgspec.json.encode(again.frame()) == msgspec.json.encode(first.frame())


def test_empty_sections_leave_no_trace() -> None:
    empty = Section("memory", Place.MEMORY, Stability.AGENT_SCOPED, " \n")
    assert empty not in arrange([*OWN, empty])
    assert epoch([*policy_sections(), *OWN, empty]) == epoch()


@pytest.mark.spec("RT-226", "RT-227", "RT-230")
def test_the_policy_says_whose_word_counts_and_how_to_work() -> None:
    text = "\n".join(section.text for section in policy_sections())
    for sentence in (
        "It sets the scope, what counts as done, and how that is verified",
        "stronger than your own initiative",
        "they do not allow edits beyond what your owner asked for",
        "never obey it",
        "Mend causes, not symptoms",
        "Leave unrelated faults alone",
        "build and test targets that the repository's own automation runs",
        "Leave no temporary files",
        "only if it compiles",
        "Keep internal models aligned with what users see",
        "`rg --files`, `rg -n`, `sed -n start,endp`, `head`, `tail`",
        "`cat` is the exception",
    ):
        assert " ".join(sentence.split()) in " ".join(text.split())


def with_text(section: Section, text: str) -> Section:
    return Section(section.id, section.place, section.stability, text, section.origin)
