"""Real repositories to work on, made and asked by plain git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


class Project:
    """A folder with a repository in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def new(cls, folder: Path, *, commits: int = 1) -> Project:
        folder.mkdir(parents=True)
        project = cls(folder)
        project.git("init", "-q", "-b", "main")
        for number in range(commits):
            project.commit(f"file-{number}.txt", f"line {number}\n")
        return project

    @property
    def common_dir(self) -> Path:
        return self.folder / ".git"

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        return subprocess.run(
            ["git", *arguments],
            cwd=folder or self.folder,
            env=os.environ | _IDENTITY,
            stdin=subprocess.DEVNULL,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def commit(self, name: str, text: str, *, folder: Path | None = None) -> str:
        where = folder or self.folder
        (where / name).write_text(text)
        self.git("add", "-A", folder=where)
        self.git("commit", "-q", "-m", name, folder=where)
        return self.git("rev-parse", "HEAD", folder=where).strip()

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def worktrees(self) -> list[str]:
        """As git itself lists them, the main tree first."""
        listing = self.git("worktree", "list", "--porcelain")
        return [line.removeprefix("worktree ") for line in listing.splitlines() if line.startswith("worktree ")]

    def everything(self) -> tuple[list[str], list[str], str]:
        """What a creation that failed must leave as it was."""
        return self.branches(), self.worktrees(), self.git("status", "--porcelain")
