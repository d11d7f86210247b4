"""AGENTS.md from its roots: what is loaded, what is left out, and that nobody reads outside of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holon.context.guidance import MAX_BYTES, guidance_sections, load_guidance
from holon.core.guidance import GuidanceKind, GuidanceScope

AGENT, WORKSPACE = GuidanceScope.AGENT, GuidanceScope.WORKSPACE


@pytest.mark.spec("RT-220", "RT-225")
def test_agent_and_workspace_instructions_stand_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "repo").mkdir()
    (tmp_path / "home" / "AGENTS.md").write_text("be brief")
    (tmp_path / "repo" / "AGENTS.md").write_text("run make test")
    sections = guidance_sections(load_guidance(tmp_path / "home", AGENT), load_guidance(tmp_path / "repo", WORKSPACE))
    assert [section.id for section in sections] == ["agent_instructions", "workspace_instructions"]
    assert "be brief" in sections[0].text
    assert "run make test" in sections[1].text


@pytest.mark.spec("RT-221")
def test_claude_md_serves_a_workspace_without_agents_md_and_no_agent(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("fallback")
    found = load_guidance(tmp_path, WORKSPACE)
    assert found is not None
    assert (found.source.kind, found.text) == (GuidanceKind.CLAUDE_MD_FALLBACK, "fallback")
    assert load_guidance(tmp_path, AGENT) is None
    (tmp_path / "AGENTS.md").write_text("first choice")
    chosen = load_guidance(tmp_path, WORKSPACE)
    assert chosen is not None
    assert (chosen.source.kind, chosen.text) == (GuidanceKind.AGENTS_MD, "first choice")


def test_a_huge_file_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x" * (MAX_BYTES + 1000))
    found = load_guidance(tmp_path, AGENT)
    assert found is not None
    assert found.source.truncated
    assert f"the first {MAX_BYTES} of {MAX_BYTES + 1000} bytes" in found.text
    assert len(found.text) < MAX_BYTES + 200


def test_a_binary_file_is_left_out_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"abc\0def")
    found = load_guidance(tmp_path, AGENT)
    assert found is not None
    assert (found.text, found.source.problem) == ("", "it is binary")


def test_a_link_out_of_its_root_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the password")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "AGENTS.md").symlink_to(tmp_path / "secret")
    found = load_guidance(tmp_path / "root", AGENT)
    assert found is not None
    assert (found.text, found.source.problem) == ("", "it is a link out of its folder")


@pytest.mark.parametrize("make", ["folder", "dangling", "loop"])
def test_what_cannot_be_read_is_named_and_nothing_breaks(tmp_path: Path, make: str) -> None:
    path = tmp_path / "AGENTS.md"
    if make == "folder":
        path.mkdir()
    elif make == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.symlink_to(path)
    found = load_guidance(tmp_path, AGENT)
    assert found is not None
    assert found.text == ""
    assert found.source.problem
    assert guidance_sections(found, None) == []
