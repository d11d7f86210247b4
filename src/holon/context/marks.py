"""Marks: where a request asks its provider to cache, and which prefix it can expect to read.

Pure. Four marks are the most a provider takes: the tools, the last agent-scoped block, and two that roll with the
conversation. The newest one writes what is new; the older one stands where the last request's newest stood, so that
what was written then is found again although the provider only looks a few blocks back.
"""

from __future__ import annotations

from holon.core.models import CacheKind, CacheRules
from holon.core.values import Value

#: Two blocks of margin: a provider counts blocks after merging, and may see two more than we do.
MARGIN_BLOCKS = 2


class MarkPlan(Value, frozen=True):
    tools: bool
    system: bool
    #: Numbers of conversation items whose last block carries a mark, in order.
    conversation: list[int]


def plan_marks(
    rules: CacheRules, block_counts: list[int], *, has_tools: bool, last_marked: int | None = None
) -> MarkPlan:
    """The marks of a request whose conversation items have `block_counts` blocks each.

    `last_marked` is the item that carried the newest mark of the request before. Where more blocks than the look-back
    were added since, a second mark stands close enough in front of the newest one to be found from it next time.
    """
    if rules.kind is not CacheKind.EXPLICIT:
        return MarkPlan(False, False, [])
    rolling = max(0, rules.max_marks - 1 - has_tools)
    newest = len(block_counts) - 1
    if newest < 0 or rolling == 0:
        return MarkPlan(has_tools, True, [])
    marks = [newest]
    if rolling > 1 and (older := _older_mark(rules, block_counts, newest, last_marked)) is not None:
        marks.insert(0, older)
    return MarkPlan(has_tools, True, marks)


def _older_mark(rules: CacheRules, counts: list[int], newest: int, last_marked: int | None) -> int | None:
    """The item of the last request's newest mark; without one, the farthest that is still within the look-back."""
    if last_marked is not None and 0 <= last_marked < newest:
        return last_marked
    reach = rules.look_back_blocks - MARGIN_BLOCKS
    blocks, farthest = counts[newest], None
    for item in range(newest - 1, -1, -1):
        if blocks > reach:
            break
        farthest = item
        blocks += counts[item]
    return farthest
