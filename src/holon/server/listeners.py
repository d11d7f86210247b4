"""Listening sockets: the local one, which only its owner may open, and the TCP one. Each fails with what to do."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from holon.core.errors import HomeBusy, InvalidSettings

_SECONDS_TO_ANSWER = 1.0


def local_socket(path: Path) -> socket.socket:
    """A bound socket file of mode 0600. A stale file is cleared away; one that somebody listens on is left alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _clear_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        os.chmod(path, 0o600)  # before anybody can connect: nothing listens on it yet
    except OSError as error:
        listener.close()
        raise InvalidSettings(
            f"the local socket {path} cannot be made ({error.strerror or error})",
            hint="choose a short path in a folder that you may write: HOLON_SOCKET_PATH",
        ) from error
    return listener


def identity(path: Path) -> tuple[int, int] | None:
    """Which file this is, whatever takes its name later."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove(path: Path, bound: tuple[int, int] | None) -> None:
    """Takes away the socket file that was bound, and no other: a successor may have put its own in this place."""
    if bound is not None and identity(path) == bound:
        path.unlink(missing_ok=True)


def tcp_socket(host: str, port: int) -> socket.socket:
    """A bound TCP socket; port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InvalidSettings(
            f"{host!r} is no address of this machine ({error.strerror})", hint="write http.addr as 127.0.0.1:7878"
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise HomeBusy(
                f"another process listens on {host}:{port}",
                hint="end it, or choose another address: HOLON_HTTP_ADDR=127.0.0.1:0 takes a free port",
            ) from error
        raise InvalidSettings(
            f"{host}:{port} cannot be listened on ({error.strerror})", hint="choose another http.addr"
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _clear_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InvalidSettings(
            f"{path} is not a socket", hint="move it aside, or choose another path: HOLON_SOCKET_PATH"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_SECONDS_TO_ANSWER)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # nobody listens: a process died and left it
            return
        except FileNotFoundError:
            return
        except OSError:
            pass  # full, slow or not ours to open: somebody has it
    raise HomeBusy(
        f"the local socket {path} is held by another process",
        hint="end that process, or choose another path: HOLON_SOCKET_PATH",
    )
