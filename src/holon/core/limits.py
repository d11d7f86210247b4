"""Limits: on by default, generous, each with the words in which it says that it was met."""

from __future__ import annotations

from holon.core.codec import Input


class Limits(Input, frozen=True, kw_only=True):
    #: Provider rounds in one turn.
    rounds_per_turn: int = 200
    #: Tokens (in and out) in one turn.
    tokens_per_turn: int = 5_000_000
    #: Money, at the prices of the model table: one turn, one agent's day, and the day of all agents together.
    dollars_per_turn: float = 20.0
    dollars_per_agent_day: float = 100.0
    dollars_per_day: float = 500.0
    #: Tokens (in and out) of one agent's day.
    tokens_per_agent_day: int = 500_000_000
    #: Turns that an agent may take in one hour, whatever woke it.
    turns_per_hour: int = 2_000
    #: Turns in a row that the runtime woke by itself, without new evidence from outside.
    self_turns: int = 50
    #: After this many self-woken turns in a row the next one waits: 1 s, 2 s, 4 s … up to the cap below.
    self_turns_free: int = 5
    self_turn_backoff_cap_ms: int = 3_600_000
    #: Times that a message's turn may bring the process down before it is quarantined.
    crash_attempts: int = 3
    #: Messages that may wait in one agent's queue.
    queue_length: int = 10_000
    #: One message's body, and one webhook's or trigger's payload.
    message_bytes: int = 1_048_576
    trigger_bytes: int = 262_144
    #: Wake hints kept with their payloads; older ones are counted.
    wake_hints: int = 16
    #: How long an agent may have work and make no progress before the watchdog says so. A wait that a tool call asked
    #: for (`yield_time_ms`, `timeout_ms`) comes on top of it.
    stall_ms: int = 120_000
    #: One provider round.
    round_timeout_ms: int = 600_000
    #: How deep children may have children: an agent's own are 1 deep, and those at this depth have none.
    child_depth: int = 4
    #: Private children that are not done yet: of one agent, and of all agents of the home together.
    live_children: int = 16
    home_children: int = 256
    #: Turns that run at the same time in one process.
    concurrent_turns: int = 256
