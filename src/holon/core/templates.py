"""Templates, as people see them: what has an id and can be named when an agent is made."""

from __future__ import annotations

from enum import StrEnum

from holon.core.codec import Record


class SourceKind(StrEnum):
    BUILTIN = "builtin"
    USER = "user"
    DIRECTORY = "directory"
    GITHUB = "github"


class TemplateEntry(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A template by its id. `source` is `builtin` as long as it is as Holon brought it."""

    template_id: str
    source: SourceKind
    path: str
    description: str
    included_skills: list[str]
    #: Why it cannot be used, if it cannot.
    problem: str | None = None
