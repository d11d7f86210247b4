"""Events: pages and streams of an agent's log, by its own numbers, across restarts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holon.core.clock import ManualClock
from holon.core.codec import from_plain, to_plain
from holon.core.events import Event, EventCategory
from holon.core.presentation import DisplayMode, present, shown_in
from holon.store.histories import NEWEST
from tests.server.harness import Running, running, until

STREAM = "/agents/main/events/stream"


class Follower:
    """Reads a stream frame by frame."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def frame(self) -> dict[str, str]:
        """The next frame; a comment has the key ``."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line:
                return fields
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        raise EOFError

    def event(self) -> dict[str, Any]:
        while "data" not in (fields := self.frame()):
            pass
        event: dict[str, Any] = json.loads(fields["data"])
        assert (fields["id"], fields["event"]) == (str(event["event_seq"]), event["type"])
        return event

    def events(self, count: int) -> list[dict[str, Any]]:
        return [self.event() for _ in range(count)]


@contextmanager
def follow(server: Running, headers: dict[str, str] | None = None, **query: Any) -> Iterator[Follower]:
    with server.local.stream("GET", STREAM, params=query, headers=headers or {}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Follower(answer)


def as_event(envelope: dict[str, Any]) -> Event:
    return from_plain(
        {**envelope, "created_at": envelope["ts"], "kind": envelope["type"]},
        Event,
    )


@pytest.mark.spec("RT-428")
def test_a_replay_gives_every_event_above_the_cursor_in_order(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")
    numbers = [event["event_seq"] for event in server.events()]

    assert numbers == list(range(1, server.newest_seq() + 1))
    for cursor in (0, 1, 5, numbers[-1]):
        expected = [number for number in numbers if number > cursor]
        assert [event["event_seq"] for event in server.events(after_seq=cursor)] == expected
        with follow(server, after_seq=cursor) as stream:
            assert [event["event_seq"] for event in stream.events(len(expected))] == expected


def test_pages_go_forward_and_backward_and_say_whether_there_is_more(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")
    newest = server.newest_seq()

    def page(**query: Any) -> tuple[list[int], bool, bool]:
        found = server.local.get("/agents/main/events", params=query).json()
        assert (found["oldest_seq"], found["newest_seq"]) == (1, newest)
        return [event["event_seq"] for event in found["events"]], found["has_older"], found["has_newer"]

    assert page(limit=2) == ([1, 2], False, True)
    assert page(limit=2, after_seq=2) == ([3, 4], True, True)
    assert page(limit=2, order="desc") == ([newest, newest - 1], True, False)
    assert page(limit=2, order="desc", before_seq=3) == ([2, 1], False, True)


def test_a_stream_goes_on_after_the_last_event_that_the_client_saw(server: Running) -> None:
    server.settled(server.prompt("hello"))

    with follow(server, {"Last-Event-ID": "4"}, after_seq=1) as stream:
        assert stream.event()["event_seq"] == 5


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "²", "9" * 30])
def test_a_last_event_id_that_is_no_number_is_refused(server: Running, last: str) -> None:
    answer = server.local.get(STREAM, headers={b"Last-Event-ID": last.encode()})

    assert (answer.status_code, answer.json()["field"]) == (400, "Last-Event-ID")


def test_without_a_cursor_a_stream_begins_with_what_comes_next(server: Running) -> None:
    server.settled(server.prompt("before"))
    server.until_status("asleep")
    newest = server.newest_seq()

    with follow(server) as stream:
        stream.frame()  # the server has begun
        message_id = server.prompt("after")
        first = stream.event()

    assert (first["event_seq"], first["type"]) == (newest + 1, "message_admitted")
    assert first["provenance"]["message_id"] == message_id


def test_events_are_delivered_while_they_happen(server: Running) -> None:
    with follow(server, after_seq=0) as stream:
        for text in ("one", "two"):
            message_id = server.prompt(text)
            while (event := stream.event())["type"] != "brief_created":
                pass
            assert event["payload"]["text"] == text
            assert event["provenance"]["message_id"] == message_id


def test_a_silent_stream_says_that_it_lives(home: Path) -> None:
    with running(home, event_heartbeat_ms=20) as server, follow(server, after_seq=server.newest_seq()) as stream:
        assert stream.frame() == {"retry": "1000"}
        assert [stream.frame() for _ in range(3)] == [{"": "heartbeat"}] * 3


@pytest.mark.spec("RT-428")
def test_numbers_go_on_rising_after_a_restart_and_a_cursor_stays_good(home: Path) -> None:
    with running(home) as server:
        server.settled(server.prompt("one"))
        server.until_status("asleep")
        cursor = server.newest_seq()
        seen = server.events()

    with running(home) as server:
        assert server.events(limit=len(seen)) == seen
        with follow(server, {"Last-Event-ID": str(cursor)}) as stream:
            server.prompt("two")
            assert [event["event_seq"] for event in stream.events(5)] == list(range(cursor + 1, cursor + 6))


@pytest.mark.spec("RT-423")
def test_a_cursor_that_retention_overtook_is_told_to_read_the_state_and_then_goes_on(home: Path) -> None:
    clock = ManualClock()
    with running(home, clock=clock) as server:
        while server.newest_seq() < 2 * NEWEST:  # the newest ones stay whatever their age
            server.settled(server.prompt("long ago"))
        clock.move(40 * 24 * 3_600_000)
        server.settled(server.prompt("now"))
        server.until_status("asleep")
        assert server.local.post("/control/runtime/retention").json()["deleted"]["events"] > 0

        for answer in (
            server.local.get(STREAM, params={"after_seq": 1}),
            server.local.get(STREAM, headers={"Last-Event-ID": "1"}),
            server.local.get("/agents/main/events", params={"after_seq": 1}),
        ):
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (410, "cursor_too_old")
            assert "/agents/main/state" in problem["hint"]
            assert "newest_event_seq" in problem["hint"]

        state = server.local.get("/agents/main/state").json()
        assert [brief["text"] for brief in state["briefs"]][-2:] == ["long ago", "now"]
        with follow(server, after_seq=state["newest_event_seq"]) as stream:
            server.prompt("next")
            assert stream.event()["event_seq"] == state["newest_event_seq"] + 1


@pytest.mark.spec("RT-426")
def test_reading_history_queues_and_runs_nothing(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")
    before = server.local.get("/state").json()

    events = server.events()
    server.events(presentation=True, projection="local_debug")
    with follow(server, after_seq=0) as stream:
        assert stream.events(len(events)) == events

    assert server.local.get("/state").json() == before


@pytest.mark.spec("RT-427")
def test_an_event_carries_who_caused_it_and_how_apart_from_its_payload(server: Running) -> None:
    origin = {"kind": "webhook", "source": "ci", "event_type": "red"}
    sent = {
        "text": "x",
        "origin": origin,
        "correlation_id": "c1",
        "causation_id": "k1",
        "metadata": {"transport": "matrix", "reply_route": "room-1"},
    }
    message_id = server.tcp.post("/agents/main/enqueue", json=sent).json()["message_id"]
    server.settled(message_id)

    caused = [event for event in server.events() if event["provenance"].get("message_id") == message_id]

    assert {"message_admitted", "message_processing_started", "brief_created", "turn_terminal"} <= {
        event["type"] for event in caused
    }
    for event in caused:
        assert {"id", "event_seq", "ts", "agent_id", "type", "payload"} <= set(event)
        assert event["provenance"] == {
            "origin": origin,
            "trust": "trusted_integration",
            "authority_class": "integration_signal",
            "delivery_surface": "http_public_enqueue",
            "admission_context": "control_authenticated",
            "transport": "matrix",
            "source": "ci",
            "reply_route": "room-1",
            "message_id": message_id,
            "correlation_id": "c1",
            "causation_id": "k1",
        }


@pytest.mark.spec("RT-429")
def test_every_reader_gets_the_payload_as_it_is_stored(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")
    stored = to_plain(server.do(_stored(server)))

    assert server.events() == stored
    assert server.events(projection="operator") == stored
    assert server.events(projection="local_debug") == stored
    assert server.tcp.get("/agents/main/events", params={"limit": 512}).json()["events"] == stored


async def _stored(server: Running) -> Any:
    from holon.store import events

    return await server.host.store.read(lambda tx: events.envelopes(tx, events.after(tx, "main", 0, 512)))


@pytest.mark.spec("RT-431", "RT-434")
def test_on_request_each_event_brings_the_text_that_people_read(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")
    plain = server.events()
    wanted = [to_plain(present(as_event(event))) for event in plain]

    with follow(server, after_seq=0, presentation=True) as stream:
        streamed = stream.events(len(plain))

    assert [event.pop("presentation") for event in streamed] == wanted
    assert streamed == plain
    paged = server.events(presentation=True)
    assert [event["presentation"] for event in paged] == wanted
    for text in wanted:
        assert set(text) - {"body"} == {"visibility", "category", "title", "summary", "source_event_kind"}
        assert "\n" not in text["summary"]


@pytest.mark.spec("RT-430", "RT-436")
def test_what_a_lower_display_level_hides_is_replayed_all_the_same(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")

    replayed = [as_event(event) for event in server.events()]
    hidden = [event for event in replayed if not shown_in(event, DisplayMode.INFO)]

    assert hidden
    assert [event.event_seq for event in replayed] == list(range(1, len(replayed) + 1))
    changes = [event for event in replayed if event.kind == "agent_state_changed"]
    assert changes
    assert {present(event).category for event in changes} == {EventCategory.STATE_SYNC}
    assert not any(shown_in(event, mode) for event in changes for mode in DisplayMode)
    assert "state_changed" not in server.local.get("/transcript").text + server.local.get("/briefs").text


def test_a_client_that_leaves_is_forgotten(server: Running) -> None:
    for _ in range(10):
        with follow(server, after_seq=0) as stream:
            stream.event()
            assert server.host.events._waiters
        until(lambda: not server.host.events._waiters)


def test_a_client_that_stops_reading_and_leaves_is_forgotten_too(server: Running) -> None:
    for _ in range(8):
        server.settled(server.prompt("x" * 500_000))

    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect(server.socket_path)
        idle.sendall(f"GET {STREAM}?after_seq=0 HTTP/1.1\r\nhost: holon\r\n\r\n".encode())
        assert b"200 OK" in idle.recv(1_000)
        until(lambda: server.host.events._waiters)

    until(lambda: not server.host.events._waiters)
