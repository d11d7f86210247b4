"""The ledger of calls in the store: each call once, and sums by day beside it in the same transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

import msgspec

from holon.core.clock import moment
from holon.core.codec import dumps
from holon.core.ledger import OUTPUT, TOTAL, CacheLine, CallRecord, CostLine, by_section, cost_of
from holon.core.models import Prices
from holon.core.usage import InputBuckets
from holon.store.transaction import END, Row, Tx

By = Literal["section", "agent", "model", "day"]
#: In place of an agent and a model: the day's total of all of them.
EVERYONE = ""
_COLUMN = {"section": "section", "agent": "agent_id", "model": "model_ref", "day": "day"}
_FIELDS = (
    "agent_id, seq, created_at, turn_id, model_ref, epoch, upto_seq, chain, blocks, fresh, cache_read, cache_written,"
    " output, nanodollars, sections"
)


def insert(tx: Tx, call: CallRecord, prices: Prices) -> None:
    """Books a call: its row, its day's total and that of all agents, and its day's parts by section."""
    tx.run(
        f"INSERT INTO calls ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        call.agent_id,
        call.seq,
        tx.now_ms,
        call.turn_id,
        call.model_ref,
        call.epoch,
        call.upto_seq,
        call.chain,
        call.blocks,
        call.buckets.fresh,
        call.buckets.read,
        call.buckets.written,
        call.output,
        call.nanodollars,
        dumps(call.sections),
    )
    day = day_of(tx.now_ms)
    parts: list[tuple[str, InputBuckets, int]] = [(TOTAL, call.buckets, call.output)]
    parts += [(name, share, 0) for name, share in by_section(call.sections, call.buckets).items()]
    parts.append((OUTPUT, InputBuckets(), call.output))
    tx.many(
        "INSERT INTO cost_days (day, agent_id, model_ref, section, calls, fresh, cache_read, cache_written, output,"
        " nanodollars) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?)"
        " ON CONFLICT (day, agent_id, model_ref, section) DO UPDATE SET calls = cost_days.calls + 1,"
        " fresh = cost_days.fresh + excluded.fresh, cache_read = cost_days.cache_read + excluded.cache_read,"
        " cache_written = cost_days.cache_written + excluded.cache_written,"
        " output = cost_days.output + excluded.output,"
        " nanodollars = cost_days.nanodollars + excluded.nanodollars",
        [
            (
                day,
                call.agent_id,
                call.model_ref,
                section,
                buckets.fresh,
                buckets.read,
                buckets.written,
                output,
                cost_of(prices, buckets, output),
            )
            for section, buckets, output in parts
        ]
        + [
            (
                day,
                EVERYONE,
                EVERYONE,
                TOTAL,
                call.buckets.fresh,
                call.buckets.read,
                call.buckets.written,
                call.output,
                call.nanodollars,
            )
        ],
    )


def newest(tx: Tx, agent_id: str) -> CallRecord | None:
    row = tx.one(f"SELECT {_FIELDS} FROM calls WHERE agent_id = ? ORDER BY seq DESC LIMIT 1", agent_id)
    return _read(row) if row else None


def recent(tx: Tx, agent_id: str, limit: int = 50) -> list[CallRecord]:
    """The newest calls, newest first."""
    rows = tx.all(f"SELECT {_FIELDS} FROM calls WHERE agent_id = ? ORDER BY seq DESC LIMIT ?", agent_id, limit)
    return [_read(row) for row in rows]


def get(tx: Tx, agent_id: str, seq: int) -> CallRecord | None:
    row = tx.one(f"SELECT {_FIELDS} FROM calls WHERE agent_id = ? AND seq = ?", agent_id, seq)
    return _read(row) if row else None


def prefixes(tx: Tx, agent_id: str, epoch: int, upto_seq: int = END) -> list[tuple[int, str]]:
    """(blocks, chain) of each request of an epoch, in order: what its prompt was made of, as it was sent."""
    rows = tx.all(
        "SELECT blocks, chain FROM calls WHERE agent_id = ? AND epoch = ? AND seq <= ? ORDER BY seq",
        agent_id,
        epoch,
        upto_seq,
    )
    return [(int(row[0]), str(row[1])) for row in rows]


def spent_in_turn(tx: Tx, agent_id: str, turn_id: str) -> int:
    """Nanodollars of a turn so far, from the newest calls: a turn that is taken up again goes on counting."""
    row = tx.one(
        "SELECT COALESCE(SUM(nanodollars), 0) FROM (SELECT turn_id, nanodollars FROM calls WHERE agent_id = ?"
        " ORDER BY seq DESC LIMIT 500) AS newest WHERE turn_id = ?",
        agent_id,
        turn_id,
    )
    return int(row[0]) if row else 0


def spent_today(tx: Tx, agent_id: str | None = None) -> tuple[int, int]:
    """Tokens and nanodollars of today, of one agent or of all. A row a model, however many agents there are."""
    row = tx.one(
        "SELECT COALESCE(SUM(fresh + cache_read + cache_written + output), 0), COALESCE(SUM(nanodollars), 0)"
        " FROM cost_days WHERE day = ? AND agent_id = ? AND section = ?",
        day_of(tx.now_ms),
        EVERYONE if agent_id is None else agent_id,
        TOTAL,
    )
    return (int(row[0]), int(row[1])) if row else (0, 0)


def costs(tx: Tx, by: By, *, since_day: str, until_day: str, agent_id: str | None = None) -> list[CostLine]:
    """What was spent, dearest first; by day in the order of days."""
    column = _COLUMN[by]
    rows = tx.all(
        f"SELECT {column}, SUM(calls), SUM(fresh), SUM(cache_read), SUM(cache_written), SUM(output),"
        " SUM(nanodollars) FROM cost_days WHERE day >= ? AND day <= ? AND agent_id <> ? AND (? IS NULL OR agent_id = ?)"
        f" AND section {'<>' if by == 'section' else '='} ? GROUP BY {column}"
        f" ORDER BY {'1' if by == 'day' else '7 DESC, 1'}",
        since_day,
        until_day,
        EVERYONE,
        agent_id,
        agent_id,
        TOTAL,
    )
    return [
        CostLine(
            key=row[0],
            calls=row[1],
            fresh=row[2],
            read=row[3],
            written=row[4],
            output=row[5],
            dollars=row[6] / 1e9,
        )
        for row in rows
    ]


def cache_effectiveness(tx: Tx, *, since_day: str, until_day: str, agent_id: str | None = None) -> list[CacheLine]:
    """By model: how much of the input was read from the cache, and how much was written to it."""
    return [
        _cache_line(line) for line in costs(tx, "model", since_day=since_day, until_day=until_day, agent_id=agent_id)
    ]


def old_days(tx: Tx, before_ms: int) -> int:
    """How many sums are of days before this moment's."""
    row = tx.one("SELECT COUNT(*) FROM cost_days WHERE day < ?", day_of(before_ms))
    return int(row[0]) if row else 0


def drop_days(tx: Tx, before_ms: int, limit: int) -> int:
    """Removes the oldest of them, at most `limit`; how many."""
    keys = tx.all(
        "SELECT day, agent_id, model_ref, section FROM cost_days WHERE day < ?"
        " ORDER BY day, agent_id, model_ref, section LIMIT ?",
        *(day_of(before_ms), limit),
    )
    tx.many("DELETE FROM cost_days WHERE day = ? AND agent_id = ? AND model_ref = ? AND section = ?", keys)
    return len(keys)


def day_of(now_ms: int) -> str:
    return _day(now_ms // 86_400_000)


@lru_cache(maxsize=8)
def _day(number: int) -> str:
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d")


def _cache_line(line: CostLine) -> CacheLine:
    total = line.input
    return CacheLine(
        model=line.key,
        call_count=line.calls,
        uncached_input_tokens=line.fresh,
        cached_input_tokens=line.read,
        cache_creation_input_tokens=line.written,
        hit_rate=line.read / total if total else None,
        cache_write_share=line.written / total if total else None,
    )


def _read(row: Row) -> CallRecord:
    return CallRecord(
        agent_id=row[0],
        seq=row[1],
        created_at=moment(row[2]),
        turn_id=row[3],
        model_ref=row[4],
        epoch=row[5],
        upto_seq=row[6],
        chain=row[7],
        blocks=row[8],
        buckets=InputBuckets(fresh=row[9], read=row[10], written=row[11]),
        output=row[12],
        nanodollars=row[13],
        sections=msgspec.json.decode(row[14]),
    )
