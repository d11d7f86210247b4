"""The reference of all commands, made from the command tree: `python -m holon.cli.reference > docs/cli.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from holon.cli.application import tree

_WIDTH = 100

_PREFACE = """\
# The `holon` command

Made by `python -m holon.cli.reference`; do not edit it by hand.

## If something is wrong

Look in this order. Each step shows more than the one before, and needs more to work.

1. `holon run --json TEXT` does one turn without a daemon and prints what came of it: `final_status`, `token_usage`,
   `provider_attempt_timeline`, and `failure_artifact` if it failed. `holon doctor` says what is missing before anything
   is sent.
2. `holon daemon status` says whether a Holon runs on this home, and how it is. *(In a later release.)*
3. `holon daemon logs` shows the end of its log. *(In a later release.)*
4. `holon status`, `holon tail` and `holon transcript` show one agent: where it stands, what it said to people, and what
   was said to and by its model, with every retry and fallback. `holon events` shows its raw log, `holon debug latency`
   where its time went, `holon debug prompt` what its model is shown, `holon cost` what it spent.
5. `holon tui` shows all of this live. *(In a later release.)*
6. `holon serve` in the foreground shows the runtime itself, with `HOLON_DEBUG=1` also its tracebacks.

## For programs

Every command has `--json`: one JSON document on standard output and nothing else (with `--follow`: one a line). Errors
are problem details on standard error, with a stable `code`. Progress is shown to people only, on standard error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the turn failed, or standard output cannot be written |
| 2 | refused: wrong usage, no such agent, no Holon running |
| 3 | the agent waits for something, or `--max-turns` was reached |
| 70 | a mistake in Holon itself |
| 130 | interrupted by Ctrl-C; what was admitted stays admitted |
| 141 | the reader of its output went away |

Text that goes in is UTF-8. What a terminal cannot show is escaped, so that no answer is lost; JSON stays JSON.

| variable | meaning |
|---|---|
| `HOLON_HOME` | the home directory, `~/.holon` if unset; if it is not there, it is made for you alone (mode 0700) |
| `HOLON_URL` | a Holon over TCP, instead of the socket of the home |
| `HOLON_CONTROL_TOKEN` | the token for `HOLON_URL` |
| `HOLON_DEBUG` | `1` shows tracebacks |
| `NO_COLOR` | no colours |

`holon config schema` lists the settings, each with its variable.

## Commands
"""


def reference() -> str:
    return _PREFACE + "".join(_sections(tree(), None, "holon"))


def _sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, **command.context_settings)
    help_text = re.sub(r"[ \t]+$", "", command.get_help(context), flags=re.MULTILINE)
    yield f"\n### {context.command_path}\n\n```text\n{help_text.strip()}\n```\n"
    for below in getattr(command, "commands", {}).values():
        yield from _sections(below, context, below.name)


if __name__ == "__main__":
    print(reference(), end="")
