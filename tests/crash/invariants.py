"""Invariants: what must be true of what a killed process left (always), and of a home that came to rest (at rest).

Each check is a function that yields a sentence for each thing that is wrong. `ALWAYS` and `AT_REST` list them all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from holon.core.codec import loads, to_plain
from holon.core.provenance import labels_for
from tests.crash.deeds import STOPPED_AGENT, Verb
from tests.crash.doing import admission_of
from tests.crash.remains import Remains, Row, grouped

Check = Callable[[Remains], Iterator[str]]

_FINAL = ("processed", "interjected", "aborted", "dropped")
_OVER = ("completed", "failed", "cancelled")
#: What a command of the stage writes outside when it runs.
_MARK = re.compile(r"echo '([^']+)'")


def broken(remains: Remains, *, at_rest: bool) -> list[str]:
    """What is wrong with a home, each with the name of the check that says so."""
    checks = (*ALWAYS, *AT_REST) if at_rest else ALWAYS
    return [f"{check.__name__}: {words}" for check in checks for words in check(remains)]


# Always


def database_is_sound(r: Remains) -> Iterator[str]:
    yield from r.damage


def acknowledged_is_durable(r: Remains) -> Iterator[str]:
    """An answered message is there once, as it was given; one without answer at most once; a refused one is not."""
    by_text = Counter(_tag_of(row) for row in r.messages.values())
    for n, deed in r.intents.items():
        if deed.verb not in (Verb.PROMPT, Verb.WEBHOOK):
            continue
        found, answer = by_text[deed.tag], r.answers.get(n)
        if answer is None or answer.refused:
            if found > (answer is None):
                yield f"deed {n} was {'refused' if answer else 'not answered'} and has {found} messages"
            continue
        if found != 1 or answer.id not in r.messages:
            yield f"deed {n} was acknowledged as {answer.id} and has {found} messages"
            continue
        asked, kept = admission_of(deed), r.messages[answer.id]["envelope"]
        given = {
            "agent_id": asked.agent_id,
            "kind": asked.kind,
            "origin": to_plain(asked.origin),
            "body": to_plain(asked.body),
            "priority": asked.priority,
            "trust": labels_for(asked.origin)[0],
        }
        if given != {field: kept[field] for field in given}:
            yield f"deed {n} was given as {given} and is kept as {kept}"


def messages_have_one_place(r: Remains) -> Iterator[str]:
    if r.messages.keys() != r.queue.keys():
        yield f"messages without a queue entry, or the other way round: {r.messages.keys() ^ r.queue.keys()}"
    for scope, places in grouped(r.queue.values(), "agent_id").items():
        if len({place["seq"] for place in places}) != len(places):
            yield f"two messages of {scope} have the same place"


def pending_is_counted(r: Remains) -> Iterator[str]:
    waiting = Counter(entry["agent_id"] for entry in r.queue.values() if entry["status"] == "queued")
    for scope, row in r.counters.items():
        if row["pending"] != waiting[scope]:
            yield f"{scope} counts {row['pending']} and {waiting[scope]} wait"


def claims_have_owners(r: Remains) -> Iterator[str]:
    """A claim and an open turn are two sides of one thing, and the agent's state names it."""
    owners = {turn["message_id"]: turn for turn in r.open_turns()}
    for entry in r.queue.values():
        turn = owners.get(entry["message_id"])
        if entry["status"] == "dequeued" and (turn is None or turn["record"]["run_id"] != entry["run_id"]):
            yield f"{entry['message_id']} is claimed by {entry['run_id']}, and no open turn is behind it"
    for agent_id, turns in grouped(r.open_turns(), "agent_id").items():
        if len(turns) != 1 or r.agents[agent_id]["state"].get("current_turn_id") != turns[0]["id"]:
            yield f"{agent_id} has the open turns {[turn['id'] for turn in turns]}"
    for message_id, turn in owners.items():
        if r.status(message_id) != "dequeued":
            yield f"turn {turn['id']} is open and its message is {r.status(message_id)}"


def turns_end_once(r: Remains) -> Iterator[str]:
    """One turn a message, one terminal a turn, and the queue says the same as the turn."""
    ended = grouped(r.events_of("turn_terminal"), "turn_id")
    fits = {"completed": ("processed",), "aborted": ("aborted", "dropped")}
    for message_id, turns in grouped(r.turns.values(), "message_id").items():
        if len(turns) > 1:
            yield f"{message_id} has {len(turns)} turns"
    for turn_id, turn in r.turns.items():
        terminal = turn["record"].get("terminal")
        if (turn["phase"] == "terminal") != (terminal is not None):
            yield f"turn {turn_id} is {turn['phase']} and its terminal record is {terminal}"
        if len(ended[turn_id]) != (terminal is not None):
            yield f"turn {turn_id} is {turn['phase']} and has {len(ended[turn_id])} ends in the log"
        if terminal and r.status(turn["message_id"]) not in fits[terminal["kind"]]:
            yield f"turn {turn_id} {terminal['kind']}, its message is {r.status(turn['message_id'])}"


def operators_are_answered_once(r: Remains) -> Iterator[str]:
    """A settled prompt has its one result or failure; one that a running turn took in has its acknowledgement."""
    by_message = grouped((brief["record"] for brief in r.briefs), "related_message_id")
    turns = {turn["message_id"]: turn for turn in r.turns.values()}
    for message_id, row in r.messages.items():
        status, turn = r.status(message_id), turns.get(message_id)
        asked = row["envelope"]["kind"] == "operator_prompt"
        briefs = by_message[message_id]
        ends = [brief["kind"] for brief in briefs if brief["kind"] != "ack"]
        if asked and status in ("processed", "aborted", "dropped"):
            expected = ["result" if status == "processed" else "failure"]
            if ends != expected or turn is None:
                yield f"prompt {message_id} is {status} and its briefs are {ends}, its turn {turn and turn['id']}"
        elif len(ends) > (turn is not None and turn["phase"] == "terminal"):
            yield f"{message_id} ({status}) has the briefs {ends}"
        taken = [brief for brief in briefs if brief["kind"] == "ack" and brief.get("turn_id")]
        if len(taken) != (status == "interjected"):
            yield f"{message_id} is {status} and has {len(taken)} acknowledgements of an interjection"


def tools_run_once(r: Remains) -> Iterator[str]:
    """What the tools wrote outside, against what is on record: a call is on disk as begun before it runs."""
    ran = Counter(stamp.call_id for stamp in r.stamps)
    yield from (f"call {call_id} ran {times} times" for call_id, times in ran.items() if times > 1)
    known = {call["record"]["call_id"]: call for call in r.tool_calls}
    yield from (f"call {call_id} ran and is not on record" for call_id in ran.keys() - known.keys())
    for call_id, call in known.items():
        if call["record"]["name"] not in ("Stamp", "Peek", "Break", "Die"):
            continue
        if call["status"] == "completed" and ran[call_id] != 1:
            yield f"call {call_id} is completed and ran {ran[call_id]} times"
        if call["status"] == "requested" and ran[call_id] != 0:
            yield f"call {call_id} has not begun and ran"


def effects_happen_once(r: Remains) -> Iterator[str]:
    """A follow-up is there if and only if the call that asked for it has a result that says so. (A stopped agent's is
    refused.)"""
    asked: Counter[str] = Counter()
    for call in r.tool_calls:
        done = call["status"] == "completed" and not call["record"].get("is_error")
        if call["record"]["name"] == "Enqueue" and done:
            asked[r.turns[call["turn_id"]]["message_id"]] += 1
    made = Counter(row["envelope"]["causation_id"] for row in _followups(r, "self_followup"))
    if asked != made:
        yield f"follow-ups by message: asked for {asked - made}, made {made - asked} too many"


def commands_run_once(r: Remains) -> Iterator[str]:
    """What commands wrote outside, against their calls and tasks: no command is started a second time."""
    ran = Counter(r.commands)
    yield from (f"command {mark!r} ran {times} times" for mark, times in ran.items() if times > 1)
    calls = {
        mark: call
        for call in r.tool_calls
        if call["record"]["name"] in ("ExecCommand", "ExecCommandBatch")
        for mark in _MARK.findall(call["record"]["input"])
    }
    for mark in ran.keys() - {mark for mark, call in calls.items() if call["status"] != "requested"}:
        yield f"command {mark!r} ran and no call of it had begun"
    for mark, call in calls.items():
        if (_disposition(call) == "completed" or _batch_is_done(call)) and ran[mark] != 1:
            yield f"command {mark!r} was told to be completed and ran {ran[mark]} times"
    for task in r.tasks:
        if task["kind"] == "command_task" and task["status"] == "completed":
            mark = _mark(_command_of(task))
            if ran[mark] != 1:
                yield f"task {task['id']} is completed and its command {mark!r} ran {ran[mark]} times"


def promoted_commands_are_tasks(r: Remains) -> Iterator[str]:
    """A call's answer names a task if and only if it is on record; what ended within its call left none."""
    tasks = {task["id"] for task in r.tasks}
    by_mark = Counter(_mark(_command_of(task)) for task in r.tasks if task["kind"] == "command_task")
    for call in r.tool_calls:
        told = _disposition(call)
        if told == "promoted_to_task" and loads(call["record"]["result"], dict)["task_handle"]["task_id"] not in tasks:
            yield f"call {call['record']['call_id']} became a task that is not on record"
        done = told == "completed" or _batch_is_done(call)
        if done and any(by_mark[mark] for mark in _MARK.findall(call["record"]["input"])):
            yield f"call {call['record']['call_id']} was completed and is a task besides"
    yield from (f"the command {mark!r} has {count} tasks" for mark, count in by_mark.items() if count > 1)


def tasks_end_once(r: Remains) -> Iterator[str]:
    """A task that is over has one end in the log and one result in its owner's queue, also if the owner is stopped; any
    other has none. Only who is archived gets none."""
    results = Counter(
        row["envelope"]["origin"]["task_id"] for row in r.messages.values() if row["envelope"]["kind"] == "task_result"
    )
    ends = Counter(
        event["payload"]["task_id"]
        for event in r.events_of("task_status_updated")
        if event["payload"]["status"] in _OVER
    )
    owned = {task["id"]: task for task in r.tasks if task["kind"] != "sleep_job"}
    yield from (f"there is a result of {task_id}, which is no task" for task_id in results.keys() - owned.keys())
    for task_id, task in owned.items():
        over = task["status"] in _OVER
        if ends[task_id] != over:
            yield f"task {task_id} is {task['status']} and has {ends[task_id]} ends in the log"
        if results[task_id] != over and _worktree(task).get("cleanup_status") == "pending":
            over = False  # what became of its worktree is told with the result
        if results[task_id] != over and not (results[task_id] == 0 and _archived(r.agents[task["agent_id"]])):
            yield f"task {task_id} of {task['agent_id']} is {task['status']} and has {results[task_id]} results"


def children_belong_to_tasks(r: Remains) -> Iterator[str]:
    """A spawn that was answered made one child, with one message and one task; it is archived when that is over."""
    tasks = {task["id"]: task for task in r.tasks if task["kind"] == "child_agent_task"}
    children = {agent_id: row for agent_id, row in r.agents.items() if row["identity"].get("delegated_from_task_id")}
    told = {
        loads(call["record"]["result"], dict)["child_agent_id"]
        for call in r.tool_calls
        if call["record"]["name"] == "SpawnAgent"
        and call["status"] == "completed"
        and not call["record"].get("is_error")
    }
    if told != children.keys():
        yield f"children that the model was told of, or that are there, and not both: {told ^ children.keys()}"
    asked = Counter(row["agent_id"] for row in (m["envelope"] for m in _followups(r, "delegation")))
    for child_id, child in children.items():
        task = tasks.pop(child["identity"]["delegated_from_task_id"], None)
        if task is None:
            yield f"child {child_id} has no task"
        elif _archived(child) != (task["status"] in _OVER):
            yield f"child {child_id} is {child['registry_status']} and its task is {task['status']}"
        if asked[child_id] != 1:
            yield f"child {child_id} has {asked[child_id]} messages from its parent"
    yield from (f"task {task_id} has no child" for task_id in tasks)


def worktrees_have_owners(r: Remains) -> Iterator[str]:
    """Whatever there is of a worktree, a task answers for it, or an errand that will clear it."""
    errands = {errand["payload"]["task_id"] for errand in r.outbox if errand["topic"] == "worktree.clear"}
    owners = {task["id"] for task in r.tasks if _worktree(task) and not _cleared(task)}
    for task_id in r.worktrees.keys() - owners - errands:
        yield f"of the worktree of {task_id} there is {sorted(r.worktrees[task_id])}, and nobody answers for it"
    for task in r.tasks:
        if _worktree(task).get("cleanup_status") == "pending" and task["status"] in _OVER and task["id"] not in errands:
            yield f"task {task['id']} is over and nobody will clear its worktree"


def events_have_no_gaps(r: Remains) -> Iterator[str]:
    yield from _gaps(r, r.events, "event_seq", "oldest_event_seq")


def transcript_is_whole(r: Remains) -> Iterator[str]:
    """Numbers without gaps, and every call in an answer has its result before anything else is said."""
    yield from _gaps(r, r.transcript, "transcript_seq", None)
    open_turns = {turn["id"] for turn in r.open_turns()}
    for agent_id, entries in grouped(r.transcript, "agent_id").items():
        for entry, following in zip(entries, [*entries[1:], None], strict=True):
            if entry["kind"] != "assistant_round":
                continue
            uses = [block["id"] for block in entry["data"]["blocks"] if block["type"] == "tool_use"]
            results = []
            if following is not None and following["kind"] == "tool_results":
                results = [result["tool_use_id"] for result in following["data"]["results"]]
            in_progress = following is None and entry["turn_id"] in open_turns
            if uses != results and not in_progress:
                yield f"{agent_id} entry {entry['seq']} calls {uses}, the results that follow are {results}"


def rounds_are_counted_once(r: Remains) -> Iterator[str]:
    """What the agent's state has added up is what the transcript shows, however often the process died."""
    answers = grouped((entry for entry in r.transcript if entry["kind"] == "assistant_round"), "agent_id")
    for agent_id, agent in r.agents.items():
        state, said = agent["state"], answers[agent_id]
        shown = (len(said), sum(entry["data"]["token_usage"].get("output_tokens", 0) for entry in said))
        summed = (state.get("total_model_rounds", 0), state.get("total_output_tokens", 0))
        if shown != summed and not _archived(agent):
            yield f"{agent_id} counts (rounds, output tokens) {summed}, its transcript has {shown}"


def attempts_are_counted(r: Remains) -> Iterator[str]:
    """Every claim has a number: one, and one more for each time that a restart took it up."""
    taken_up = Counter(event["message_id"] for event in r.events_of("turn_resumed"))
    for turn in r.turns.values():
        attempt = r.queue.get(turn["message_id"], {}).get("attempt")
        if attempt != 1 + taken_up[turn["message_id"]]:
            yield f"{turn['message_id']} was taken up {taken_up[turn['message_id']]} times; its attempt is {attempt}"


def timers_fire_once(r: Remains) -> Iterator[str]:
    """Each fire is on record once, and each tick in the queue belongs to one fire."""
    fires = grouped((event["payload"] for event in r.events_of("timer_fired")), "timer_id")
    ticks = Counter(_timer_of(row) for row in r.messages.values())
    for timer in r.timers:
        record, mine = timer["record"], fires[timer["id"]]
        numbers = [fire["fire_count"] for fire in mine]
        if numbers != list(range(1, record.get("fire_count", 0) + 1)):
            yield f"timer {timer['id']} fired {record.get('fire_count', 0)} times, the log says {numbers}"
        if record.get("interval_ms") is None and len(mine) > 1:
            yield f"timer {timer['id']} fired {len(mine)} times and should have fired once"
        queued = sum(fire.get("tick_queued", True) for fire in mine)
        if ticks[timer["id"]] != queued:
            yield f"timer {timer['id']} queued {queued} ticks, there are {ticks[timer['id']]}"


def sleeps_end_once(r: Remains) -> Iterator[str]:
    ticks = Counter(_timer_of(row) for row in r.messages.values())
    for task in (task for task in r.tasks if task["kind"] == "sleep_job"):
        due = task["status"] == "completed"
        found = ticks[task["id"]]
        if found != due and not (found == 0 and _may_have_stopped(r, task["agent_id"])):
            yield f"the sleep {task['id']} of {task['agent_id']} is {task['status']} and has {found} ticks"


def hints_are_kept(r: Remains) -> Iterator[str]:
    """An acknowledged hint waits, or is in exactly one tick; one without answer is nowhere twice."""
    shown = [hint for row in r.messages.values() for hint in _hints_of(row)]
    waiting = [row["record"] for row in r.wake_hints]
    places = Counter(hint["id"] for hint in (*shown, *waiting))
    yield from (f"hint {hint_id} is in {times} places" for hint_id, times in places.items() if times > 1)
    tags = Counter(_hint_tag(hint) for hint in (*shown, *waiting))
    for n, deed in r.intents.items():
        if deed.verb not in (Verb.WAKE, Verb.DELIVER):
            continue
        answer = r.answers.get(n)
        least, most = (0, 1) if answer is None else (0, 0) if answer.refused else (1, 1)
        if not least <= tags[deed.tag] <= most:
            yield f"the hint of deed {n} ({answer}) is in {tags[deed.tag]} places"
    for agent_id, agent in r.agents.items():
        mine = sum(hint["agent_id"] == agent_id for hint in waiting)
        if agent["state"].get("pending_wake_hints", 0) != mine:
            yield f"{agent_id} counts {agent['state'].get('pending_wake_hints', 0)} hints, {mine} wait"


def deliveries_are_counted(r: Remains) -> Iterator[str]:
    delivered = Counter(event["payload"]["external_trigger_id"] for event in r.events_of("callback_delivered"))
    for trigger in r.triggers:
        if trigger["record"].get("delivery_count", 0) != delivered[trigger["id"]]:
            yield f"trigger {trigger['id']} counts {trigger['record']}, the log has {delivered[trigger['id']]}"


def keyed_deeds_happen_once(r: Remains) -> Iterator[str]:
    """Agents and timers that were asked for under a key: once if answered, at most once if not."""
    agents = Counter(r.agents.keys())
    timers = Counter((timer["record"].get("summary") or "").split()[-1:][0] for timer in r.timers)
    for n, deed in r.intents.items():
        if deed.verb not in (Verb.CREATE_AGENT, Verb.TIMER):
            continue
        found = agents[deed.agent] if deed.verb is Verb.CREATE_AGENT else timers[deed.tag]
        answer = r.answers.get(n)
        least, most = (0, 1) if answer is None else (0, 0) if answer.refused else (1, 1)
        if not least <= found <= most:
            yield f"deed {n} ({deed.verb}) was answered with {answer} and is there {found} times"


# At rest


def everything_is_settled(r: Remains) -> Iterator[str]:
    for message_id, entry in r.queue.items():
        if entry["status"] not in _FINAL:
            yield f"{message_id} of {entry['agent_id']} is {entry['status']}"
    yield from (f"turn {turn['id']} is open" for turn in r.open_turns())
    yield from (f"errand {errand['id']} is not done" for errand in r.outbox)
    yield from (f"hint {hint['id']} waits" for hint in r.wake_hints)
    yield from (f"timer {timer['id']} is active" for timer in r.timers if timer["status"] == "active")
    yield from (f"{task['kind']} {task['id']} is {task['status']}" for task in r.tasks if task["status"] not in _OVER)


def nobody_is_left_running(r: Remains) -> Iterator[str]:
    for agent_id, agent in r.agents.items():
        state = agent["state"]
        if agent["status"] != ("stopped" if _archived(agent) else "asleep") or state["status"] != agent["status"]:
            yield f"{agent_id} is {agent['status']} (in its state: {state['status']})"
        if state.get("current_run_id") or state.get("current_turn_id") or state.get("active_task_ids"):
            yield f"{agent_id} still names a run or a task: {state}"
        if agent_id not in r.homes:
            yield f"{agent_id} has no home on disk"


def begun_calls_have_an_end(r: Remains) -> Iterator[str]:
    """A call that had begun when the process died is interrupted, and the model reads that. One whose turn ended before
    it began never ran."""
    told = {
        result["tool_use_id"]: result
        for entry in r.transcript
        if entry["kind"] == "tool_results"
        for result in entry["data"]["results"]
    }
    for call in r.tool_calls:
        record = call["record"]
        never = call["status"] == "requested" and (record.get("error") or {}).get("kind") == "not_run"
        if call["status"] not in ("completed", "interrupted") and not never:
            yield f"call {record['call_id']} ended as {call['status']}"
        shown = told.get(record["call_id"])
        if shown is None or shown["content"] != record["result"]:
            yield f"call {record['call_id']} has the result {record.get('result')}, the model read {shown}"


def agents_went_through_all_turns(r: Remains) -> Iterator[str]:
    for agent_id, agent in r.agents.items():
        indexes = [turn["turn_index"] for turn in r.turns.values() if turn["agent_id"] == agent_id]
        if indexes != list(range(1, agent["state"].get("turn_index", 0) + 1)) and not _archived(agent):
            yield f"{agent_id} has had {agent['state'].get('turn_index', 0)} turns, kept are {indexes}"


def worktrees_are_cleared_or_kept(r: Remains) -> Iterator[str]:
    """A worktree is gone without a trace, or kept whole because there is work in it: of those that scribbled."""
    for task in r.tasks:
        if not (worktree := _worktree(task)):
            continue
        left, status = r.worktrees.get(task["id"], set()), worktree.get("cleanup_status")
        if status == "retained" and left != {"folder", "record", "branch"}:
            yield f"the worktree of {task['id']} is kept, and there is {sorted(left)} of it"
        elif status != "retained" and (left or not _cleared(task)):
            yield f"the worktree of {task['id']} is {status}, and there is {sorted(left)} of it"
        if status == "retained" and worktree["changed_files"] != ["read.me"]:
            yield f"the worktree of {task['id']} is kept for {worktree}"


ALWAYS: tuple[Check, ...] = (
    database_is_sound,
    acknowledged_is_durable,
    messages_have_one_place,
    pending_is_counted,
    claims_have_owners,
    turns_end_once,
    operators_are_answered_once,
    tools_run_once,
    effects_happen_once,
    commands_run_once,
    promoted_commands_are_tasks,
    tasks_end_once,
    children_belong_to_tasks,
    worktrees_have_owners,
    events_have_no_gaps,
    transcript_is_whole,
    rounds_are_counted_once,
    attempts_are_counted,
    timers_fire_once,
    sleeps_end_once,
    hints_are_kept,
    deliveries_are_counted,
    keyed_deeds_happen_once,
)

AT_REST: tuple[Check, ...] = (
    everything_is_settled,
    nobody_is_left_running,
    worktrees_are_cleared_or_kept,
    begun_calls_have_an_end,
    agents_went_through_all_turns,
)


def _gaps(r: Remains, rows: list[Row], newest: str, oldest: str | None) -> Iterator[str]:
    """A log runs from its first number to its counter. Only an archived agent's may begin later: retention took it."""
    logs = grouped(rows, "agent_id")
    for scope, counter in r.counters.items():
        numbers = [row["seq"] for row in logs[scope]]
        archived = scope in r.agents and _archived(r.agents[scope])
        first = counter[oldest] if archived and oldest else numbers[0] if archived and numbers else 1
        if numbers != list(range(first, counter[newest] + 1)) and (numbers or not archived):
            yield f"{scope} counts to {counter[newest]} from {first}, its numbers are {_short(numbers)}"


def _short(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) < 12 else f"{numbers[:3]}…{numbers[-3:]} ({len(numbers)})"


def _archived(agent: Row) -> bool:
    return bool(agent["registry_status"] == "archived")


def _may_have_stopped(r: Remains, agent_id: str) -> bool:
    """A stopped or archived agent is not woken, and a tick that it was due is not made up for."""
    return agent_id == STOPPED_AGENT or _archived(r.agents[agent_id])


def _tag_of(message: Row) -> str:
    """The tag of the deed that a message came from; follow-ups and ticks quote tags and are none of them."""
    envelope = message["envelope"]
    if envelope["kind"] == "operator_prompt":
        return str(envelope["body"]["text"]).split()[-1]
    return str(envelope["body"]["value"]["tag"]) if envelope["kind"] == "webhook_event" else ""


def _followups(r: Remains, subsystem: str) -> Iterator[Row]:
    for row in r.messages.values():
        envelope = row["envelope"]
        if envelope["kind"] == "internal_followup" and envelope["origin"]["subsystem"] == subsystem:
            yield row


def _mark(text: str) -> str:
    found = _MARK.search(text)
    return found[1] if found else text


def _command_of(task: Row) -> str:
    return str(task["record"]["recovery"]["spec"]["cmd"])


def _batch_is_done(call: Row) -> bool:
    record = call["record"]
    done = call["status"] == "completed" and not record.get("is_error")
    return bool(record["name"] == "ExecCommandBatch" and done)


def _worktree(task: Row) -> dict[str, Any]:
    found: dict[str, Any] = task["record"].get("detail", {}).get("worktree") or {}
    return {"cleanup_status": "pending", **found} if found else found


def _cleared(task: Row) -> bool:
    return _worktree(task)["cleanup_status"] in ("removed", "already_removed")


def _disposition(call: Row) -> str | None:
    """What the model was told of a command: completed, promoted_to_task, or nothing of the sort."""
    record = call["record"]
    if record["name"] != "ExecCommand" or call["status"] != "completed" or record.get("is_error"):
        return None
    told = loads(record["result"], dict).get("disposition")
    return str(told) if told else None


def _timer_of(message: Row) -> str | None:
    origin: dict[str, Any] = message["envelope"]["origin"]
    return origin.get("timer_id")


def _hints_of(message: Row) -> list[dict[str, Any]]:
    envelope = message["envelope"]
    if envelope["kind"] != "system_tick":
        return []
    hints: list[dict[str, Any]] = envelope["body"]["value"].get("wake_hints", [])
    return hints


def _hint_tag(hint: dict[str, Any]) -> str:
    return str(hint.get("source") or hint["reason"]).split()[-1]
