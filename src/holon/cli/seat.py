"""The seat: where a command looks from (which home or URL), and for whom it prints (a person or a program).

`@seated` gives a command the options that all of them share, so that they have the same names everywhere, and hands the
command one `Seat` in their place.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holon.cli.client import Client, TcpAddress, UnixAddress
from holon.cli.output import emit, say
from holon.core.errors import InvalidInput
from holon.core.values import Value

if TYPE_CHECKING:
    from holon.runtime.settings import Settings

#: Options that several commands have.
Agent = Annotated[
    str | None, typer.Option("--agent", "-a", metavar="AGENT", help="The agent; the default agent if left out.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=500, help="How many, newest last.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes; Ctrl-C ends.")]

_JSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs, and errors as JSON on stderr.")]
_HOME = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", help="The home directory [default: $HOLON_HOME or ~/.holon].")
]
_URL = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="A Holon over TCP instead of this home's socket [default: $HOLON_URL]."),
]
_TOKEN_FILE = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="A file with the control token for --url [default: $HOLON_CONTROL_TOKEN]."
    ),
]


class Seat(Value, frozen=True, kw_only=True):
    home: Path | None = None
    url: str | None = None
    token_file: Path | None = None
    json: bool = False

    def settings(self, **overrides: Any) -> Settings:
        from holon.runtime.settings import load_settings

        return load_settings(self.home, **overrides)

    def client(self) -> Client:
        """The way to the Holon that this seat looks at: its URL if one is named, else the socket of its home."""
        if url := self._url():
            return Client(TcpAddress(url=url, token=self._token()))
        if self.token_file is not None:
            raise InvalidInput(
                "--token-file is for a Holon over TCP, and none is named",
                hint="add --url URL, or leave it out: the socket of this home needs no token",
            )
        settings = self.settings()
        return Client(UnixAddress(path=settings.socket_path, home=settings.home))

    def answer(self, value: Any, sentence: str) -> None:
        """The value for programs, the sentence for people."""
        if self.json:
            emit(value)
        else:
            say(sentence)

    @property
    def remote(self) -> bool:
        """Whether it looks at a Holon elsewhere, so that this home must be left alone."""
        return self._url() is not None

    def _url(self) -> str | None:
        return self.url or os.environ.get("HOLON_URL") or None

    def _token(self) -> str | None:
        if self.token_file is not None:
            return read_token(self.token_file)
        return os.environ.get("HOLON_CONTROL_TOKEN") or None


def seated(*, remote: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the shared options to a command whose first parameter is its seat; `remote` ones can also use a URL."""
    shared: dict[str, Any] = {"home": _HOME, "as_json": _JSON}
    if remote:
        shared = {"home": _HOME, "url": _URL, "token_file": _TOKEN_FILE, "as_json": _JSON}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            chosen = {name: values.pop(name) for name in shared}
            seat = Seat(json=chosen.pop("as_json"), **chosen)
            command(seat, **values)

        # typer reads the signature: the seat goes out, the shared options come in.
        hints = inspect.get_annotations(command, eval_str=True)
        own = list(inspect.signature(command).parameters.values())[1:]
        parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        keyword = inspect.Parameter.KEYWORD_ONLY
        for name, hint in shared.items():
            default = False if name == "as_json" else None
            parameters.append(inspect.Parameter(name, keyword, default=default, annotation=hint))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__
        return run

    return decorate


def read_text(text: str) -> str:
    """The text of a request; `-` means standard input."""
    words = _standard_input() if text == "-" else text
    if not words.strip():
        raise InvalidInput("the text is empty", hint="say what the agent should do, for example: holon run 'say hello'")
    return words


def _standard_input() -> str:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed", hint="give the text as an argument, or pipe it in")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is not UTF-8 (byte {error.start})", hint="convert it, for example with iconv -t UTF-8"
        ) from error


def read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(
            f"cannot read the token file {path} ({why})",
            hint="make a token with 'holon config token new NAME'",
        ) from error
    if not token:
        raise InvalidInput(f"the token file {path} is empty", hint="make a token with 'holon config token new NAME'")
    return token
