"""Sources: where a template reference leads. There are three forms, and nothing else is one.

| reference | is |
|---|---|
| `holon-developer` | `~/.agents/templates/holon-developer/`, else the one that comes with Holon |
| `/srv/templates/reviewer` | that folder |
| `https://github.com/OWNER/REPO/tree/REF/PATH` | that folder of the repository, at the commit that REF is now |
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from holon.core.errors import InvalidInput, NotFound
from holon.core.templates import SourceKind
from holon.core.values import Value
from holon.skills.repositories import clone
from holon.templates.places import BUILTIN, is_template_id, user_folder

FORMS = (
    "give an id ('holon agent templates' lists them), the absolute path of a folder,"
    " or https://github.com/OWNER/REPO/tree/REF/PATH"
)
MAX_CHARS = 2_000
_GITHUB = "https://github.com/"
_TREE = re.compile(r"https://github\.com/(?P<repo>[\w.-]+/[\w.-]+)/tree/(?P<ref>[^/?#]+)/(?P<path>[^?#]+)")


class InvalidTemplate(InvalidInput):
    """The reference is no reference, or what it leads to is no template."""

    code = "invalid_template"


class UnknownTemplate(NotFound):
    code = "unknown_template"


class Source(Value, frozen=True):
    """A template that was found: its folder, and for GitHub what was asked for and which commit that was."""

    reference: str
    kind: SourceKind
    folder: Path
    ref: str | None = None
    commit: str | None = None


def resolve(reference: str, user_home: Path | None, scratch: Path) -> Source:
    """The folder behind a reference. A repository is cloned into `scratch`, which must not exist yet."""
    if len(reference) > MAX_CHARS or "\0" in reference:
        raise InvalidTemplate("this is no template reference", hint=FORMS, field="template")
    if is_template_id(reference):
        return _by_id(reference, user_home)
    if reference.startswith("/"):
        return _in_directory(reference)
    if reference.startswith(_GITHUB):
        return _on_github(reference, scratch)
    raise InvalidTemplate(f"{reference[:200]!r} is no template reference", hint=FORMS, field="template")


def _by_id(template_id: str, user_home: Path | None) -> Source:
    own = user_folder(user_home)
    if own is not None and os.path.isdir(own / template_id):
        return Source(template_id, SourceKind.USER, own / template_id)
    # Without a user's home, or where it cannot be written, there is still what came with the program.
    if os.path.isdir(BUILTIN / template_id):
        return Source(template_id, SourceKind.BUILTIN, BUILTIN / template_id)
    raise UnknownTemplate(
        f"there is no template {template_id!r}" + (f" in {own}" if own else ""),
        hint="'holon agent templates' lists them",
        field="template",
    )


def _in_directory(path: str) -> Source:
    folder = Path(path)
    if ".." in folder.parts:
        raise InvalidTemplate(f"{path[:200]!r} has '..' in it", hint="give the plain absolute path", field="template")
    if not os.path.isdir(folder):  # also for a path that the system does not take
        raise UnknownTemplate(
            f"there is no folder {path[:200]!r} on the machine that Holon runs on", hint=FORMS, field="template"
        )
    return Source(path, SourceKind.DIRECTORY, folder)


def _on_github(url: str, scratch: Path) -> Source:
    found = _TREE.fullmatch(url.rstrip("/"))
    # GitHub writes a branch such as `team/next` as it is; here its slash is written as %2F, so that the path is clear.
    parts = unquote(found["path"]).split("/") if found else []
    if found is None or any(part in ("", ".", "..", ".git") for part in parts):
        raise InvalidTemplate(
            f"{url[:200]!r} does not say where the template is",
            hint="write https://github.com/OWNER/REPO/tree/REF/PATH, with the folder of the template as PATH",
            field="template",
        )
    ref = unquote(found["ref"])
    checkout = clone(f"{_GITHUB}{found['repo'].removesuffix('.git')}.git", ref, scratch)
    folder = checkout.folder.joinpath(*parts)
    if not os.path.isdir(folder) or not folder.resolve().is_relative_to(checkout.folder.resolve()):
        raise UnknownTemplate(
            f"the repository has no folder {'/'.join(parts)[:200]!r} at {ref[:100]!r}",
            hint="check the path and the ref of the URL",
            field="template",
        )
    return Source(url, SourceKind.GITHUB, folder, ref=ref, commit=checkout.commit)
