"""Applying: a template becomes an agent's home, made in a staging folder. It succeeds as a whole or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from holon.core.codec import Record, dumps
from holon.core.errors import HolonError, StoreUnavailable
from holon.core.templates import SourceKind
from holon.core.values import Value
from holon.skills.builtins import builtin_skill
from holon.skills.installing import Installed, install
from holon.templates.contents import BuiltinSkill, GithubSkill, LocalSkill, SkillRef, read_template
from holon.templates.places import AGENTS_MD
from holon.templates.sources import InvalidTemplate, Source, resolve
from holon.templates.staging import PROVENANCE, Staging, merge, sync_tree

#: What every agent that has a home from a template is told about it.
HOME_GUIDANCE = """\
## Your home

This file stands in your home, a folder that is yours and outlives every session. Write there what must not be lost.

- `AGENTS.md`: who you are and how you work. A change counts from your next turn on.
- `memory/self.md`: what you have learned and will need again. `memory/operator.md`: what your owner wants and prefers.
  Both are in every prompt: keep them short.
- `notes/`: what is longer. `work/`: files of the work at hand. `skills/`: skills of your own.
- `.holon/`: the runtime's. Leave it alone."""
FOLDERS = ("memory", "notes", "work", "skills", ".holon/state")
MEMORY = ("memory/self.md", "memory/operator.md")


class AppliedSkill(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    source: str
    sha256: str
    commit: str | None = None


class TemplateProvenance(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Which template a home was made from. A record, not a link: the template may change or go."""

    template: str
    kind: SourceKind
    #: The folder on this machine; for GitHub the URL says it.
    folder: str | None
    ref: str | None
    commit: str | None
    sha256: str
    applied_at: datetime
    skills: list[AppliedSkill]


class Prepared(Value, frozen=True):
    """A home that is ready to be moved in. `token` is what the errand of the creation remembers."""

    token: str
    provenance: TemplateProvenance
    staging: Staging

    def move_in(self, home: Path) -> None:
        self.staging.move_in(self.token, home)

    def discard(self) -> None:
        self.staging.discard(self.token)


class Templates:
    """Made once a process."""

    def __init__(self, staging: Staging, user_home: Path | None, now: Callable[[], datetime]) -> None:
        self.staging, self._user_home, self._now = staging, user_home, now

    async def prepare(self, reference: str) -> Prepared:
        """A whole home from a template, on disk beside the others. If anything of it fails, nothing is left."""
        making = asyncio.ensure_future(asyncio.to_thread(self._prepare, reference))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_forget)  # the thread cannot be stopped; what it makes is nobody's any more
            raise

    def complete(self, home: Path, reference: str, user_home: Path | None) -> None:
        """Gives a home that is there already what it lacks. Whatever it has is untouched."""
        token = self.staging.begin()
        try:
            self._make(token, reference, user_home)
            merge(self.staging.home(token), home)
        finally:
            self.staging.discard(token)

    def _prepare(self, reference: str) -> Prepared:
        token = self.staging.begin()
        try:
            provenance = self._make(token, reference, self._user_home)
            sync_tree(self.staging.home(token))
        except OSError as error:
            self.staging.discard(token)
            raise StoreUnavailable(
                f"the new agent's home cannot be written ({error})", hint="make room on the disk, then try again"
            ) from error
        except BaseException:
            self.staging.discard(token)
            raise
        return Prepared(token, provenance, self.staging)

    def _make(self, token: str, reference: str, user_home: Path | None) -> TemplateProvenance:
        source = resolve(reference, user_home, self.staging.scratch(token))
        return apply(source, self.staging.home(token), self._now())


def apply(source: Source, home: Path, now: datetime) -> TemplateProvenance:
    """Fills an empty folder with everything that a home from this template has."""
    template = read_template(source.folder)
    for folder in FOLDERS:
        (home / folder).mkdir(parents=True, exist_ok=True)
    for name in MEMORY:
        (home / name).touch()  # empty: a line in it would stand in every prompt
    provenance = TemplateProvenance(
        template=source.reference,
        kind=source.kind,
        folder=None if source.kind is SourceKind.GITHUB else str(source.folder),
        ref=source.ref,
        commit=source.commit,
        sha256=template.sha256,
        applied_at=now,
        skills=[_install(source, ref, home / "skills", now) for ref in template.skill_refs],
    )
    (home / ".holon/state" / PROVENANCE).write_text(dumps(provenance) + "\n", encoding="utf-8")
    (home / AGENTS_MD).write_text(with_home_guidance(template.agents_md), encoding="utf-8")
    return provenance


def with_home_guidance(text: str) -> str:
    """A template may say it itself, at the place where it likes to have it."""
    return text if HOME_GUIDANCE in text else f"{text.rstrip()}\n\n{HOME_GUIDANCE}\n".lstrip()


def _install(source: Source, ref: SkillRef, root: Path, now: datetime) -> AppliedSkill:
    try:
        done = _installed(ref, root, now)
    except HolonError as error:
        raise InvalidTemplate(
            f"template {source.reference[:200]!r}: its skill {ref.label[:200]!r} cannot be installed: {error.message}",
            hint=f"mend the template's skills.json, or the skill ({error.hint})",
            field="template",
        ) from error
    except OSError as error:
        raise InvalidTemplate(
            f"template {source.reference[:200]!r}: its skill {ref.label[:200]!r} cannot be read ({error})",
            hint="look at its files, or take it out of the template's skills.json",
            field="template",
        ) from error
    return AppliedSkill(name=done.name, source=ref.label, sha256=done.provenance.sha256, commit=done.provenance.commit)


def _installed(ref: SkillRef, root: Path, now: datetime) -> Installed:
    """By the installer of `holon skills install`, whatever the kind."""
    match ref:
        case BuiltinSkill():
            return install(str(builtin_skill(ref.name)), root, now)
        case LocalSkill():
            return install(os.path.normpath(ref.path), root, now)
        case GithubSkill():
            repository, skill = ref.parts
            return install(f"https://github.com/{repository}.git", root, now, ref=ref.ref, skill=skill)


def _forget(making: asyncio.Future[Prepared]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().discard()
