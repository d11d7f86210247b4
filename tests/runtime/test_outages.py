"""A disk that is full while agents work: the runtime says so, keeps what must be written, and goes on when it can."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from holon.core.errors import StoreUnavailable
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    OperatorOrigin,
    QueueStatus,
    TextBody,
)
from holon.runtime import outages
from holon.runtime.admission import Admission, admit
from holon.runtime.outages import pause_s
from tests.disks import fill, small
from tests.runtime.conftest import Opens
from tests.runtime.living import Living, soon


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    with small(tmp_path / "disk", "size=8m") as place:
        yield place


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log has from warnings on, by its first words."""
    words = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [" ".join(text.split()[:5]) for text in words]


REFUSED, AGAIN = "the disk did not take", "the disk takes writes again,"


async def refused(life: Living) -> None:
    """Until somebody has met the full disk."""
    await soon(lambda: life.host.outages.waiting > 0)


async def test_a_turn_that_meets_a_full_disk_is_shown_as_a_problem_and_ends_when_there_is_room(
    small_disk: Path, living: Opens, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "FIRST_S", 0.05)
    monkeypatch.setattr(outages, "LOOK_S", 0.05)
    life = await living(home=small_disk / "home")
    assert (await life.host.runtime_status()).healthy
    life.model.hold()
    message_id = await life.say("hello")
    await life.model.asked()
    fill(small_disk)
    life.model.release()
    await refused(life)
    status = await life.host.runtime_status()
    assert not status.healthy
    assert status.problem is not None
    assert "the disk did not take the write" in status.problem
    assert "free some space on the disk of HOLON_HOME" in status.problem
    assert "1 agent waits for it and goes on by itself" in status.problem
    reason = (await life.host.views.summary("main")).scheduling_posture.reason
    assert reason.startswith("a turn is in progress; the disk did not take the write")
    assert life.host.dispatcher.live["main"].doing == "waiting for the disk, which takes no writes"
    with pytest.raises(StoreUnavailable, match="free some space"):
        await life.say("not now")
    assert not (await life.host.runtime_status()).healthy, "a look at the status ends nothing"
    await soon(lambda: life.host.outages.refusals > 4)
    assert [line for line in said(caplog) if line.startswith(REFUSED)] == [REFUSED], "once for each outage"
    (small_disk / "filler").unlink()
    settled = await life.settled(message_id)
    assert settled.queue is not None
    assert settled.queue.status is QueueStatus.PROCESSED
    assert len(life.model.requests) == 1, "what the model said was kept, and not paid for twice"
    status = await life.host.runtime_status()
    assert (status.healthy, status.problem) == (True, None)
    assert (await life.at_rest()).scheduling_posture.reason == "nothing to do"
    assert [line for line in said(caplog) if line.startswith("the disk")] == [REFUSED, AGAIN]


async def test_an_agent_that_cannot_begin_goes_on_as_soon_as_there_is_room(
    small_disk: Path, living: Opens, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "FIRST_S", 3_600)  # only room can end this wait
    monkeypatch.setattr(outages, "AT_MOST_S", 3_600)
    monkeypatch.setattr(outages, "LOOK_S", 0.05)
    life = await living(home=small_disk / "home")
    admission = Admission(
        agent_id="main",
        kind=MessageKind.OPERATOR_PROMPT,
        origin=OperatorOrigin(),
        body=TextBody(text="hello"),
        surface=DeliverySurface.CLI_PROMPT,
        context=AdmissionContext.LOCAL_PROCESS,
    )
    limits = life.host.settings.limits
    admitted = await life.host.store.write(lambda tx: admit(tx, "main", admission, limits))
    fill(small_disk)
    life.host.dispatcher.kick("main")
    await refused(life)
    life.host.dispatcher.kick("main")
    assert not (await life.host.runtime_status()).healthy
    (small_disk / "filler").unlink()
    await life.settled(admitted.message_id)
    assert (await life.host.runtime_status()).healthy
    assert [line for line in said(caplog) if line.startswith("the disk")] == [REFUSED, AGAIN]


async def test_a_refused_write_that_nobody_repeats_is_a_problem_only_until_there_is_room(
    small_disk: Path, living: Opens
) -> None:
    life = await living(home=small_disk / "home")
    fill(small_disk)
    with pytest.raises(StoreUnavailable):
        await life.say("hello")
    status = await life.host.runtime_status()
    assert not status.healthy
    assert status.problem is not None
    assert "waits" not in status.problem
    (small_disk / "filler").unlink()
    assert (await life.host.runtime_status()).healthy


def test_each_refusal_doubles_the_pause_up_to_half_a_minute() -> None:
    assert [pause_s(times) for times in (1, 2, 3, 4, 5, 6, 7, 1_000)] == [1, 2, 4, 8, 16, 30, 30, 30]
