"""Patches: from text to changed files, in three steps. `parse` reads either form, `check` tries the patch in memory and
finds every problem at once, `apply` changes all files or none. `recover` settles what a crash left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holon.core.codec import Record, to_plain
from holon.core.errors import AgentError
from holon.core.values import Value
from holon.workspaces.commits import Change, PatchFailed, TargetChanged, commit
from holon.workspaces.drafts import Draft, DraftFile
from holon.workspaces.freeform import BEGIN, END, parse_freeform
from holon.workspaces.hunks import (
    MAX_FILES,
    MAX_HUNKS,
    Diagnostic,
    FilePatch,
    Hunk,
    HunkLine,
    IgnoredMetadata,
    InvalidPatch,
    Op,
    Patch,
    PatchAction,
    invalid,
)
from holon.workspaces.journal import ROOT_PATIENCE_S, JournalBusy
from holon.workspaces.names import printable
from holon.workspaces.recovery import Recovery, RecoveryOutcome, recover
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.unified import parse_unified

__all__ = [
    "MAX_FILES",
    "MAX_HUNKS",
    "ChangedFile",
    "Diagnostic",
    "FilePatch",
    "Hunk",
    "HunkLine",
    "IgnoredMetadata",
    "InvalidPatch",
    "JournalBusy",
    "Op",
    "Patch",
    "PatchAction",
    "PatchAlreadyApplied",
    "PatchFailed",
    "PatchRejected",
    "PatchResult",
    "Plan",
    "Recovery",
    "RecoveryOutcome",
    "TargetChanged",
    "apply",
    "check",
    "parse",
    "recover",
]

MAX_PATCH_CHARS = 4_000_000
MAX_PATCH_LINES = 100_000
#: An error's words are read by a model: beyond this, problems are counted.
MAX_WORDS = 4_000


class PatchRejected(AgentError):
    """The patch does not fit the files as they are. Nothing was changed."""

    code = "patch_rejected"
    status = 409

    def __init__(self, message: str, problems: Sequence[Diagnostic], *, hint: str) -> None:
        super().__init__(message, hint=hint, field="patch", problems=[_brief(problem) for problem in problems])
        self.problems = tuple(problems)


class PatchAlreadyApplied(PatchRejected):
    """The files are already as the patch would make them."""

    code = "patch_already_applied"


class ChangedFile(Record, frozen=True, kw_only=True):
    action: PatchAction
    path: str
    from_path: str | None = None


class PatchResult(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What `ApplyPatch` answers with."""

    changed_files: list[ChangedFile]
    changed_paths: list[str]
    changed_file_count: int
    ignored_metadata: list[IgnoredMetadata] = msgspec.field(default_factory=list)
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    summary_text: str


class Plan(Value, frozen=True):
    """What a patch would do to the files of a root. Making it changes nothing: it is the dry run."""

    root: ExecutionRoot
    changes: tuple[Change, ...]
    result: PatchResult
    problems: tuple[Diagnostic, ...] = ()
    violation: RootViolation | None = None

    @property
    def ok(self) -> bool:
        return not self.problems

    def refuse_problems(self) -> None:
        """Raises what stands against the plan, all of it at once: the error that the model reads."""
        if self.problems:
            raise _refusal(self)


def parse(text: str) -> Patch:
    """The patch in `text`: a unified diff, or the freeform grammar, with or without a code fence around it."""
    if len(text) > MAX_PATCH_CHARS:
        raise invalid(1, f"it has {len(text):,} characters, at most {MAX_PATCH_CHARS:,} are taken", "send it in parts")
    if text.count("\n") > MAX_PATCH_LINES:
        raise invalid(1, f"it has more than {MAX_PATCH_LINES:,} lines", "send it in parts")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise invalid(line, "it has a character that is no text", "send valid unicode") from error
    lines, transported = _without_transport(text)
    patch = _parse_lines(lines)
    return Patch(patch.files, ignored=(*transported, *patch.ignored))


def check(patch: Patch, root: ExecutionRoot) -> Plan:
    """All new contents, in memory, and every problem that stands against them."""
    draft = Draft(root)
    for section in patch.files:
        draft.carry_out(section)
    draft.finish()
    files = list(draft.files.values())
    changed = [] if draft.problems else [*_changed(files)]
    notes = [] if draft.problems else [*draft.notes, *_unchanged(patch, files, changed)]
    return Plan(
        root,
        changes=() if draft.problems else tuple(_change(file) for file in files if _differs(file)),
        result=PatchResult(
            changed_files=changed,
            changed_paths=sorted({path for file in changed for path in (file.path, file.from_path) if path}),
            changed_file_count=len(changed),
            ignored_metadata=[*patch.ignored, *(item for section in patch.files for item in section.ignored)],
            diagnostics=notes,
            summary_text=_summary(changed),
        ),
        problems=tuple(draft.problems),
        violation=draft.violation,
    )


def apply(plan: Plan, journal_dir: Path) -> PatchResult:
    """Carries the plan out, whole or not at all. `journal_dir` is where `recover` looks after a crash."""
    plan.refuse_problems()
    if plan.changes and not commit(plan.root, plan.changes, journal_dir):
        note = Diagnostic(path=".", kind="root_locked", message=_LOCKED)
        return replace(plan.result, diagnostics=[*plan.result.diagnostics, note])
    return plan.result


def _without_transport(text: str) -> tuple[list[str], list[IgnoredMetadata]]:
    """The lines, without what only the way here added: a code fence, and carriage returns on every single line."""
    lines, ignored = text.split("\n"), list[IgnoredMetadata]()
    ends = [line.endswith("\r") for line in lines[:-1]]
    if ends and all(ends):
        lines = [line.removesuffix("\r") for line in lines]
        ignored.append(IgnoredMetadata(path="", kind="line_ends", value="crlf"))
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if len(filled) > 1 and lines[filled[0]].startswith("```") and lines[filled[-1]].rstrip() == "```":
        lines[filled[0]] = lines[filled[-1]] = ""
        ignored.append(IgnoredMetadata(path="", kind="code_fence", value="```"))
    return lines, ignored


def _parse_lines(lines: list[str]) -> Patch:
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled:
        raise invalid(1, "it is empty", f"send a unified diff, or a patch between {BEGIN!r} and {END!r}")
    first = filled[0]
    if not lines[first].startswith(BEGIN):
        return parse_unified("\n".join(lines))
    second = lines[filled[1]] if len(filled) > 1 else ""
    if second.startswith(("--- ", "diff --git ")) and lines[filled[-1]].strip() == END:
        # A unified diff in the envelope of the other form: the same diff.
        lines[first] = ""
        return parse_unified("\n".join(lines[: filled[-1]]) + "\n")
    return parse_freeform("\n".join(lines))


def _differs(file: DraftFile) -> bool:
    if file.after is None or file.before is None:
        return (file.after is None) != (file.before is None)
    return file.after != file.before.content or (file.like or file.before).mode != file.before.mode


def _change(file: DraftFile) -> Change:
    return Change(path=file.path, before=file.before, content=file.after, like=file.like or file.before)


def _changed(files: Sequence[DraftFile]) -> list[ChangedFile]:
    """What happened to each name in the end, whatever the sections did in between."""
    sources = {file.came_from for file in files if file.after is not None and file.came_from}
    changed: list[ChangedFile] = []
    for file in files:
        path = printable(file.path)
        if file.after is None:
            if file.before is not None and file.path not in sources:
                changed.append(ChangedFile(action=PatchAction.DELETE, path=path))
        elif file.came_from not in (None, file.path):
            changed.append(ChangedFile(action=PatchAction.MOVE, path=path, from_path=printable(str(file.came_from))))
        elif _differs(file):
            changed.append(ChangedFile(action=PatchAction.MODIFY if file.before else PatchAction.ADD, path=path))
    return changed


def _unchanged(patch: Patch, files: Sequence[DraftFile], changed: Sequence[ChangedFile]) -> list[Diagnostic]:
    touched = {path for file in changed for path in (file.path, file.from_path)}
    message = "stays as it is: the patch changes nothing in it that can be changed"
    idle = [file for file in files if printable(file.path) not in touched and file.after is not None]
    copied = {section.from_path for section in patch.files if section.action is PatchAction.ADD}
    return [
        Diagnostic(path=printable(file.path), kind="unchanged", message=message)
        for file in idle
        if str(file.path) not in copied
    ]


_LOCKED = (
    f"somebody has locked the folder (flock): the patch waited {ROOT_PATIENCE_S:g} s and was applied all the same; "
    "a command that locks should lock a file"
)
_VERBS = {
    PatchAction.ADD: "added {path}",
    PatchAction.MODIFY: "modified {path}",
    PatchAction.DELETE: "deleted {path}",
    PatchAction.MOVE: "moved {from_path} to {path}",
}


#: What to do next about a problem, by its kind.
_NEXT = {
    "ambiguous_context": "make each hunk fit in one place only",
    "context_not_found": "read the lines that are named here again, correct the hunks",
    "already_applied": "leave out what is applied already",
    "missing_file": "look which files are there, correct the path",
    "file_exists": "read the file that is there, then change it or choose another path",
}


def _summary(changed: Sequence[ChangedFile]) -> str:
    if not changed:
        return "no file changed"
    told = [_VERBS[file.action].format(path=file.path, from_path=file.from_path) for file in changed[:10]]
    more = f", and {len(changed) - 10} more" if len(changed) > 10 else ""
    return f"{len(changed)} {'file' if len(changed) == 1 else 'files'} changed: {', '.join(told)}{more}"


def _refusal(plan: Plan) -> AgentError:
    problems = plan.problems
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    words = _words(problems)
    if plan.violation is not None:
        more = "" if len(problems) == 1 else f"\n{words}"
        details: dict[str, Any] = {**plan.violation.details, "problems": [_brief(problem) for problem in problems]}
        return RootViolation(
            f"{plan.violation.message}; nothing was changed{more}", hint=plan.violation.hint, **details
        )
    if all(problem.kind == "already_applied" for problem in problems):
        return PatchAlreadyApplied(
            f"the patch is applied already; nothing was changed\n{words}",
            problems,
            hint="go on; if something else was meant, read the files again",
        )
    return PatchRejected(
        f"the patch does not apply: {count}; nothing was changed\n{words}",
        problems,
        hint=f"{_NEXT.get(problems[0].kind, 'correct the patch')}, and send the whole of it once more",
    )


def _words(problems: Sequence[Diagnostic]) -> str:
    lines: list[str] = []
    room = MAX_WORDS
    for index, problem in enumerate(problems):
        line = f"- {problem.path}: {problem.message}"
        room -= len(line)
        if room < 0 and lines:
            lines.append(f"- and {len(problems) - index} more")
            break
        lines.append(line)
    return "\n".join(lines)


def _brief(problem: Diagnostic) -> dict[str, str]:
    plain: dict[str, str] = to_plain(problem)
    return {"path": plain["path"], "kind": plain["kind"]}
