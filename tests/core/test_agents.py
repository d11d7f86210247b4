"""Agent state and the words for where an agent stands, as they are written and read."""

from __future__ import annotations

import pytest

from holon.core.agents import AgentState, AgentStatus
from holon.core.closures import (
    ClosureDecision,
    ClosureOutcome,
    ContinuationResolution,
    RuntimePosture,
    WaitingReason,
    WorkSignal,
)
from holon.core.codec import InvalidShape, dumps, from_plain, loads, to_plain
from tests.core.samples import full

STATUSES = {"booting", "awake_idle", "awake_running", "awaiting_task", "asleep", "paused", "stopped"}


@pytest.mark.spec("RT-070")
def test_a_status_is_one_of_seven_and_no_other_is_taken():
    assert set(AgentStatus) == STATUSES
    for status in STATUSES:
        assert from_plain({"id": "main", "status": status}, AgentState).status == status
    for status in ("running", "idle", "", "Asleep"):
        with pytest.raises(InvalidShape, match="status"):
            from_plain({"id": "main", "status": status}, AgentState)


@pytest.mark.parametrize(
    ("status", "awake", "at_rest"),
    [
        ("booting", True, False),
        ("awake_idle", True, True),
        ("awake_running", True, False),
        ("awaiting_task", True, False),
        ("asleep", False, True),
        ("paused", False, False),
        ("stopped", False, False),
    ],
)
def test_which_statuses_are_awake_and_which_are_free_to_be_woken(status: str, awake: bool, at_rest: bool):
    assert (AgentStatus(status).awake, AgentStatus(status).at_rest) == (awake, at_rest)


def test_a_closure_comes_back_equal():
    decision = ClosureDecision(
        outcome=ClosureOutcome.CONTINUABLE,
        runtime_posture=RuntimePosture.AWAKE,
        waiting_reason=WaitingReason.AWAITING_TIMER,
        work_signal=WorkSignal(work_item_id="work_1", status="queued", reactivation_mode="activate_queued"),
        evidence=["work_1 is runnable"],
    )
    assert loads(dumps(decision), ClosureDecision) == decision


def test_a_continuation_is_written_with_the_texts_own_field_name():
    resolution = full(ContinuationResolution)
    plain = to_plain(resolution)
    assert plain["class"] == resolution.class_
    assert "class_" not in plain
    assert from_plain(plain, ContinuationResolution) == resolution
