"""Deltas: what changed of the sections since the epoch was opened, appended to the conversation, never edited in place.

The next epoch folds them in. A delta carries the section's whole new text where it is short, and the lines that
changed where it is long.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from holon.context.sections import Section
from holon.core.tokens import estimate
from holon.core.values import Value

#: A section up to this size is sent whole when it changes; of a longer one the changed lines are sent, if fewer.
WHOLE_TOKENS = 400
MAX_DELTA_TOKENS = 4_000


class Delta(Value, frozen=True):
    section_id: str
    text: str
    fingerprint: str | None


def find_deltas(
    known: Mapping[str, str], sections: Iterable[Section], shown: Mapping[str, str] | None = None
) -> list[Delta]:
    """What the model does not know yet. `known`: fingerprints as last shown; `shown`: their texts, where at hand."""
    deltas: list[Delta] = []
    present: set[str] = set()
    for section in sections:
        if not section.text.strip():
            continue
        present.add(section.id)
        if known.get(section.id) != section.fingerprint:
            text = _words(section, (shown or {}).get(section.id), is_new=section.id not in known)
            deltas.append(Delta(section.id, text, section.fingerprint))
    gone = sorted(set(known) - present)
    deltas += [Delta(name, f"[context: {name} no longer applies]", None) for name in gone]
    return deltas


def known_after(known: Mapping[str, str], deltas: Iterable[Delta]) -> dict[str, str]:
    after = dict(known)
    for delta in deltas:
        if delta.fingerprint is None:
            after.pop(delta.section_id, None)
        else:
            after[delta.section_id] = delta.fingerprint
    return after


def _words(section: Section, before: str | None, *, is_new: bool) -> str:
    if is_new:
        return f"[context: {section.id} is new and applies from here on]\n{_bounded(section.text)}"
    if before is not None and section.tokens > WHOLE_TOKENS:
        changed = _changed_lines(before, section.text)
        if estimate(changed) < section.tokens // 2:
            return f"[context: {section.id} changed; these lines of it are different now]\n{_bounded(changed)}"
    return f"[context: {section.id} changed; this text takes the place of the earlier one]\n{_bounded(section.text)}"


def _changed_lines(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def _bounded(text: str) -> str:
    limit = MAX_DELTA_TOKENS * 4
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: {len(text) - limit} more characters; the whole is folded in later]"
