"""A process that is killed just before or just after any commit loses nothing and does nothing twice.

Every transition is killed at because it is in `Transition`: one that no deed of the tour leads to fails here.
"""

import signal
import time
from pathlib import Path
from random import Random

import pytest

from holon.core.transitions import Transition
from tests.crash.campaign import run_to_rest
from tests.crash.deeds import Deed, Verb, tour
from tests.crash.invariants import broken
from tests.crash.nursery import Nursery
from tests.crash.remains import Remains, read_remains
from tests.crash.worker import IMPATIENT_MS, Job

MOMENTS = ("before", "after")
#: Steps that a turn, an agent or a command goes through more than once: they are killed at later ones too.
LATER = {
    Transition.AGENT_CREATE: 2,
    Transition.AGENT_HOME_MADE: 2,
    Transition.AGENT_CONTROL: 2,
    Transition.MESSAGE_ADMIT: 4,
    Transition.TURN_BEGIN: 4,
    Transition.TURN_ROUND: 3,
    Transition.TOOL_DONE: 4,
    Transition.TURN_SETTLE: 3,
    Transition.TIMER_FIRE: 2,
    Transition.TASK_START: 3,
    Transition.TASK_END: 2,
    Transition.WORKTREE_NOTE: 3,
    Transition.WORKTREE_CLEARED: 3,
}
CASES = [(transition, 1) for transition in Transition] + list(LATER.items())


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("transition", "nth"), CASES, ids=lambda value: str(value))
def test_a_kill_at_a_transition_loses_nothing_and_repeats_nothing(transition, nth, moment, tmp_path, nursery):
    home = tmp_path / "home"
    die_at(nursery, home, f"{transition}:{moment}:{nth}")
    assert broken(read_remains(home), at_rest=False) == []
    die_soon(nursery, home, Random(f"{transition}:{moment}:{nth}"))
    assert broken(read_remains(home), at_rest=False) == []
    run_to_rest(nursery, home)
    assert broken(read_remains(home), at_rest=True) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_retention_removes_a_message_with_all_that_hangs_on_it_or_not_at_all(moment, tmp_path, nursery):
    home = tmp_path / "home"
    past = leave_a_past(nursery, home)
    die_at(nursery, home, f"{Transition.RETENTION}:{moment}:1", [Deed(n=0, verb=Verb.RETENTION)])
    assert records_of(read_remains(home), past) == ("all of them" if moment == "before" else "none of them")
    assert broken(read_remains(home), at_rest=False) == []
    again = nursery.start(Job(home=str(home), deeds=[Deed(n=0, verb=Verb.WAIT), Deed(n=1, verb=Verb.RETENTION)]))
    assert again.wait() == 0
    run_to_rest(nursery, home)
    assert records_of(read_remains(home), past) == "none of them"
    assert broken(read_remains(home), at_rest=True) == []


def die_at(nursery: Nursery, home: Path, place: str, deeds: list[Deed] | None = None) -> None:
    """Takes the tour until the process dies at that place; a second time for what only a second start meets."""
    for _ in range(2):
        worker = nursery.start(Job(home=str(home), deeds=deeds or tour(), kill_at=place, stall_ms=IMPATIENT_MS))
        status = worker.wait()
        if status == -signal.SIGKILL:
            return
        assert status == 0, worker.said()
    pytest.fail(f"nothing led to {place}: add a deed that does to tour() in tests/crash/deeds.py")


def die_soon(nursery: Nursery, home: Path, random: Random) -> None:
    """Goes on with the tour and is killed on the way: what recovers from a crash may crash itself."""
    worker = nursery.start(Job(home=str(home), deeds=tour(), stall_ms=IMPATIENT_MS))
    worker.wait_until_ready()
    time.sleep(random.uniform(0, 0.1))
    assert worker.kill() in (0, -signal.SIGKILL)


def leave_a_past(nursery: Nursery, home: Path) -> set[str]:
    """Agents that came and went more than a year ago; their ids."""
    deeds = [Deed(n=n, verb=Verb.TEMPORARY_AGENT, text="plain") for n in range(3)]
    worker = nursery.start(Job(home=str(home), deeds=deeds, days_ago=400))
    assert worker.wait() == 0, worker.said()
    job = worker.job
    job.outside.rename(job.outside.with_name("past"))  # its records may go: nobody may ask for them any more
    return {agent_id for agent_id, agent in read_remains(home).agents.items() if agent["visibility"] == "private"}


def records_of(remains: Remains, agents: set[str]) -> str:
    """How much is left of these agents' messages, turns, transcripts, briefs and events."""
    tables = (remains.queue.values(), remains.turns.values(), remains.transcript, remains.briefs, remains.events)
    left = [sum(row["agent_id"] in agents for row in table) for table in tables]
    left.append(sum(row["agent_id"] in agents for row in remains.messages.values()))
    if not any(left):
        return "none of them"
    return "all of them" if all(count >= len(agents) for count in left) else f"some of them: {left}"
