"""Anchors: which project a path belongs to, and which folder is its execution root.

Read from the files that git keeps, without running git: finding out what a folder is must not run anything in it.
What a folder claims is believed only if the repository says so too, because whoever writes a `.git` file can name
any repository in it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from base64 import b32encode
from pathlib import Path

from holon.core.values import Value
from holon.core.workspaces import (
    AGENT_HOME,
    AccessMode,
    ActiveWorkspace,
    ProjectionKind,
    WorkspaceKind,
    WorkspaceRefused,
)
from holon.workspaces.names import printable
from holon.workspaces.roots import ExecutionRoot, RootViolation

_POINTER_BYTES = 4_096
_ID_CHARS = 20


class Detected(Value, frozen=True, kw_only=True):
    """What a path turned out to be."""

    workspace_id: str
    kind: WorkspaceKind
    anchor: Path
    execution_root: Path
    projection: ProjectionKind
    cwd: Path
    #: The repository's data, where the repository itself vouches for this root.
    git_common_dir: Path | None = None

    @property
    def execution_root_id(self) -> str:
        return _stable_id("root", self.execution_root)

    @property
    def repo_name(self) -> str | None:
        return self.anchor.name if self.kind is WorkspaceKind.GIT_REPOSITORY else None

    @property
    def external_worktree(self) -> bool:
        """A worktree that somebody else made. Holon enters it and never removes it."""
        return self.projection is ProjectionKind.GIT_WORKTREE_ROOT

    def entered(self, access: AccessMode = AccessMode.EXCLUSIVE_WRITE) -> ActiveWorkspace:
        return ActiveWorkspace(
            workspace_id=self.workspace_id,
            workspace_anchor=str(self.anchor),
            execution_root_id=self.execution_root_id,
            execution_root=str(self.execution_root),
            projection_kind=self.projection,
            access_mode=access,
            cwd=str(self.cwd),
            git_common_dir=str(self.git_common_dir) if self.git_common_dir else None,
        )


def detect(path: str | Path) -> Detected:
    """The workspace of an existing folder: of the repository that it is in, or of itself."""
    folder = _existing_folder(path)
    for candidate in (folder, *folder.parents):
        if _is_git_dir(candidate):
            raise _inside_git_dir(path, candidate)
        if os.path.lexists(candidate / ".git"):
            return _in_repository(candidate, folder)
    return Detected(
        workspace_id=workspace_id_of(folder),
        kind=WorkspaceKind.DIRECTORY,
        anchor=folder,
        execution_root=folder,
        projection=ProjectionKind.CANONICAL_ROOT,
        cwd=folder,
    )


def agent_home(home: Path) -> Detected:
    """The workspace that every agent has. It is its own anchor, even inside somebody's repository."""
    folder = _existing_folder(home)
    return Detected(
        workspace_id=AGENT_HOME,
        kind=WorkspaceKind.AGENT_HOME,
        anchor=folder,
        execution_root=folder,
        projection=ProjectionKind.CANONICAL_ROOT,
        cwd=folder,
    )


def workspace_id_of(anchor: Path) -> str:
    """The same id for the same anchor, on every day and for every agent of this machine."""
    return _stable_id("ws", anchor)


def confined_cwd(root: str | Path, given: str, *, field: str = "cwd") -> Path:
    """Where a command would start: an existing folder in the root, after every link was followed. `field` is what the
    caller's caller calls it."""
    place = ExecutionRoot(root).resolve(given, field=field)
    if not place.is_dir():
        raise RootViolation(
            f"{field} {given!r} is no folder",
            hint=f"name an existing folder inside {root}",
            field=field,
            root=str(root),
        )
    return place


def after_restart(active: ActiveWorkspace, home: Detected) -> tuple[ActiveWorkspace, str | None]:
    """The workspace to go on in, and what was lost.

    A root that vanished is given up for home and never for its anchor: an agent that was kept apart in a worktree must
    not wake up in the tree that it was kept apart from. So is one that has become a link: what it leads to is not what
    was once allowed.
    """
    try:
        root = ExecutionRoot(active.execution_root)
    except RootViolation as error:
        return home.entered(), f"{error.message}; the agent is back in its home"
    if str(root.path) != active.execution_root:
        moved = f"the execution root {active.execution_root!r} is now a link to somewhere else"
        return home.entered(), f"{moved}; the agent is back in its home"
    try:
        confined_cwd(root.path, active.cwd)
    except RootViolation as error:
        kept = {name: getattr(active, name) for name in active.__struct_fields__}
        return ActiveWorkspace(**{**kept, "cwd": str(root.path)}), f"{error.message}; the agent is back in its root"
    return active, None


def guidance(detected: Detected) -> str | None:
    """What to tell an agent that entered a worktree which the runtime does not look after."""
    if not detected.external_worktree:
        return None
    return (
        f"{detected.execution_root} is an existing worktree of {detected.anchor} and stays as it is when you leave it. "
        f'For a worktree that the runtime makes and clears, call UseWorkspace(workspace_id="{detected.workspace_id}", '
        'mode="isolated").'
    )


def _in_repository(top: Path, cwd: Path) -> Detected:
    """The repository whose working tree `top` is."""
    marker = top / ".git"
    mode = os.lstat(marker).st_mode
    if stat.S_ISDIR(mode):
        return _repository(anchor=top, root=top, cwd=cwd, common=marker)
    if not stat.S_ISREG(mode):
        # A link may lead anywhere: git follows it for whoever runs git, but no folder is opened to an agent for it.
        return _repository(anchor=top, root=top, cwd=cwd, common=None)
    git_dir = _pointed(marker, top)
    common = _common_dir(git_dir)
    if common is None:  # a submodule, or a git folder that was put elsewhere: a project of its own
        return _repository(anchor=top, root=top, cwd=cwd, common=None)
    if Path(os.path.realpath((git_dir / _read_pointer(git_dir / "gitdir")).parent)) != top:
        raise WorkspaceRefused(
            f"{top} says that it is a worktree of {common}, but that repository does not know it",
            hint=f"if the folder was moved, run 'git worktree repair {top}' in the repository",
            field="path",
        )
    if common.name != ".git":  # a worktree of a bare repository: there is no main tree to be its anchor
        return _repository(anchor=top, root=top, cwd=cwd, common=common)
    return _repository(anchor=common.parent, root=top, cwd=cwd, common=common)


def _repository(*, anchor: Path, root: Path, cwd: Path, common: Path | None) -> Detected:
    return Detected(
        workspace_id=workspace_id_of(anchor),
        kind=WorkspaceKind.GIT_REPOSITORY,
        anchor=anchor,
        execution_root=root,
        projection=ProjectionKind.CANONICAL_ROOT if root == anchor else ProjectionKind.GIT_WORKTREE_ROOT,
        cwd=cwd,
        git_common_dir=common,
    )


def _existing_folder(path: str | Path) -> Path:
    try:
        folder = Path(path).expanduser().resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise WorkspaceRefused(
            f"there is no folder {str(path)!r}", hint="name an existing folder", field="path"
        ) from error
    if printable(folder) != str(folder):
        raise WorkspaceRefused(
            f"the name of {printable(folder)} is no UTF-8, so it cannot be told or stored",
            hint="rename it, or choose another folder",
            field="path",
        )
    if not folder.is_dir():
        raise WorkspaceRefused(f"{str(path)!r} is a file", hint=f"name its folder, {folder.parent}", field="path")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise WorkspaceRefused(
            f"{str(path)!r} cannot be read", hint="ask the operator for access, or choose another folder", field="path"
        )
    return folder


def _is_git_dir(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _inside_git_dir(path: str | Path, git_dir: Path) -> WorkspaceRefused:
    if git_dir.name == ".git":
        message, hint = f"{str(path)!r} is inside a repository's git folder", f"use its working tree, {git_dir.parent}"
    else:
        message, hint = f"{git_dir} is a bare repository: it has no files to work on", "use a clone or a worktree of it"
    return WorkspaceRefused(message, hint=hint, field="path")


def _pointed(marker: Path, top: Path) -> Path:
    """The git folder that a `.git` file names."""
    text = _read_pointer(marker)
    target = (top / text.removeprefix("gitdir:").strip()).resolve() if text.startswith("gitdir:") else None
    if target is None or not target.is_dir():
        raise WorkspaceRefused(
            f"{marker} leads to no repository",
            hint=f"run 'git worktree repair' in its repository, or remove {marker} to use the folder without git",
            field="path",
        )
    return target


def _common_dir(git_dir: Path) -> Path | None:
    """The repository that a worktree's git folder belongs to."""
    text = _read_pointer(git_dir / "commondir")
    if not text:
        return None
    common = (git_dir / text).resolve()
    return common if git_dir.parent == common / "worktrees" else None


def _read_pointer(file: Path) -> str:
    """The one line of a small file that names a path; nothing if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return os.fsdecode(opened.read(_POINTER_BYTES)).strip("\r\n")
    except OSError:
        return ""


def _stable_id(prefix: str, path: Path) -> str:
    digest = hashlib.sha256(os.fsencode(path)).digest()
    return f"{prefix}_{b32encode(digest).decode().lower()[:_ID_CHARS]}"
