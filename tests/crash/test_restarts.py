"""What a restart does with the one turn, abort, stop, rest or request that the process died in."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holon.runtime.host import Host
from holon.runtime.settings import Settings
from holon.runtime.views import EventQuery
from tests.crash.campaign import run_to_rest
from tests.crash.deeds import Deed, Verb
from tests.crash.invariants import broken
from tests.crash.nursery import Nursery, Worker
from tests.crash.outside import REPOSITORY
from tests.crash.remains import Remains, Row, read_remains
from tests.crash.worker import Job

Asked = tuple[Verb, dict[str, object]]


class Home:
    """A home and what is done to it, run after run."""

    def __init__(self, path: Path, nursery: Nursery) -> None:
        self.path, self._nursery = path, nursery
        self._deeds: list[Deed] = []

    def start(self, *deeds: Asked, **job: object) -> Worker:
        """A worker that does these deeds after those of the runs before."""
        for verb, fields in deeds:
            self._deeds.append(Deed(n=len(self._deeds), verb=verb, **fields))  # type: ignore[arg-type]
        return self._nursery.start(Job(home=str(self.path), deeds=list(self._deeds), **job))  # type: ignore[arg-type]

    def killed_when(self, what: Callable[[Remains], object], *deeds: Asked, **job: object) -> Remains:
        """Kills a worker as soon as `what` is true of the disk; what is left then."""
        worker = self.start(*deeds, (Verb.WAIT, {"ms": 10_000}), **job)
        worker.wait_until_ready()
        end = time.monotonic() + 10
        while not what(read_remains(self.path)):
            assert time.monotonic() < end, f"that does not happen:\n{worker.said()}"
            time.sleep(0.005)
        assert worker.kill() == -signal.SIGKILL
        self._deeds.pop()
        return read_remains(self.path)

    def rest(self, **job: int) -> Remains:
        run_to_rest(self._nursery, self.path, **job)
        remains = read_remains(self.path)
        assert broken(remains, at_rest=True) == []
        return remains


@pytest.fixture
def home(tmp_path, nursery):
    return Home(tmp_path / "home", nursery)


def prompt(text: str, agent: str = "main") -> Asked:
    return Verb.PROMPT, {"text": text, "agent": agent}


def wait(ms: int) -> Asked:
    return Verb.WAIT, {"ms": ms}


def asked(verb: Verb, **fields: object) -> Asked:
    return verb, fields


#: Apart in time, so that no other step happens to look at the hint.
HINT_IN_A_PAUSE = [asked(Verb.PAUSE), wait(20), asked(Verb.WAKE, text="look"), wait(20), asked(Verb.RESUME)]


def statuses(remains: Remains) -> dict[str, str]:
    """Where each prompt stands, by its first words."""
    return {
        row["envelope"]["body"]["text"].rpartition(" ")[0]: remains.status(message_id)
        for message_id, row in remains.messages.items()
        if row["envelope"]["kind"] == "operator_prompt"
    }


def briefs(remains: Remains) -> list[tuple[str, str]]:
    return [(brief["kind"], brief["record"]["text"]) for brief in remains.briefs]


def a_tool_runs(remains: Remains) -> bool:
    return bool(remains.stamps)


def a_turn_is_open(remains: Remains) -> bool:
    return bool(remains.open_turns())


# Quarantine


@pytest.mark.parametrize("deadly", ["deadly at once", "deadly again"])
def test_a_message_that_brings_the_process_down_three_times_is_set_aside_and_the_others_go_on(deadly, home):
    worker = home.start(
        asked(Verb.CREATE_AGENT, agent="ada"),
        prompt("slow", "ada"),
        wait(20),  # it waits for its provider each time that the process dies
        prompt(deadly),
        prompt("plain"),
        wait(100),
        crash_attempts=3,
    )
    deaths = 0
    while worker.wait() == -signal.SIGKILL:
        deaths += 1
        worker = home.start(crash_attempts=3)
    assert worker.status == 0, worker.said()
    assert deaths == 3

    remains = home.rest(crash_attempts=3)
    assert statuses(remains) == {"slow": "processed", deadly: "dropped", "plain": "processed"}
    (quarantined,) = remains.events_of("message_quarantined")
    assert quarantined["payload"] == {"attempts": 3}
    (failure,) = [text for kind, text in briefs(remains) if kind == "failure"]
    assert "the process died 3 times" in failure
    died = [call["record"]["call_id"] for call in remains.tool_calls if call["record"]["name"] == "Die"]
    assert sum(stamp.call_id in died for stamp in remains.stamps) == 3


def test_a_turn_that_gets_further_between_crashes_is_not_set_aside(home):
    """Two deaths before the first answer, two after it: four in all, and never three at one step."""
    home.killed_when(a_turn_is_open, prompt("patient"), crash_attempts=3)
    home.killed_when(lambda r: len(r.events_of("turn_resumed")) == 1, crash_attempts=3)
    home.killed_when(a_tool_runs, crash_attempts=3)
    home.killed_when(lambda r: len(r.events_of("turn_resumed")) == 3, crash_attempts=3)
    assert statuses(home.rest(crash_attempts=3)) == {"patient": "processed"}


# Turns


def test_a_call_that_had_begun_is_not_run_again_and_the_model_is_told(home):
    left = home.killed_when(a_tool_runs, prompt("stuck"))
    assert [call["status"] for call in left.tool_calls] == ["begun"]

    remains = home.rest()
    (call,) = remains.tool_calls
    assert call["status"] == "interrupted"
    assert [stamp.call_id for stamp in remains.stamps] == [call["record"]["call_id"]]
    ((kind, text),) = briefs(remains)
    assert kind == "result"
    assert text.startswith("told: ")
    assert '"kind":"interrupted"' in text


def test_an_orderly_end_in_the_middle_of_a_turn_is_no_crash(home):
    """With a single crash allowed, three ends in a row leave the turn to be taken up."""
    ends = [home.start(prompt("slow"), wait(30), crash_attempts=1), *(None for _ in range(2))]
    for number, worker in enumerate(ends):
        worker = worker or home.start(crash_attempts=1)
        assert worker.wait() == 0, worker.said()
        (turn,) = read_remains(home.path).open_turns()
        assert (number, turn["record"]["suspended"], turn["record"].get("crashes", 0)) == (number, True, 0)
        assert broken(read_remains(home.path), at_rest=False) == []
    assert statuses(home.rest(crash_attempts=1)) == {"slow": "processed"}


def test_a_call_that_an_orderly_end_cut_off_is_not_run_again_either(home):
    worker = home.start(prompt("stuck"), wait(150))
    assert worker.wait() == 0, worker.said()
    remains = home.rest()
    assert [call["status"] for call in remains.tool_calls] == ["interrupted"]
    assert len(remains.stamps) == 1


@pytest.mark.parametrize(("word", "calls"), [("very slow", []), ("stuck", ["interrupted"])])
def test_an_abort_that_is_on_disk_is_carried_out_by_the_restart(word, calls, home):
    worker = home.start(prompt(word), asked(Verb.ABORT, ms=40), kill_at="run.abort:after:1")
    assert worker.wait() == -signal.SIGKILL
    (turn,) = read_remains(home.path).open_turns()
    assert turn["record"]["abort_requested"] is True

    remains = home.rest()
    assert statuses(remains) == {word: "aborted"}
    assert briefs(remains) == [("failure", "aborted by the operator")]
    assert [call["status"] for call in remains.tool_calls] == calls
    assert remains.events_of("turn_resumed") == []


def test_an_abort_in_the_middle_of_a_round_of_calls_leaves_a_whole_conversation(home):
    """What ran is interrupted, what had not begun never runs, and each call has its result."""
    deeds = [prompt("stuck then more"), wait(150), asked(Verb.ABORT), asked(Verb.SETTLE)]
    assert home.start(*deeds).wait() == 0
    remains = home.rest()
    assert [call["status"] for call in remains.tool_calls] == ["interrupted", "requested"]
    (told,) = [entry["data"]["results"] for entry in remains.transcript if entry["kind"] == "tool_results"]
    assert ['"kind":"interrupted"' in told[0]["content"], '"kind":"not_run"' in told[1]["content"]] == [True, True]
    assert len(remains.stamps) == 1


# Agents


@pytest.mark.spec("RT-077")
def test_a_stopped_agent_is_still_stopped_after_a_kill(home):
    def stopped(remains: Remains) -> bool:
        return bool(remains.agents["main"]["status"] == "stopped")

    home.killed_when(stopped, asked(Verb.STOP))
    worker = home.start(prompt("plain"))
    assert worker.wait() == 0, worker.said()
    remains = read_remains(home.path)
    assert stopped(remains)
    assert remains.answers[max(remains.answers)].refused == "agent_stopped"


def test_a_hint_that_waited_for_a_paused_agent_is_looked_at_after_a_kill_right_behind_the_resume(home):
    worker = home.start(*HINT_IN_A_PAUSE, kill_at="agent.control:after:2")
    assert worker.wait() == -signal.SIGKILL
    assert len(read_remains(home.path).wake_hints) == 1
    assert len(home.rest().events_of("wake_hint_triggered")) == 1


def test_a_hint_that_waited_for_a_paused_agent_is_looked_at_as_soon_as_it_is_resumed(home):
    assert home.start(*HINT_IN_A_PAUSE, asked(Verb.SETTLE), wait(20)).wait() == 0
    assert broken(read_remains(home.path), at_rest=True) == []


@pytest.mark.spec("RT-132")
def test_a_bounded_rest_ends_on_time_and_once_though_the_process_died_meanwhile(home):
    left = home.killed_when(lambda r: r.tasks and not r.open_turns(), prompt("long nap"))
    (job,) = left.tasks
    assert (job["kind"], job["status"]) == ("sleep_job", "running")
    assert left.agents["main"]["state"]["sleeping_until"] == job["record"]["due_at"]

    remains = home.rest()
    (tick,) = [row for row in remains.messages.values() if row["envelope"]["kind"] == "timer_tick"]
    assert created_ms(remains.queue[tick["id"]]) >= job["due_at"]
    assert remains.agents["main"]["state"].get("sleeping_until") is None


# Tasks


def command_task(remains: Remains) -> Row:
    (task,) = [task for task in remains.tasks if task["kind"] == "command_task"]
    return task


def test_a_command_that_was_asked_to_stop_is_stopped_by_the_restart_if_the_word_did_not_reach_it(home):
    """It would sleep for a minute, and a home does not come to rest while it does."""
    worker = home.start(prompt("halt for good"), asked(Verb.SETTLE), kill_at="task.change:after:1")
    assert worker.wait() == -signal.SIGKILL
    assert command_task(read_remains(home.path))["status"] == "cancelling"
    assert command_task(home.rest())["status"] == "cancelled"


def test_a_command_whose_call_was_cut_off_goes_on_as_a_task_and_its_result_comes(home):
    left = home.killed_when(lambda r: r.commands, prompt("halt for a while"))
    assert [call["status"] for call in left.tool_calls][:1] in (["begun"], ["completed"])
    remains = home.rest()
    assert command_task(remains)["status"] in ("completed", "cancelled")
    assert len(remains.commands) == 1


def test_an_aborted_run_takes_the_command_with_it_that_it_waited_for(home):
    worker = home.start(prompt("wait for good"), wait(150), asked(Verb.ABORT), asked(Verb.SETTLE))
    assert worker.wait() == 0, worker.said()
    remains = home.rest()
    assert statuses(remains) == {"wait for good": "aborted"}
    assert [call["status"] for call in remains.tool_calls] == ["interrupted"]
    assert remains.tasks == []


# Children in worktrees

APART = [asked(Verb.CREATE_AGENT, agent="ada"), asked(Verb.WORKSPACE, agent="ada")]


@pytest.mark.spec("RT-341", "RT-343")
@pytest.mark.parametrize("place", ["worktree.note:after:1", "tool.done:before:1"])
def test_a_worktree_whose_spawn_did_not_commit_is_cleared_by_the_restart(place, home):
    """Noted and not made, or made and not committed: the task does not exist, and nobody was told of it."""
    worker = home.start(*APART, prompt("apart", "ada"), wait(3_000), kill_at=place)
    assert worker.wait() == -signal.SIGKILL
    left = read_remains(home.path)
    assert [task for task in left.tasks if task["kind"] == "child_agent_task"] == []
    assert [errand["topic"] for errand in left.outbox if errand["topic"] == "worktree.clear"] == ["worktree.clear"]
    (noted,) = [errand["payload"]["task_id"] for errand in left.outbox if errand["topic"] == "worktree.clear"]
    assert noted not in home.rest().worktrees


@pytest.mark.spec("RT-333")
@pytest.mark.parametrize("place", ["worktree.note:after:1", "tool.done:before:1"])
def test_a_worktree_that_its_agent_did_not_come_to_enter_is_cleared_by_the_restart(place, home):
    outside = home.path.parent / f"{home.path.name}-outside"
    worker = home.start(*APART, prompt(f"isolate {outside / REPOSITORY}", "ada"), wait(3_000), kill_at=place)
    assert worker.wait() == -signal.SIGKILL
    assert [errand for errand in read_remains(home.path).outbox if errand["topic"] == "worktree.clear"]
    home.rest()
    assert list(outside.glob(".holon-worktrees-*/*")) == []
    assert list((outside / REPOSITORY / ".git" / "refs" / "heads").glob("holon/*/*")) == []


@pytest.mark.spec("RT-304", "RT-344")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_result_of_a_child_comes_once_though_the_process_died_clearing_its_worktree(moment, home):
    worker = home.start(*APART, prompt("apart", "ada"), wait(3_000), kill_at=f"worktree.cleared:{moment}:1")
    assert worker.wait() == -signal.SIGKILL
    remains = home.rest()
    ended = {task["id"]: task["record"]["detail"] for task in remains.tasks if task["kind"] == "child_agent_task"}
    found = sorted(detail["worktree"]["cleanup_status"] for detail in ended.values())
    assert found in (["removed", "retained"], ["already_removed", "retained"])
    results = [row["envelope"] for row in remains.messages.values() if row["envelope"]["kind"] == "task_result"]
    assert sorted(result["task_id"] for result in results if result["agent_id"] == "ada") == sorted(ended)


@pytest.mark.spec("RT-304")
@pytest.mark.parametrize("agent", ["main", "ada"])
def test_a_child_that_was_stopped_stays_so_though_the_process_died_right_behind(agent, home):
    """Its turn is on disk as aborted: a restart does not take it up, and its command ends."""
    word = "recall" if agent == "ada" else "dismiss"
    worker = home.start(*APART, prompt(word, agent), wait(3_000), kill_at="task.end:after:1")
    assert worker.wait() == -signal.SIGKILL
    remains = home.rest()
    (task,) = [task for task in remains.tasks if task["kind"] == "child_agent_task"]
    assert task["status"] == "cancelled"
    child = task["record"]["detail"]["child_agent_id"]
    assert [turn["record"]["terminal"]["kind"] for turn in remains.turns.values() if turn["agent_id"] == child] in (
        [],
        ["aborted"],
    )


# Callers


@pytest.mark.parametrize(("moment", "kept"), [("before", 0), ("after", 1)])
def test_a_request_whose_answer_was_lost_is_sent_again_under_its_key_and_happens_once(moment, kept, home):
    worker = home.start(prompt("stamp"), kill_at=f"message.admit:{moment}:1")
    assert worker.wait() == -signal.SIGKILL
    left = read_remains(home.path)
    assert (len(left.messages), left.answers) == (kept, {})

    remains = home.rest()
    (message_id,) = remains.messages
    assert remains.answers[0].id == message_id
    assert not left.messages or left.messages == remains.messages


@pytest.mark.spec("RT-428")
async def test_a_reader_goes_on_from_its_cursor_across_kills_and_the_numbers_go_on_rising(home):
    first = home.killed_when(lambda r: r.briefs, prompt("plain"))
    cursor = max(event["seq"] for event in first.events if event["agent_id"] == "main")
    home.killed_when(lambda r: len(r.briefs) == 2, prompt("stamp"))
    last = [event for event in home.rest().events if event["agent_id"] == "main"]

    settings = Settings(home=home.path, socket_path=home.path / "run" / "holon.sock")
    async with await Host.open(settings) as host:
        page = await host.views.events("main", EventQuery(after_seq=cursor, limit=500))
    assert [(event.event_seq, event.id) for event in page.events] == [
        (event["seq"], event["id"]) for event in last if event["seq"] > cursor
    ]
    assert [event["seq"] for event in last] == list(range(1, len(last) + 1))
    assert len(page.events) > 0


def created_ms(row: Row) -> int:
    return int(row["created_at"])
