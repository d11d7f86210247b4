"""Prompt views, for people: what an agent's prompt is made of, as a bar and a table, and how two requests differ."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from string import ascii_lowercase
from typing import Any

from holon.cli.output import local_time, money, say, share, show_fields, show_strips, show_table
from holon.core.codec import from_plain
from holon.core.guidance import GuidanceSource

#: What a cell of the bar says about the cache, and its colour on a terminal.
_CACHE = {"read": "R", "written": "W", "fresh": "F"}
_COLOURS = {"R": "green", "W": "yellow", "F": "red"}
_BAR = 96
_LETTERS = ascii_lowercase + ascii_lowercase.upper()


def show_prompt(view: dict[str, Any]) -> None:
    show_fields(_title(view), _fields(view))
    show_bar(view)
    _show_sections(view)
    if view["call"] is None:
        say("the input of the turn follows; the cache state is what the model's published rules let expect")


def show_bar(view: dict[str, Any]) -> None:
    letters = _letters(view)
    cells = bar([(block["tokens"], letters[block["source"]] + _CACHE[block["cache"]]) for block in view["blocks"]])
    if cells:
        rows = [("parts", "".join(cell[0] for cell in cells)), ("cache", "".join(cell[1] for cell in cells))]
        show_strips(rows, _COLOURS)


def bar(blocks: Sequence[tuple[int, str]], width: int = _BAR) -> list[str]:
    """Each cell of the bar: the mark of the block whose tokens stand in its middle."""
    total = sum(tokens for tokens, _ in blocks)
    cells: list[str] = []
    passed = 0
    for tokens, mark in blocks:
        passed += tokens
        while len(cells) < width and (len(cells) + 0.5) * total < passed * width:
            cells.append(mark)
    return cells


def show_text(view: dict[str, Any]) -> None:
    """The prompt itself, block by block."""
    for block in view["blocks"]:
        mark = ", cache mark" if block["cache_breakpoint"] else ""
        say(f"--- {block['source']} ({block['stability']}, {block['tokens']:,} tokens, {block['cache']}{mark})")
        say(block["text"])


def show_diff(diff: dict[str, Any]) -> None:
    say(diff["sentence"])
    rows = [
        (
            str(drift["event_seq"]),
            local_time(from_plain(drift["ts"], datetime)),
            str(drift["position"]),
            drift["source"],
            f"{drift['lost_tokens']:,}",
            money(drift["lost_dollars"]),
        )
        for drift in diff["drifts"]
    ]
    if rows:
        columns = ("event", "time", "block", "part", "tokens paid again", "costs")
        show_table(columns, rows, empty="", numbers=("event", "block", "tokens paid again", "costs"))
    else:
        say("no drift is on record")


def _title(view: dict[str, Any]) -> str:
    call = view["call"]
    if call is None:
        return f"the next prompt of agent {view['agent_id']}"
    return f"call {call['call']} of agent {view['agent_id']}, {local_time(from_plain(call['created_at'], datetime))}"


def _fields(view: dict[str, Any]) -> list[tuple[str, str | None]]:
    execution, loaded, window = view["execution"], view["loaded_agents_md"], view["context_window_tokens"]
    opens = ", which the next turn opens" if view["opens_epoch"] else ""
    return [
        ("model", view["model"]),
        ("size", f"{view['total_tokens']:,} tokens (estimated), {view['total_tokens'] / window:.1%} of the window"),
        ("epoch", f"{view['epoch']} ({view['epoch_reason']}){opens}"),
        ("newest call", str(view["newest_call"]) if view["call"] is None and view["newest_call"] else None),
        ("booked", _booked(view["call"])),
        ("bytes", _bytes(view["verification"])),
        ("cache key", view["cache"]["prompt_cache_key"]),
        ("agent_home", view["agent_home"]),
        ("workspace_id", execution["workspace_id"]),
        ("workspace_anchor", execution["workspace_anchor"]),
        ("execution_root", execution["execution_root"]),
        ("cwd", execution["cwd"]),
        ("policy", policy_summary(execution["policy"])),
        ("agent's guidance", _source(loaded["agent_source"])),
        ("workspace's", _source(loaded["workspace_source"])),
    ]


def policy_summary(policy: dict[str, Any]) -> str:
    """What is guaranteed, in one line: the backend, and each promise under its strength."""
    promises = {**policy["resource_authority"], **policy["process_execution"]}
    exposed = "exposed" if policy["process_execution_exposed"] else "not exposed"
    parts = [f"{policy['backend']}, processes {exposed}"]
    for level in ("hard_enforced", "runtime_shaped", "not_enforced"):
        names = [name for name, promised in promises.items() if promised == level]
        if names:
            parts.append(f"{level}: {', '.join(names)}")
    return "; ".join(parts)


def _booked(call: dict[str, Any] | None) -> str | None:
    if call is None:
        return None
    buckets = call["buckets"]
    covered = f" ({share(call['hit_coverage'])} from cache)" if call["hit_coverage"] is not None else ""
    return (
        f"{buckets['read']:,} read, {buckets['written']:,} written, {buckets['fresh']:,} fresh{covered};"
        f" {call['output']:,} output; {money(call['dollars'])}"
    )


def _bytes(verification: dict[str, Any] | None) -> str | None:
    if verification is None:
        return None
    return "bytes verified" if verification["verified"] else f"NOT what was sent: {verification['difference']}"


def _source(found: dict[str, Any] | None) -> str:
    if found is None:
        return "none"
    source = from_plain(found, GuidanceSource)
    note = f", left out: {source.problem}" if source.problem else ", cut" if source.truncated else ""
    return f"{source.path} ({source.kind}, {source.bytes:,} bytes{note})"


def _show_sections(view: dict[str, Any]) -> None:
    letters = _letters(view)
    rows = []
    for section in view["sections"]:
        buckets = section["buckets"]
        rows.append(
            (
                letters[section["source"]],
                section["source"],
                section["stability"],
                f"{section['blocks']:,}",
                f"{section['tokens']:,}",
                *(f"{buckets[part]:,}" for part in ("read", "written", "fresh")),
                section["origin"],
            )
        )
    columns = ("", "part", "stability", "blocks", "tokens", "read", "written", "fresh", "from")
    show_table(columns, rows, empty="the prompt is empty", numbers=columns[3:8])


def _letters(view: dict[str, Any]) -> dict[str, str]:
    return {
        section["source"]: _LETTERS[number] if number < len(_LETTERS) else "?"
        for number, section in enumerate(view["sections"])
    }
