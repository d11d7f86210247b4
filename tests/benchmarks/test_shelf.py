"""The context benchmark's skills are real: files on disk that the catalog finds and the model's own tool loads."""

from __future__ import annotations

from pathlib import Path

from benchmarks import shelf
from holon.core.tokens import count


def test_the_reference_workloads_skills_are_files_that_are_found_and_loaded(tmp_path: Path) -> None:
    filled = shelf.fill(tmp_path, skills=4, line_tokens=100, body_tokens=3_000, used=2)

    written = sorted(tmp_path.glob("agents/main/skills/*/SKILL.md"))
    assert [path.parent.name for path in written] == ["skill-00", "skill-01", "skill-02", "skill-03"]
    assert list(filled.bodies) == ["skill-01", "skill-02"]
    for name, body in filled.bodies.items():
        assert body.startswith(f"# Skill: {name} (source: agent)\n\nword")
        assert count(body) == 3_000
    lines = [line for line in filled.index.text.splitlines() if line.startswith("- ")]
    assert [count(line) for line in lines] == [100] * 4
