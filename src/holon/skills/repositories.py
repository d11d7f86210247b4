"""Repositories: a git URL as a folder at one commit. Git fetches; nothing of the repository is run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from holon.core.errors import InvalidInput, OperatorError
from holon.core.values import Value

TIMEOUT_S = 120
_URL = re.compile(r"(?:git\+)?(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")
#: Who or what stands before the host. In ssh:// a mere name is part of the address.
_SECRET = re.compile(r"\b((?:https?|git)://)[^/\s'\"]*@|\b(ssh://)[^/\s'\":]*:[^/\s'\"]*@")
#: No hooks, no commands as transports, no submodules, no filters that a machine's configuration may name.
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "core.fsmonitor=false",
    "-c", "core.symlinks=true", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=",
    "-c", "filter.lfs.required=false",
)  # fmt: skip


class GitFailed(OperatorError):
    code = "git_failed"


class Checkout(Value, frozen=True):
    folder: Path
    commit: str


def is_git_url(source: str) -> bool:
    return _URL.fullmatch(source) is not None


def without_secrets(text: str) -> str:
    """URLs as they may be shown and written down: a token or password before the host is left out."""
    return _SECRET.sub(lambda found: found[1] or found[2], text)


def clone(url: str, ref: str | None, folder: Path) -> Checkout:
    """The repository at `ref` (a branch, a tag, a commit; else its default branch), and which commit that is."""
    if ref is not None and (ref.startswith("-") or not re.fullmatch(r"[\w./+-]{1,200}", ref)):
        raise InvalidInput(f"{ref[:100]!r} is not a git ref", hint="give a branch, a tag or a commit", field="ref")
    depth = [] if ref is not None else ["--depth", "1"]
    address = url.removeprefix("git+")
    _git("clone", "--quiet", "--no-recurse-submodules", *depth, "--no-checkout", "--", address, str(folder))
    if ref is None:
        commit = _git("-C", str(folder), "rev-parse", "--verify", "HEAD^{commit}")
    else:
        commit = _first(folder, f"origin/{ref}", ref)
    _git("-C", str(folder), "checkout", "--quiet", "--detach", commit, "--")
    return Checkout(folder, commit)


def _first(folder: Path, *names: str) -> str:
    for name in names:
        try:
            return _git("-C", str(folder), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except GitFailed:
            continue
    raise GitFailed(f"the repository has no {names[-1]!r}", hint="give a branch, a tag or a commit that it has")


def _git(*arguments: str) -> str:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    try:
        ran = subprocess.run(
            ["git", *_SAFE, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not on this machine", hint="install it, or give a folder or an archive") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git took longer than {TIMEOUT_S} s", hint="try again, or clone it yourself") from error
    if ran.returncode != 0:
        said = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise GitFailed(f"git failed: {without_secrets(said)[:300]}", hint="check the URL, the ref and your access")
    return ran.stdout.strip()
