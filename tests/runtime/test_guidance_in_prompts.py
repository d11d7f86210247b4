"""What stands in a prompt's front: instructions and memory, from their stable places, changed by deltas only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holon.core.tokens import estimate
from holon.providers.models import ModelTable
from tests.runtime.conftest import Opens


@pytest.mark.spec("CA-006", "CA-007", "CA-008", "CA-009", "RT-208", "RT-211")
async def test_memory_that_changes_between_turns_is_appended_and_the_prefix_stays_byte_for_byte(
    living: Opens, tmp_path: Path
) -> None:
    life = await living()
    home = tmp_path / "agents" / "main"
    (home / "AGENTS.md").write_text("Be brief.")
    (home / "memory" / "self.md").write_text("The build server is called anvil.")
    await life.ask("one")
    (home / "memory" / "self.md").write_text("The build server is called hammer.")
    await life.ask("two")
    first, second = life.model.requests
    assert "Be brief." in first.frame.system_prompt
    assert "anvil" in first.frame.system_prompt
    assert second.frame.system_prompt == first.frame.system_prompt
    assert second.conversation[: len(first.conversation)] == first.conversation
    added = [item.text for item in second.conversation[len(first.conversation) :] if hasattr(item, "text")]
    assert any(text.startswith("[context: memory_self changed") and "hammer" in text for text in added)
    keys = {request.frame.cache.prompt_cache_key for request in (first, second) if request.frame.cache}
    assert len(keys) == 1


@pytest.mark.spec("RT-222", "RT-223", "RT-220")
async def test_project_instructions_come_from_the_anchor_also_inside_a_folder_of_it(
    living: Opens, outside: Path
) -> None:
    project = outside / "project"
    (project / "sub" / ".git").mkdir(parents=True)
    (project / "sub" / ".git").rmdir()
    (project / "AGENTS.md").write_text("Project rules.")
    (project / "sub" / "AGENTS.md").write_text("Rules of a folder.")
    use = json.dumps({"name": "UseWorkspace", "input": {"path": str(project), "cwd": "sub"}})
    life = await living(f"rules: [{{when: {{pattern: use}}, rounds: [{{tools: [{use}]}}, {{text: ok}}]}}]")
    await life.ask("use it")
    await life.ask("and now")
    text = "\n".join(item.text for item in life.model.requests[-1].conversation if hasattr(item, "text"))
    assert "Project rules." in text
    assert "Rules of a folder." not in text


@pytest.mark.spec("CA-028")
def test_tokens_are_estimated_as_a_quarter_of_the_characters() -> None:
    assert [estimate("x" * length) for length in (0, 1, 4, 5, 4_000)] == [0, 1, 1, 2, 1_000]


@pytest.mark.spec("CA-033", "CA-034")
def test_floors_are_data_by_model_and_clear_what_was_measured() -> None:
    floors = {
        name: ModelTable().card(f"anthropic/claude-{name}").cache.floor_tokens
        for name in ("haiku-4-5", "sonnet-4-5", "opus-4-1")
    }
    assert floors == {"haiku-4-5": 4096, "sonnet-4-5": 1024, "opus-4-1": 1024}
    assert 3320 < floors["haiku-4-5"] < 4957, "a prefix of 3,320 tokens was not cached, one of 4,957 was"
