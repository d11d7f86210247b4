"""`holon serve` and `holon shutdown`: the foreground owner of a home's runtime, and its graceful end."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import holon
from holon.cli.output import emit, say
from holon.cli.seat import Seat, read_token, seated
from holon.core.codec import to_plain
from holon.core.errors import DaemonUnreachable, Fenced, InvalidInput, OperatorError

if TYPE_CHECKING:
    from holon.runtime.settings import Settings
    from holon.server.serving import Announcement

#: How long `shutdown` waits for a turn to reach a place where it can be left.
_GOODBYE_S = 60.0


@seated(remote=False)
def serve(
    seat: Seat,
    host: Annotated[str | None, typer.Option("--host", metavar="HOST", help="The TCP address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The TCP port; 0 takes a free one.")
    ] = None,
    listen: Annotated[str | None, typer.Option("--listen", metavar="HOST:PORT", help="Both in one.")] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", metavar="URL", help="The base of trigger URLs.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A file with a control token that callers over TCP may show."
        ),
    ] = None,
) -> None:
    """Run Holon in the foreground.

    Agents, timers, triggers and HTTP. Ctrl-C ends it; open turns are taken up again at the next start.

    \b
    Example:
      holon serve
      holon serve --listen 127.0.0.1:0 --json
    """
    import asyncio
    import logging

    settings = seat.settings(
        **_listening(host, port, listen),
        advertise_url=advertise,
        control_token=read_token(token_file) if token_file else None,
    )
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, lambda announcement: _ready(seat, settings, announcement)))
    if not seat.json:
        say("Holon has ended; open turns are taken up again at the next start")


@seated()
def shutdown(
    seat: Seat,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it has ended.")] = True,
) -> None:
    """End a running Holon gracefully.

    Open turns are taken up again at its next start.

    \b
    Example:
      holon shutdown
    """
    client = seat.client()
    pid = int(client.get("/control/runtime/status")["pid"])
    answer = client.post("/control/runtime/shutdown")
    if wait:
        _wait_for_end(seat, pid)
    seat.answer(answer, "Holon has ended" if wait else "Holon is ending")


async def _serve(settings: Settings, on_ready: Any) -> None:
    from holon.runtime.host import Host
    from holon.server.serving import serve as serve_host

    async with await Host.open(settings, purpose="serve") as host:
        await serve_host(host, on_ready=on_ready)
    if host.fenced:
        raise Fenced(
            f"another process has taken over {settings.home}, so this one has ended",
            hint="nothing needs to be done; 'holon status' talks to the other one",
        )


def _ready(seat: Seat, settings: Settings, announcement: Announcement) -> None:
    if seat.json:
        emit({"event": "ready", "home": str(settings.home), **to_plain(announcement)})
        return
    say(
        f"Holon {holon.__version__} serves {settings.home}\n"
        f"  socket   {announcement.socket_path}\n"
        f"  http     http://{announcement.http_addr}\n"
        f"  model    {settings.model_default}\n"
        "Talk to it with 'holon prompt TEXT'; Ctrl-C ends it."
    )


def _listening(host: str | None, port: int | None, listen: str | None) -> dict[str, Any]:
    if listen is None:
        return {"http_host": host, "http_port": port}
    if host is not None or port is not None:
        raise InvalidInput("--listen says both host and port", hint="leave --host and --port out")
    name, _, number = listen.rpartition(":")
    if not name or not number.isdigit() or int(number) > 65_535:
        raise InvalidInput(f"{listen!r} is not HOST:PORT", hint="write it like 127.0.0.1:7878")
    return {"http_host": name, "http_port": int(number)}


def _loop_factory() -> Any:
    """uvloop where there is one: the server is much faster on it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _wait_for_end(seat: Seat, pid: int) -> None:
    """Until nobody answers; on this machine also until the process is gone, and with it its hold on the home."""
    deadline = time.monotonic() + _GOODBYE_S
    while _answers(seat, pid) or (not seat.remote and _lives(pid)):
        if time.monotonic() > deadline:
            raise OperatorError(
                f"Holon (process {pid}) has not ended after {_GOODBYE_S:.0f} s", hint="look at its output"
            )
        time.sleep(0.02)


def _answers(seat: Seat, pid: int) -> bool:
    try:
        return bool(seat.client().get("/control/runtime/status")["pid"] == pid)
    except DaemonUnreachable:
        return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        return False  # not ours to look at, or no /proc: that nobody answers must do
    return state != "Z"  # ended, only its parent has not looked yet
