"""Output: JSON for programs, tables and sentences for people, errors for both.

Nothing that came from a model or from outside reaches a terminal with its control characters.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from holon.cli.standard import silence
from holon.core.codec import dumps
from holon.core.errors import HolonError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Exit codes, the same for every command.
DONE, FAILED, MISUSED, WAITING, BUG, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 70, 130, 141

#: The width of tables that go into a file or a pipe.
_PIPE_WIDTH = 160


def emit(value: Any) -> None:
    """One JSON document on one line."""
    text = dumps(value)
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        text = _NOT_ASCII.sub(lambda found: escaped(found[0]), text)
    _write(sys.stdout, text)


def say(text: str = "") -> None:
    """Text for people, on standard output."""
    _write(sys.stdout, printable(text))


def remark(text: str) -> None:
    """What is said beside the result, on standard error."""
    _write(sys.stderr, printable(text))


def complain(error: HolonError, *, as_json: bool) -> None:
    """One sentence and the next step; never a traceback."""
    _write(sys.stderr, dumps(problem(error)) if as_json else printable(f"error: {error}"))


def problem(error: HolonError) -> dict[str, Any]:
    """The error as the problem details that HTTP answers."""
    details: dict[str, Any] = {
        "type": f"urn:holon:problem:{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": error.status,
        "detail": error.message,
        "code": error.code,
    }
    return {**details, "hint": error.hint} if error.hint else details


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str, numbers: Container[str] = ()
) -> None:
    """A table for people; the columns in `numbers` stand flush right."""
    from rich.table import Table

    lines = [tuple(printable(cell) for cell in row) for row in rows]
    if not lines:
        say(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in numbers else "left")
    for line in lines:
        table.add_row(*line)
    _print(table)


def show_fields(title: str, fields: Iterable[tuple[str, str | None]]) -> None:
    """A title and its `name  value` lines; what has no value is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in fields:
        if value:
            grid.add_row(f"  {name}", printable(value))
    _print(Text(printable(title), style="bold"), grid)


def show_strips(strips: Iterable[tuple[str, str]], colours: Mapping[str, str]) -> None:
    """Rows of single characters under one another, each with its name; in colour where a character has one."""
    from rich.text import Text

    lines = list(strips)
    width = max(len(name) for name, _ in lines)
    for name, cells in lines:
        line = Text(f"  {name:<{width}}  ", style="dim")
        for cell in printable(cells):
            line.append(cell, style=colours.get(cell, "default"))
        _print(line)


def console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is, in colour only on a terminal (`NO_COLOR` is honoured)."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    plain = not stream.isatty() or bool(os.environ.get("NO_COLOR"))
    system: Literal["auto"] | None = None if plain else "auto"
    return Console(file=stream, width=width, color_system=system, markup=False, highlight=False, emoji=False)


def _print(*renderables: RenderableType) -> None:
    out = console()
    with out.capture() as captured:
        out.print(*renderables, sep="\n")
    _write(sys.stdout, "\n".join(line.rstrip() for line in captured.get().splitlines()))


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        # The reader has had enough (`holon events | head`). Nothing is wrong, and nothing more can be said.
        silence(stream)
        raise SystemExit(READER_GONE) from None
    except OSError:
        if stream is not sys.stderr:
            raise
        silence(stream)  # what is said beside the result may be lost; the result may not


def printable(text: str) -> str:
    """The text without the characters that steer a terminal; line breaks and tabs stay."""
    return text.translate(_STEERING)


_STEERING = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t\r"}
_STEERING[ord("\r")] = ""


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def escaped(character: str) -> str:
    """One character as JSON writes it in ASCII."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def local_time(moment: datetime | None) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def money(dollars: float) -> str:
    """Dollars with as many digits as tell something: two behind the first that is not zero, if it is less than one."""
    size = abs(dollars)
    if size == 0:
        return "$0"
    decimals = 0 if size >= 1_000 else 2 if size >= 1 else max(2, 1 - math.floor(math.log10(size)))
    return f"{'-' if dollars < 0 else ''}${size:,.{decimals}f}"


def share(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}"


def span(milliseconds: float) -> str:
    """A length of time, as short as it can be said."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
