"""The command tree, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any

import typer

import holon
from holon.cli import standard
from holon.cli.output import BUG, DONE, FAILED, MISUSED, complain
from holon.core.errors import DeveloperError, HolonError, InvalidInput, OperatorError

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

#: Command or group of commands -> its module here, and its name there. Only what is called is loaded.
COMMANDS = {
    "run": "run:run",
    "serve": "serve:serve",
    "prompt": "prompt:prompt",
    "status": "inspection:status",
    "tail": "inspection:tail",
    "transcript": "inspection:transcript",
    "events": "inspection:events",
    "cost": "costs:cost",
    "models": "models:models",
    "doctor": "doctor:doctor",
    "wake": "waking:wake",
    "shutdown": "serve:shutdown",
    "agent": "agents:app",
    "task": "tasks:app",
    "workspace": "workspaces:app",
    "timer": "timers:app",
    "trigger": "triggers:app",
    "skills": "skills:app",
    "config": "config:app",
    "debug": "debug:app",
}


def invoke(arguments: list[str]) -> int:
    """Runs one command and returns its exit code. What goes wrong is said in one sentence with the next step."""
    as_json = "--json" in arguments
    if why := standard.output_fails():  # nothing is begun whose result could not be told
        return _unwritten(why, as_json)
    called = [name for name in arguments[:1] if name in COMMANDS]
    try:
        given = [_text(argument) for argument in arguments]
        code = tree(*called).main(args=given or ["--help"], prog_name="holon", standalone_mode=False)
    except HolonError as error:
        return _said(error, as_json)
    except _UsageError as error:
        return _said(_misuse(error), as_json)
    except typer.Abort:
        return MISUSED
    except Exception as error:
        if isinstance(error, OSError) and (why := standard.output_fails()):
            return _unwritten(why, as_json)
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        return _said(DeveloperError(f"Holon made a mistake ({what})", hint="HOLON_DEBUG=1 shows where"), as_json)
    if why := standard.output_fails():
        return _unwritten(why, as_json)
    return code if isinstance(code, int) else DONE


def tree(*names: str) -> Any:
    """The commands of these names, or all of them, as the parser sees them."""
    app = typer.Typer(
        name="holon",
        help=HELP,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(f"holon.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return typer.main.get_command(app)


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=lambda wanted: _version(wanted)),
    ] = False,
) -> None:
    pass


# What the parser raises for a wrong command line. It has no public name, but its child has.
_UsageError: Any = typer.BadParameter.__bases__[0]


def _text(argument: str) -> str:
    """The argument as it was typed. Python keeps bytes that it cannot read in it, and nobody else would take those."""
    raw = os.fsencode(argument)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        shown = raw.decode("utf-8", "backslashreplace")
        raise InvalidInput(f"the argument '{shown}' is not UTF-8", hint="write it in UTF-8") from error


def _unwritten(why: str, as_json: bool) -> int:
    if sys.stdout is not None:
        standard.silence(sys.stdout)
    problem = OperatorError(
        f"standard output cannot be written ({why})", hint="send it to a place that takes it, such as /dev/null"
    )
    complain(problem, as_json=as_json)
    return FAILED


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
        print(f"holon {holon.__version__}", flush=True)
        raise typer.Exit
