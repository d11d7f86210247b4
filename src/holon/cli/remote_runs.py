"""Remote runs: `holon run` through a Holon that already has the home. The daemon does the work; this follows it.

The request has an idempotency key: where the line breaks it is sent again, follows the same run, and gets its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPResponse

from holon.cli.client import Client, LineBroke, refusal
from holon.cli.streams import PATIENCE_S, SILENCE_S, frames
from holon.core.codec import loads
from holon.core.errors import DaemonUnreachable
from holon.core.events import EventEnvelope
from holon.core.ids import new_id
from holon.runtime.run_once import RunRequest
from holon.runtime.run_results import RunResult

OnEvent = Callable[[EventEnvelope], None]
_PAUSE_S = 0.2


def run_through(client: Client, request: RunRequest, on_event: OnEvent) -> RunResult:
    """Begins the run and follows it to its result, over restarts of the daemon too."""
    key, seen = new_id("cli"), 0
    response = _begin(client, request, key)
    while True:
        with response:
            for frame in frames(response):
                if frame.event == "run_result":
                    return loads(frame.data, RunResult)
                if frame.event == "problem":
                    raise refusal(500, frame.data.encode())
                envelope = loads(frame.data, EventEnvelope)
                if envelope.event_seq > seen:
                    seen = envelope.event_seq
                    on_event(envelope)
        response = _again(client, request, key)


def _begin(client: Client, request: RunRequest, key: str) -> HTTPResponse:
    try:
        return _open(client, request, key)
    except LineBroke:  # it may have begun
        return _again(client, request, key)


def _again(client: Client, request: RunRequest, key: str) -> HTTPResponse:
    lost_at = time.monotonic()
    while True:
        time.sleep(_PAUSE_S)
        try:
            return _open(client, request, key)
        except DaemonUnreachable:
            if time.monotonic() - lost_at > PATIENCE_S:
                raise


def _open(client: Client, request: RunRequest, key: str) -> HTTPResponse:
    headers = {"Accept": "text/event-stream", "Idempotency-Key": key}
    return client.open("POST", "/control/runs", body=request, headers=headers, timeout=SILENCE_S)
