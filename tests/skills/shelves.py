"""Skills on disk, for tests: real folders with real files."""

from __future__ import annotations

from pathlib import Path


def put_skill(
    root: Path,
    name: str,
    description: str = "Does one thing.",
    body: str = "Do it in one step.",
    *,
    references: dict[str, str] | None = None,
    extra: str = "",
) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{extra}---\n\n{body}\n")
    for path, text in (references or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
