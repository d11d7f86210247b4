"""`holon config`: the settings of a home and the tokens of callers over TCP. It needs no running Holon."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from holon.cli.output import emit, local_time, remark, show_table
from holon.cli.seat import Seat, seated
from holon.core.codec import to_plain

app = typer.Typer(help="Settings of this home, and tokens of callers over TCP.")
tokens = typer.Typer(help="Tokens for callers over TCP. The local socket needs none.")
app.add_typer(tokens, name="token")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The setting: see 'holon config schema'.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for the token.")]

_TAKES_EFFECT = "a running Holon takes it at its next start"


@app.command("get")
@seated(remote=False)
def get_value(seat: Seat, key: Key) -> None:
    """Print one setting as it is in effect.

    \b
    Example:
      holon config get model.default
    """
    found = _one(seat, key)
    seat.answer(found, _words(found["value"]))


@app.command("set")
@seated(remote=False)
def set_value(
    seat: Seat, key: Key, value: Annotated[str, typer.Argument(metavar="VALUE", help="The value; lists with commas.")]
) -> None:
    """Write one setting to config.json, if it is valid.

    \b
    Example:
      holon config set model.default scripted/echo
    """
    from holon.runtime import settings

    settings.set_value(seat.settings().home, key, value)
    found = _one(seat, key)
    seat.answer(found, f"{key} = {_words(found['value'])} ({_TAKES_EFFECT})")
    if not seat.json and found["source"] == "environment":
        remark(f"the variable {found['env']} is set and wins over config.json")


@app.command("unset")
@seated(remote=False)
def unset_value(seat: Seat, key: Key) -> None:
    """Take one setting out of config.json: its default is in effect again.

    \b
    Example:
      holon config unset model.default
    """
    from holon.runtime import settings

    removed = settings.unset_value(seat.settings().home, key)
    found = _one(seat, key)
    said = f"{key} = {_words(found['value'])} ({_TAKES_EFFECT})" if removed else f"{key} was not set"
    seat.answer({**found, "removed": removed}, said)


@app.command("list")
@seated(remote=False)
def list_values(seat: Seat) -> None:
    """List all settings as they are in effect, and where each comes from.

    \b
    Example:
      holon config list
    """
    lines = _effective(seat)
    if seat.json:
        emit(lines)
    else:
        rows = [(line["key"], _words(line["value"]), line["source"]) for line in lines]
        show_table(("setting", "value", "from"), rows, empty="there are no settings")


@app.command("schema")
@seated(remote=False)
def show_schema(seat: Seat) -> None:
    """List every setting with its type, its variable and what it is for.

    \b
    Example:
      holon config schema --json
    """
    from holon.runtime.settings import describe

    lines = [{"key": line.key, "type": line.kind, "env": line.env, "help": line.help} for line in describe()]
    if seat.json:
        emit(lines)
    else:
        rows = [(line["key"], line["type"], line["env"], line["help"]) for line in lines]
        show_table(("setting", "type", "variable", "what it is for"), rows, empty="there are no settings")


@tokens.command("new")
@seated(remote=False)
def new_token(seat: Seat, name: Name) -> None:
    """Make a token and print it. It cannot be shown again.

    \b
    Example:
      holon config token new laptop > laptop.token
    """
    from holon.server.tokens import issue

    token = issue(seat.settings().home, name)
    seat.answer({"name": name, "token": token}, token)
    if not seat.json:
        remark("it is shown only this once: use it with --url URL --token-file FILE, or as HOLON_CONTROL_TOKEN")


@tokens.command("list")
@seated(remote=False)
def list_tokens(seat: Seat) -> None:
    """List the tokens by name.

    \b
    Example:
      holon config token list
    """
    from holon.server.tokens import listing

    known = listing(seat.settings().home)
    if seat.json:
        emit([{"name": token.name, "created_at": token.created_at} for token in known])
    else:
        rows = [(token.name, local_time(token.created_at)) for token in known]
        show_table(("token", "made at"), rows, empty="there are no tokens: make one with 'holon config token new NAME'")


@tokens.command("revoke")
@seated(remote=False)
def revoke_token(seat: Seat, name: Name) -> None:
    """Revoke a token: it stops working at once, also at a running Holon.

    \b
    Example:
      holon config token revoke laptop
    """
    from holon.server.tokens import revoke

    revoke(seat.settings().home, name)
    seat.answer({"name": name, "revoked": True}, f"token {name} is revoked")


def _one(seat: Seat, key: str) -> dict[str, Any]:
    from holon.core.errors import InvalidSettings

    for line in _effective(seat):
        if line["key"] == key:
            return line
    raise InvalidSettings(f"there is no setting {key!r}", hint="'holon config schema' lists them all")


def _effective(seat: Seat) -> list[dict[str, Any]]:
    from holon.runtime.settings import Settings, describe, read_file

    settings: Settings = seat.settings()
    written = read_file(settings.home)
    lines = []
    for line in describe():
        source = "environment" if os.environ.get(line.env) else "config.json" if line.key in written else "default"
        lines.append(
            {"key": line.key, "value": _value(settings, line.key, line.field), "source": source, "env": line.env}
        )
    return lines


def _words(value: Any) -> str:
    """A value as one would write it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return ",".join(value)
        case _:
            return str(value)


def _value(settings: Any, key: str, field: str) -> Any:
    if field == "http_addr":
        return f"{settings.http_host}:{settings.http_port}"
    group = key.partition(".")[0]
    holder = getattr(settings, group) if group in ("limits", "retention", "skills") else settings
    value = getattr(holder, field)
    return str(value) if hasattr(value, "__fspath__") else to_plain(value)
