"""LangGraph beside us: the same echo with its SQLite checkpointer, one conversation, one turn after the other.

Optional: it needs the packages of requirements/bench.lock (`make bench WITH_LANGGRAPH=1`). It is durable in the same
sense: WAL, and each checkpoint on disk before the turn goes on.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import bare, homes
from benchmarks.measures import Measure, Scale, middle
from benchmarks.progress import Progress

#: Turns, and how many at the beginning and at the end are compared.
SIZES = {Scale.QUICK: (6, 2), Scale.NORMAL: (300, 30), Scale.FULL: (1_200, 60)}


def measure(scale: Scale, progress: Progress, *, own: float, own_bytes: float) -> tuple[list[Measure], dict[str, Any]]:
    """What a turn takes there, with our own time and bytes per turn as the number that is judged."""
    turns, edge = SIZES[scale]
    with homes.scratch() as folder:
        database = folder / "langgraph.sqlite3"
        times = _turns(database, turns, progress)
        bare.fold_in(database)
        size = database.stat().st_size / turns
    first, last = middle(times[:edge]), middle(times[-edge:])
    beside = "LangGraph with its SQLite checkpointer"
    measures = [
        Measure(
            what="own time per turn, at any turn",
            unit="ms",
            ours=own * 1000,
            baseline=last * 1000,
            baseline_is=f"{beside}, turn {turns:,}",
            limit=last * 1000,
            limit_is="not slower",
        ),
        Measure(
            what="a short turn on disk",
            unit="bytes",
            ours=own_bytes,
            baseline=size,
            baseline_is=f"{beside}, mean of {turns:,} turns",
            limit=size,
            limit_is="not more",
        ),
    ]
    details = {
        "version": version("langgraph"),
        "turns": turns,
        "first_turns_ms": round(first * 1000, 2),
        "last_turns_ms": round(last * 1000, 2),
        "bytes_per_turn": round(size),
    }
    return measures, details


def _turns(database: Path, turns: int, progress: Progress) -> list[float]:
    from langchain_core.messages import AIMessage, HumanMessage  # type: ignore[import-not-found]
    from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
    from langgraph.graph import END, START, MessagesState, StateGraph  # type: ignore[import-not-found]

    def echo(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(content=state["messages"][-1].content)]}

    graph = StateGraph(MessagesState)
    graph.add_node("echo", echo)
    graph.add_edge(START, "echo")
    graph.add_edge("echo", END)
    times: list[float] = []
    with closing(sqlite3.connect(database, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        runnable = graph.compile(checkpointer=SqliteSaver(connection))
        thread: Any = {"configurable": {"thread_id": "main"}}
        for number in range(turns):
            progress.say(f"langgraph, turn {number:,} of {turns:,}")
            started = time.perf_counter()
            runnable.invoke({"messages": [HumanMessage(content=homes.TEXT)]}, thread, durability="sync")
            times.append(time.perf_counter() - started)
    return times
