"""Templates and repositories on disk, for tests: real folders, and a real git that finds `github.com` in a folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

TEXT = "# A tester\n\nYou test things.\n"


def put_template(folder: Path, text: str | None = TEXT, skills: list[dict[str, Any]] | str | None = None) -> Path:
    folder.mkdir(parents=True)
    if text is not None:
        (folder / "AGENTS.md").write_text(text)
    if skills is not None:
        (folder / "skills.json").write_text(skills if isinstance(skills, str) else json.dumps({"skill_refs": skills}))
    return folder


class GitHub:
    """Repositories that git takes for those of github.com, because the user's own settings say so."""

    def __init__(self, folder: Path, user_home: Path) -> None:
        self._folder = folder
        user_home.mkdir(parents=True, exist_ok=True)
        (user_home / ".gitconfig").write_text(f'[url "file://{folder}/"]\n\tinsteadOf = https://github.com/\n')

    def repository(self, name: str) -> Path:
        """A working tree; what is committed in it can be fetched as `https://github.com/<name>.git`."""
        folder = self._folder / f"{name}.git"
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        return folder

    def commit(self, repository: Path, message: str = "more") -> str:
        git(repository, "add", "-A")
        git(repository, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", message)
        return git(repository, "rev-parse", "HEAD")


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
