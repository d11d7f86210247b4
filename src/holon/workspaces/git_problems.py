"""Git's problems: what its messages mean, and what to do next."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from holon.core.errors import AgentError

_STDERR_CHARS = 2_000


class GitProblem(StrEnum):
    MISSING_PROGRAM = "missing_program"
    TIMEOUT = "timeout"
    NOT_A_REPOSITORY = "not_a_repository"
    BARE_REPOSITORY = "bare_repository"
    DETACHED_HEAD = "detached_head"
    NO_COMMITS = "no_commits"
    UNKNOWN_REVISION = "unknown_revision"
    INVALID_BRANCH = "invalid_branch"
    BRANCH_EXISTS = "branch_exists"
    PATH_EXISTS = "path_exists"
    NOT_A_WORKTREE = "not_a_worktree"
    WORKTREE_LOCKED = "worktree_locked"
    WORKTREE_DIRTY = "worktree_dirty"
    REPOSITORY_LOCKED = "repository_locked"
    DUBIOUS_OWNERSHIP = "dubious_ownership"
    NEEDS_NETWORK = "needs_network"
    NO_SPACE = "no_space"
    OTHER = "other"


class GitFailed(AgentError):
    """Git did not do what was asked; `problem` says why, the hint what to do."""

    code = "git_failed"
    status = 409

    def __init__(self, problem: GitProblem, message: str, *, hint: str, **details: object) -> None:
        super().__init__(message, hint=hint, problem=str(problem), **details)
        self.problem = problem


def explain(stderr: str, command: str, *, where: Path) -> GitFailed:
    """The error that git's words stand for."""
    for row in _EXPLANATIONS:
        if found := row.pattern.search(stderr):
            named = {name: value for name, value in found.groupdict().items() if value}
            return GitFailed(
                row.problem,
                row.message.format(**named, where=where),
                hint=row.hint.format(**named, where=where),
                stderr=stderr[:_STDERR_CHARS],
            )
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "it said nothing")
    return GitFailed(
        GitProblem.OTHER,
        f"'git {command}' failed in {where}: {last[:300]}",
        hint="run the same command by hand to see more",
        stderr=stderr[:_STDERR_CHARS],
    )


class _Explanation(NamedTuple):
    pattern: re.Pattern[str]
    problem: GitProblem
    message: str
    hint: str


def _row(pattern: str, problem: GitProblem, message: str, hint: str) -> _Explanation:
    return _Explanation(re.compile(pattern), problem, message, hint)


#: Read from top to bottom; the first that matches speaks.
_EXPLANATIONS = (
    _row(
        r"detected dubious ownership in repository at '(?P<path>[^']+)'",
        GitProblem.DUBIOUS_OWNERSHIP,
        "{path} belongs to another user, so git refuses to use it",
        "if you trust it, an operator runs: git config --global --add safe.directory '{path}'",
    ),
    _row(
        r"[Uu]nable to create '(?P<path>[^']+\.lock)': File exists",
        GitProblem.REPOSITORY_LOCKED,
        "the repository is locked by {path}: another git command is running, or one was killed",
        "wait for it and try again; if no git command runs, remove that file",
    ),
    _row(
        r"cannot lock ref '(?P<ref>[^']+)': .*File exists",
        GitProblem.REPOSITORY_LOCKED,
        "the ref {ref} is locked: another git command is running, or one was killed",
        "wait for it and try again; if no git command runs, remove the ref's '.lock' file",
    ),
    _row(
        r"a branch named '(?P<branch>[^']+)' already exists",
        GitProblem.BRANCH_EXISTS,
        "the branch {branch!r} exists already",
        "choose another branch name; what is on that branch was not touched",
    ),
    _row(
        r"cannot lock ref 'refs/heads/(?P<branch>[^']+)': '(?P<other>[^']+)' exists",
        GitProblem.BRANCH_EXISTS,
        "the branch {branch!r} cannot stand beside {other!r}",
        "choose a branch name that is not a prefix of another one, nor begins with one",
    ),
    _row(
        r"'(?P<branch>[^']+)' is not a valid branch name",
        GitProblem.INVALID_BRANCH,
        "{branch!r} is no valid branch name",
        "use letters, digits, '-', '_', '.' and '/'",
    ),
    _row(
        r"'(?P<path>[^']+)' already exists",
        GitProblem.PATH_EXISTS,
        "{path} exists already",
        "choose another branch name or path; what is there was not touched",
    ),
    _row(
        r"not a git repository|does not (?:appear|seem) to be a git repository",
        GitProblem.NOT_A_REPOSITORY,
        "{where} is not in a git repository",
        "use a repository, or run 'git init' there first",
    ),
    _row(
        r"'(?P<path>[^']+)' is not a working tree",
        GitProblem.NOT_A_WORKTREE,
        "{path} is no worktree of the repository",
        "'git worktree list' shows those that are",
    ),
    _row(
        r"cannot remove a locked working tree(?:, lock reason: (?P<why>.*))?",
        GitProblem.WORKTREE_LOCKED,
        "somebody has locked this worktree with 'git worktree lock'",
        "whoever locked it runs 'git worktree unlock' when it may go",
    ),
    _row(
        r"contains modified or untracked files|working trees containing submodules",
        GitProblem.WORKTREE_DIRTY,
        "the worktree holds changes, or submodules, that removing would lose",
        "review them, then commit them or remove the worktree by hand",
    ),
    _row(
        r"transport '(?P<transport>[^']+)' not allowed|could not fetch [0-9a-f]+ from promisor|lazy fetching disabled",
        GitProblem.NEEDS_NETWORK,
        "the repository is a partial clone and lacks the files of this commit",
        "an operator runs 'git fetch --refetch --no-filter' in it once; Holon fetches nothing by itself",
    ),
    _row(
        r"[Nn]eeded a single revision|unknown revision|not a valid object name|invalid reference",
        GitProblem.UNKNOWN_REVISION,
        "the repository has no such commit",
        "name a branch, a tag or a commit that exists in it",
    ),
    _row(
        r"must be run in a work tree",
        GitProblem.BARE_REPOSITORY,
        "{where} is a bare repository: it has no files to work on",
        "use a clone of it, or a worktree of it",
    ),
    _row(r"No space left on device", GitProblem.NO_SPACE, "the disk is full", "free some space and try again"),
)
