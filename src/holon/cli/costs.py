"""`holon cost`: what was spent, on what, and how much of it came from caches."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from holon.cli.output import emit, money, remark, say, share, show_table
from holon.cli.seat import Seat, seated

#: Lines of a table; the rest is counted in the total and named in one sentence.
_LINES = 40


class Grouping(StrEnum):
    SECTION = "section"
    AGENT = "agent"
    MODEL = "model"
    DAY = "day"


@seated()
def cost(
    seat: Seat,
    by: Annotated[Grouping, typer.Option("--by", help="What a line is about.")] = Grouping.MODEL,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DAY", help="The first day, like 2026-03-01 (UTC).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DAY", help="The last day; today if left out.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", metavar="AGENT", help="One agent; all of them if left out.")
    ] = None,
) -> None:
    """Show what was spent, by model, agent, day or part of the prompt.

    The last seven days, unless --since says otherwise. Input is counted three times over: fresh, read from a cache, and
    written to one, each at its own price; 'from cache' is the share that was read. With --by section the lines are the
    parts of prompts ('holon debug prompt' shows one), and 'output' is what models wrote.

    \b
    Example:
      holon cost --by section --since 2026-03-01
    """
    found = seat.client().get("/analytics/cost", by=by.value, since=since, until=until, agent_id=agent)
    if seat.json:
        emit(found)
        return
    whose = f" by agent {found['agent_id']}" if found["agent_id"] else ""
    say(f"spent{whose} from {found['since']} to {found['until']} (UTC)")
    lines = found["lines"]
    rows = [_row(line) for line in lines[:_LINES]]
    if lines:
        rows.append(_row(found["total"]))
    columns = (by.value, "calls", "fresh", "read", "written", "output", "from cache", "cost")
    show_table(columns, rows, empty="nothing", numbers=columns[1:])
    if len(lines) > _LINES:
        say(f"… and {len(lines) - _LINES} more lines, which the total counts: --json shows them")
    for model in found["unpriced_models"]:
        remark(
            f"the prices of {model} are not known, so its cost is not counted: add them under 'models' in config.json"
        )


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    counts = (line["calls"], line["fresh"], line["read"], line["written"], line["output"])
    return (
        str(line["key"]),
        *(f"{count:,}" for count in counts),
        share(line["hit_coverage"]),
        money(line["dollars"]),
    )
