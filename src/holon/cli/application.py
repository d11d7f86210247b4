"""The command tree, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import os
import re
import traceback
from typing import Annotated, Any

import typer

import holon
from holon.cli import agents, config, debug, timers, triggers
from holon.cli.inspection import events, status, tail, transcript
from holon.cli.output import BUG, DONE, MISUSED, complain
from holon.cli.prompt import prompt
from holon.cli.run import run
from holon.cli.serve import serve, shutdown
from holon.cli.waking import wake
from holon.core.errors import DeveloperError, HolonError, InvalidInput

HELP = """Holon: a runtime for agents that live long.

\b
Example:
  holon run "say hello"            one turn, no daemon needed
  holon serve                      a Holon that stays; then, in another terminal:
  holon prompt "what is new?"

\b
If something is wrong, look in this order:
  holon run --json TEXT            does one turn work at all?
  holon daemon status              (in a later release)
  holon daemon logs                (in a later release)
  holon status, tail, transcript   what one agent does, says and went through
  holon tui                        (in a later release)
  holon serve                      in the foreground, to see it happen
"""

app = typer.Typer(
    name="holon",
    help=HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (run, serve, prompt, status, tail, transcript, events, wake, shutdown):
    app.command()(command)
for name, group in (
    ("agent", agents.app),
    ("timer", timers.app),
    ("trigger", triggers.app),
    ("config", config.app),
    ("debug", debug.app),
):
    app.add_typer(group, name=name)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=lambda wanted: _version(wanted)),
    ] = False,
) -> None:
    """Replaced by `HELP`."""


def invoke(arguments: list[str]) -> int:
    """Runs one command and returns its exit code. What goes wrong is said in one sentence with the next step."""
    as_json = "--json" in arguments
    try:
        code = tree().main(args=arguments or ["--help"], prog_name="holon", standalone_mode=False)
    except HolonError as error:
        return _said(error, as_json)
    except _UsageError as error:
        return _said(_misuse(error), as_json)
    except typer.Abort:
        return MISUSED
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        return _said(DeveloperError(f"Holon made a mistake ({what})", hint="HOLON_DEBUG=1 shows where"), as_json)
    return code if isinstance(code, int) else DONE


def tree() -> Any:
    """The commands as the parser sees them."""
    return typer.main.get_command(app)


# What the parser raises for a wrong command line. It has no public name, but its child has.
_UsageError: Any = typer.BadParameter.__bases__[0]


def _misuse(error: Any) -> InvalidInput:
    path = error.ctx.command_path if error.ctx is not None else "holon"
    sentence = re.sub(r"\. Did you mean (.*)\?$", r" (did you mean \1?)", str(error.format_message())).rstrip(".")
    return InvalidInput(sentence[:1].lower() + sentence[1:], hint=f"see '{path} --help'")


def _said(error: HolonError, as_json: bool) -> int:
    if os.environ.get("HOLON_DEBUG"):
        traceback.print_exc()
    complain(error, as_json=as_json)
    return BUG if isinstance(error, DeveloperError) else MISUSED


def _version(wanted: bool) -> None:
    if wanted:
        print(f"holon {holon.__version__}")
        raise typer.Exit
