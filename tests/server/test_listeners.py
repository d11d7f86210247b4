"""Listening sockets: for their owner only, cleared away if stale, left alone if held."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from holon.core.errors import HomeBusy, InvalidSettings
from holon.server import listeners
from holon.server.serving import read_announcement
from tests.server.harness import Running, running


def test_only_its_owner_may_open_the_local_socket(server: Running) -> None:
    mode = os.stat(server.socket_path).st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_a_free_port_is_taken_and_announced_for_as_long_as_the_server_runs(home: Path) -> None:
    with running(home) as server:
        announced = read_announcement(home)
        assert announced == server.announcement
        assert announced is not None
        assert announced.pid == os.getpid()
        assert server.stranger.get(f"http://{announced.http_addr}/").status_code == 200
        assert stat.S_IMODE((home / "run" / "daemon.json").stat().st_mode) == 0o600

    assert read_announcement(home) is None
    assert not Path(server.socket_path).exists()


def test_a_socket_file_that_a_dead_process_left_is_replaced(home: Path) -> None:
    path = home / "run" / "holon.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    with running(home) as server:
        assert server.local.get("/").status_code == 200


@pytest.mark.spec("RT-450")
def test_a_socket_that_another_process_holds_is_left_alone(home: Path) -> None:
    path = home / "run" / "holon.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()

        with pytest.raises(HomeBusy, match="held by another process"), running(home):
            pass

        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))  # it still listens


def test_a_file_that_is_no_socket_is_left_alone(home: Path) -> None:
    path = home / "run" / "holon.sock"
    path.parent.mkdir()
    path.write_text("mine")

    with pytest.raises(InvalidSettings, match="is not a socket"), running(home):
        pass

    assert path.read_text() == "mine"


def test_a_path_that_is_too_long_for_a_socket_says_which_setting_to_change(home: Path) -> None:
    with pytest.raises(InvalidSettings, match="HOLON_SOCKET_PATH"):
        listeners.local_socket(home / ("x" * 120))


def test_a_port_that_is_taken_says_how_to_take_another(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(HomeBusy, match=f"127.0.0.1:{port}"), running(home, http_port=port):
            pass

    assert not (home / "run" / "holon.sock").exists()


def test_an_address_of_another_machine_is_refused(home: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"192\.0\.2\.1"):
        listeners.tcp_socket("192.0.2.1", 0)
    with pytest.raises(InvalidSettings, match="no address of this machine"):
        listeners.tcp_socket("no such host", 0)
