"""The catalog: which skills an agent can see, from the roots of its scopes. Kept up by stamps, not by watching.

In each scope the first root that exists is used alone. A skill is a folder of a root with a SKILL.md in it; folders
inside a skill are not searched. Looking again costs one `stat` a skill, and only what changed is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from holon.core.skills import SkillScope, UnknownSkillError
from holon.core.values import Value
from holon.skills.descriptors import SkillDescriptor
from holon.skills.format import ENTRYPOINT, FRONT_MATTER_BYTES, FrontMatter, read_skill

#: Bytes that are read of a SKILL.md to describe it. The body is read when it is wanted.
HEAD_BYTES = FRONT_MATTER_BYTES + 16 * 1024
MAX_REFERENCES = 200
#: Roots and catalogs kept in memory. A forgotten one is read again.
CAPACITY = 1_024

ROOTS: Mapping[SkillScope, tuple[str, ...]] = {
    SkillScope.USER: (".agents/skills", ".codex/skills", ".claude/skills"),
    SkillScope.AGENT: ("skills", ".agents/skills", ".codex/skills", ".claude/skills"),
    SkillScope.WORKSPACE: (".agents/skills", ".codex/skills", ".claude/skills"),
}


class Places(Value, frozen=True):
    """Where an agent looks. Only the default agent has a user; an agent may have no workspace beside its home."""

    agent_home: Path
    workspace_anchor: Path | None = None
    user_home: Path | None = None

    def root(self, scope: SkillScope) -> Path | None:
        """The first root of a scope that exists; one directory that is both home and workspace is the agent's."""
        base = {
            SkillScope.AGENT: self.agent_home,
            SkillScope.WORKSPACE: None if self.workspace_anchor == self.agent_home else self.workspace_anchor,
            SkillScope.USER: self.user_home,
        }[scope]
        if base is None:
            return None
        return next((base / name for name in ROOTS[scope] if os.path.isdir(f"{base}/{name}")), None)

    def roots(self) -> list[tuple[SkillScope, Path]]:
        return [(scope, root) for scope in SkillScope if (root := self.root(scope)) is not None]


class Catalog(Value, frozen=True):
    """What was found: skills by their name in this catalog, sorted, and folders that are no skills, with the reason."""

    skills: Mapping[str, SkillDescriptor]
    problems: tuple[str, ...] = ()
    roots: tuple[tuple[SkillScope, Path], ...] = ()
    #: Differs where anything in it differs: what is derived from a catalog is kept under this.
    version: int = 0

    def find(self, name: str) -> SkillDescriptor:
        """The skill of this name, or of `scope:name`."""
        found = self.skills.get(name)
        if found is None:
            scope, _, plain = name.partition(":")
            found = next((s for s in self.skills.values() if s.scope == scope and s.own_name == plain), None)
        if found is None:
            raise UnknownSkillError(
                f"there is no skill {name[:100]!r} in this agent's catalog", hint="look for it with skill_search"
            )
        return found

    def visible(self) -> list[SkillDescriptor]:
        """What the model may know of."""
        return [skill for skill in self.skills.values() if skill.model_visible]


EMPTY = Catalog({})


class _Stamp(NamedTuple):
    file: tuple[int, int, int]
    references: int


_NOTHING = _Stamp((0, 0, 0), 0)


class _Seen(Value, frozen=True):
    stamp: _Stamp
    #: A described skill, or why the folder is none.
    found: SkillDescriptor | str


class CatalogReader:
    """Reads catalogs and remembers what it read. One for a process: agents share what they see of a root."""

    def __init__(self) -> None:
        self._seen: dict[tuple[SkillScope, Path], dict[str, _Seen]] = {}
        self._catalogs: dict[Places, tuple[list[SkillDescriptor | str], Catalog]] = {}
        self._versions = 0

    def read(self, places: Places) -> Catalog:
        """The catalog as it stands on disk now; the same value as before if nothing changed."""
        found: list[SkillDescriptor | str] = []
        roots = places.roots()
        for scope, root in roots:
            found += self._read_root(scope, root)
        known = self._catalogs.get(places)
        if known is not None and _same(known[0], found) and known[1].roots == tuple(roots):
            return known[1]
        if len(self._catalogs) >= CAPACITY:
            self._catalogs.clear()
        self._versions += 1
        catalog = _assemble(found, roots, self._versions)
        self._catalogs[places] = (found, catalog)
        return catalog

    def known(self, places: Places) -> Catalog | None:
        """The catalog as it was last read."""
        known = self._catalogs.get(places)
        return known[1] if known is not None else None

    def read_roots(self, roots: Iterable[tuple[SkillScope, Path]]) -> Catalog:
        """The catalog of these very folders, for authors; each folder counts once."""
        once = {root.resolve(): (scope, root) for scope, root in reversed(list(roots))}
        chosen = list(reversed(once.values()))
        found = [item for scope, root in chosen for item in self._read_root(scope, root)]
        self._versions += 1
        return _assemble(found, chosen, self._versions)

    def _read_root(self, scope: SkillScope, root: Path) -> list[SkillDescriptor | str]:
        try:
            with os.scandir(root) as entries:
                folders = sorted(entry.path for entry in entries if not entry.name.startswith("."))
        except OSError as error:
            return [f"{root} cannot be listed ({error.strerror})"]
        before = self._seen.get((scope, root), {})
        now: dict[str, _Seen] = {}
        for folder in folders:
            seen = _look(scope, root, folder, before.get(folder))
            if seen is not None:
                now[folder] = seen
        if len(self._seen) >= CAPACITY:
            self._seen.clear()
        self._seen[scope, root] = now
        return [seen.found for seen in now.values()]


def _look(scope: SkillScope, root: Path, folder: str, before: _Seen | None) -> _Seen | None:
    """What a folder is: as before while its stamp is the same. `None` for one that has nothing to do with skills."""
    entrypoint = f"{folder}/{ENTRYPOINT}"
    try:
        info = os.stat(entrypoint)
    except FileNotFoundError:
        return _Seen(_NOTHING, f"{folder} is a link that leads nowhere") if _dangles(folder, entrypoint) else None
    except NotADirectoryError:
        return None
    except OSError as error:
        return _Seen(_NOTHING, f"{entrypoint} cannot be looked at ({error.strerror})")
    stamp = _Stamp((info.st_mtime_ns, info.st_size, info.st_ino), _changed(f"{folder}/references"))
    if before is not None and before.stamp == stamp:
        return before
    return _Seen(stamp, describe(scope, root, Path(folder), info))


def describe(scope: SkillScope, root: Path, folder: Path, info: os.stat_result | None = None) -> SkillDescriptor | str:
    """One folder as a skill, or the reason why it is none."""
    entrypoint = folder / ENTRYPOINT
    try:
        info = info or os.stat(entrypoint)
        if not stat.S_ISREG(info.st_mode):
            return f"{entrypoint} is not a file"
        if scope is SkillScope.WORKSPACE and not _inside(entrypoint, root):
            # What a checked-out project brings along may not point at the rest of the machine.
            return f"{entrypoint} is a link out of its workspace"
        with open(entrypoint, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        return f"{entrypoint} cannot be read ({error.strerror})"
    if b"\0" in head:
        return f"{entrypoint} is binary"
    read = read_skill(head.decode("utf-8", "replace"), folder.name)
    listed, refused = allowed_references(read.front, folder)
    return SkillDescriptor(
        name=read.front.name,
        description=read.front.description,
        scope=scope,
        folder=folder,
        references=listed,
        front=read.front,
        warnings=read.warnings + refused,
        size=info.st_size,
    )


def allowed_references(front: FrontMatter, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The allowlist: what the author listed, else the files right under references/. And why entries were left out."""
    if front.references is None:
        return _files_under(folder / "references"), ()
    listed, warnings = [], []
    for path in front.references[:MAX_REFERENCES]:
        parts = path.split("/")
        if path.startswith(("/", "~")) or "\\" in path or "\0" in path or any(p in ("", ".", "..") for p in parts):
            warnings.append(f"reference {path[:100]!r} is no plain path inside the skill; it is left out")
        else:
            listed.append(path)
    return tuple(dict.fromkeys(listed)), tuple(warnings)


def _files_under(folder: Path) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and not entry.is_dir())
    except OSError:
        return ()
    return tuple(f"references/{name}" for name in names[:MAX_REFERENCES])


def _assemble(
    found: Iterable[SkillDescriptor | str], roots: Iterable[tuple[SkillScope, Path]], version: int
) -> Catalog:
    skills: dict[str, SkillDescriptor] = {}
    problems: list[str] = []
    for item in found:
        if isinstance(item, str):
            problems.append(item)
        elif (other := skills.get(item.name)) is None:
            skills[item.name] = item
        elif (qualified := f"{item.scope}:{item.name}") not in skills and other.scope is not item.scope:
            problems.append(f"{item.folder} is listed as {qualified!r}: {other.folder} already has its name")
            skills[qualified] = msgspec.structs.replace(item, name=qualified)
        else:
            problems.append(f"{item.folder} is left out: {other.folder} has the same name {item.name!r}")
    return Catalog(dict(sorted(skills.items())), tuple(problems), tuple(roots), version)


def _same(before: list[SkillDescriptor | str], now: list[SkillDescriptor | str]) -> bool:
    """Unchanged skills are the same objects; problems are compared by their words."""
    return len(before) == len(now) and all(
        old is new or (isinstance(old, str) and old == new) for old, new in zip(before, now, strict=True)
    )


def _inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
    except (OSError, RuntimeError):
        return False


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _dangles(folder: str, entrypoint: str) -> bool:
    return os.path.islink(entrypoint) or (os.path.islink(folder) and not os.path.exists(folder))
