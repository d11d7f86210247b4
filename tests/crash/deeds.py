"""Deeds: what a crash test does to a runtime, as values. The same number of the same plan is always the same deed.

So a process that is started again can see which deeds were answered, ask again for those that were not, and go on.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random

from holon.core.codec import Record
from holon.core.messages import Priority


class Verb(StrEnum):
    CREATE_AGENT = "create_agent"
    PROMPT = "prompt"
    WEBHOOK = "webhook"
    WAKE = "wake"
    DELIVER = "deliver"
    ROTATE = "rotate"
    REVOKE = "revoke"
    REVEAL = "reveal"
    TIMER = "timer"
    CANCEL_TIMER = "cancel_timer"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    ABORT = "abort"
    TEMPORARY_AGENT = "temporary_agent"
    RETENTION = "retention"
    #: The agent works in a repository from now on, so that its children can be kept apart in worktrees of it.
    WORKSPACE = "workspace"
    #: Nothing is asked: the plan goes on when the agent has nothing to do, when it runs a turn, when the watchdog has
    #: noticed that it makes no progress, or after a while.
    SETTLE = "settle"
    RUNNING = "running"
    STALLED = "stalled"
    WAIT = "wait"

    @property
    def keyed(self) -> bool:
        """Whether it may be asked for again: it carries an idempotency key, or comes to the same."""
        return self in (Verb.CREATE_AGENT, Verb.PROMPT, Verb.WEBHOOK, Verb.TIMER, Verb.WORKSPACE)


class Deed(Record, frozen=True, kw_only=True):
    n: int
    verb: Verb
    agent: str = "main"
    text: str = ""
    priority: Priority = Priority.NORMAL
    #: A timer's delay; how long a pause or a stop lasts (0: until somebody resumes); how long a wait or an abort takes.
    ms: int = 0
    #: A timer's interval.
    every_ms: int | None = None

    @property
    def tag(self) -> str:
        """What its message, timer or hint is found by."""
        return f"#{self.n}#"

    @property
    def key(self) -> str:
        return f"deed-{self.n}"


#: Stopped and resumed under load. Ticks that a stopped agent was due are not made up for (results of its tasks are), so
#: the others are never stopped.
STOPPED_AGENT = "cyd"
AGENTS = ("main", "ada", "bob", STOPPED_AGENT)
#: They work in a repository, all in the same one; in a tour only the first does.
CODERS = ("ada", "main", "bob")

#: What prompts ask for; the scripted model knows each of these words.
WORDS = (
    "plain",
    "stamp",
    "many",
    "nap",
    "rest",
    "follow",
    "mixed",
    "deny",
    "slow",
    "broken",
    "talk",
    "run",
    "promote",
    "halt",
    "batch",
    "family",
    "dismiss",
    "apart",
    "recall",
)


def tour() -> list[Deed]:
    """One of everything, so that a run meets every transition that a running process can meet."""
    V = Verb
    lines: list[Deed] = []

    def add(verb: Verb, agent: str = "main", text: str = "", **more: object) -> None:
        lines.append(Deed(n=len(lines), verb=verb, agent=agent, text=text, **more))  # type: ignore[arg-type]

    add(V.CREATE_AGENT, "ada")
    add(V.WORKSPACE, CODERS[0])
    add(V.PROMPT, text="many")
    add(V.PROMPT, "ada", "stamp")
    add(V.PROMPT, text="talk", priority=Priority.INTERJECT)
    add(V.WEBHOOK, "ada", "plain")
    add(V.TIMER, "ada", ms=20)
    add(V.TIMER, text="later", ms=60_000, every_ms=60_000)
    add(V.CANCEL_TIMER)
    add(V.SETTLE)
    add(V.WAKE, text="look")
    add(V.DELIVER, "ada", "news")
    add(V.REVEAL, "ada")
    add(V.ROTATE, "ada")
    add(V.REVOKE, "ada")
    add(V.PROMPT, "ada", "deny")
    add(V.PROMPT, text="mixed")
    add(V.PAUSE)
    add(V.WAKE, text="look when you may")
    add(V.RESUME)
    add(V.SETTLE, "ada")
    add(V.PROMPT, "ada", "dawdle")
    add(V.RUNNING, "ada")
    add(V.WAIT, ms=90)
    add(V.TIMER, ms=1)  # a beat of the pulse, in which the watchdog looks too
    add(V.STALLED, "ada")
    add(V.ABORT, "ada", ms=1)
    add(V.TEMPORARY_AGENT, text="stamp")
    add(V.RETENTION)
    add(V.PROMPT, text="run")
    add(V.PROMPT, "ada", "nap")
    add(V.PROMPT, "ada", "halt")
    add(V.PROMPT, text="family")
    add(V.PROMPT, CODERS[0], "apart")
    add(V.PROMPT, CODERS[0], "recall")
    add(V.PROMPT, text="batch")
    add(V.PROMPT, text="dismiss")
    add(V.PROMPT, text="promote")
    add(V.SETTLE)
    add(V.SETTLE, "ada")
    add(V.PROMPT, "ada", "promote")  # its command may outlive this process
    add(V.PROMPT, text="slow")
    add(V.RUNNING)  # the turn is open when the run ends: it is suspended, and taken up by the next one
    return lines


class Plan:
    """An endless random load of one seed, or a list."""

    def __init__(self, seed: int | None = None, deeds: list[Deed] | None = None) -> None:
        self._seed, self._deeds = seed, deeds or []

    def deed(self, n: int) -> Deed | None:
        """The deed of that number; `None` behind the end of a list."""
        if self._seed is None:
            return self._deeds[n] if n < len(self._deeds) else None
        named = AGENTS[1:]
        if n < len(named):
            return Deed(n=n, verb=Verb.CREATE_AGENT, agent=named[n])
        if n < len(named) + len(CODERS):
            return Deed(n=n, verb=Verb.WORKSPACE, agent=CODERS[n - len(named)])
        return _random_deed(Random(f"{self._seed}/{n}"), n)


_WEIGHTS = {
    Verb.PROMPT: 46,
    Verb.WEBHOOK: 10,
    Verb.WAKE: 10,
    Verb.DELIVER: 8,
    Verb.TIMER: 8,
    Verb.CANCEL_TIMER: 4,
    Verb.PAUSE: 4,
    Verb.STOP: 2,
    Verb.ABORT: 4,
    Verb.ROTATE: 1,
    Verb.REVOKE: 1,
    Verb.REVEAL: 1,
    Verb.TEMPORARY_AGENT: 2,
    Verb.RETENTION: 1,
}


def _random_deed(random: Random, n: int) -> Deed:
    verb = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    agent = STOPPED_AGENT if verb is Verb.STOP else random.choice(AGENTS)
    match verb:
        case Verb.PROMPT:
            priority = random.choice((*Priority, Priority.NORMAL))
            return Deed(n=n, verb=verb, agent=agent, text=random.choice(WORDS), priority=priority)
        case Verb.TIMER:
            every = 100 if random.random() < 0.1 else None
            return Deed(n=n, verb=verb, agent=agent, ms=random.randrange(5, 80), every_ms=every)
        case Verb.PAUSE | Verb.STOP | Verb.ABORT:
            return Deed(n=n, verb=verb, agent=agent, ms=random.randrange(1, 20))
        case _:
            return Deed(n=n, verb=verb, agent=agent, text=random.choice(WORDS))
