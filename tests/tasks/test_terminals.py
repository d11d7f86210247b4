"""Commands that have a terminal, and commands that are spoken to."""

from __future__ import annotations

import signal

import pytest

from holon.tasks.failures import InputRefused
from holon.tasks.protocol import Outcome, StopReason
from tests.tasks.workshop import Workshop, ended, eventually

ARE_TERMINALS = "for n in 0 1 2; do test -t $n && echo yes || echo no; done"


async def test_without_a_terminal_nothing_is_one(workshop: Workshop):
    _, preview = await workshop.run(ARE_TERMINALS)
    assert preview.stdout == "no\nno\nno\n"


@pytest.mark.spec("RT-263")
async def test_a_command_that_wants_a_terminal_and_has_none_fails_once_and_is_not_run_again(workshop: Workshop):
    status, _ = await workshop.run("echo ran >> ran; tty -s || exit 9")
    assert status.exit_status == 9
    assert (workshop.root / "ran").read_text() == "ran\n"


@pytest.mark.spec("RT-297")
async def test_a_terminal_has_a_size_and_one_transcript(workshop: Workshop):
    status, preview = await workshop.run(
        f"{ARE_TERMINALS}; stty size; echo $TERM; echo err >&2; exit 4", tty=True, rows=33, columns=101
    )
    assert (status.exit_status, status.stderr_bytes, preview.stderr) == (4, 0, "")
    assert preview.stdout == "yes\nyes\nyes\n33 101\nxterm-256color\nerr\n"
    (folder,) = (workshop.root / "commands").iterdir()
    assert not (folder / "stderr.log").exists()


async def test_a_terminal_is_the_controlling_one(workshop: Workshop):
    status, preview = await workshop.run("echo through > /dev/tty", tty=True)
    assert (status.exit_status, preview.stdout) == (0, "through\n")


async def test_what_is_typed_arrives_and_is_echoed(workshop: Workshop):
    running = await workshop.start("read -r word; echo got $word", tty=True, accepts_input=True)
    assert await running.send("wörd\n") == 6
    assert (await ended(running)).exit_status == 0
    assert running.preview(1_000).stdout == "wörd\ngot wörd\n"


async def test_an_interrupt_that_is_typed_is_one(workshop: Workshop):
    running = await workshop.start("echo ready; exec sleep 60", tty=True, accepts_input=True)
    await eventually(lambda: "ready" in running.preview(1_000).stdout)
    await running.send("\x03")
    status = await ended(running)
    assert (status.outcome, status.signal, status.stopped) == (Outcome.SIGNALED, signal.SIGINT, None)


async def test_an_interactive_shell_that_does_not_hear_sigterm_ends_when_it_is_asked(workshop: Workshop):
    running = await workshop.start("exec bash --norc -i", tty=True, accepts_input=True, grace_s=20.0)
    await running.send("echo rea''dy\n")
    await eventually(lambda: "ready\n" in running.preview(10_000).stdout)
    assert await running.stop()
    status = await ended(running)
    assert (status.stopped, status.forced) == (StopReason.REQUEST, False)


async def test_standard_input_takes_text_until_its_end(workshop: Workshop):
    running = await workshop.start("cat; echo over", accepts_input=True)
    assert await running.send("one\n") == 4
    await eventually(lambda: running.preview(1_000).stdout == "one\n")
    assert await running.send("two\n", end=True) == 4
    assert (await ended(running)).exit_status == 0
    assert running.preview(1_000).stdout == "one\ntwo\nover\n"


async def test_much_input_waits_until_it_is_read(workshop: Workshop):
    text = "x" * 700_000
    running = await workshop.start("sleep 0.2; wc -c", accepts_input=True)
    assert await running.send(text, end=True) == len(text)
    await ended(running)
    assert running.preview(1_000).stdout.strip() == "700000"


async def test_input_that_nobody_reads_is_refused_whole(workshop: Workshop):
    running = await workshop.start("sleep 60", accepts_input=True)
    assert await running.send("x" * 1_000_000) == 1_000_000
    with pytest.raises(InputRefused, match="can wait until it reads them"):
        await running.send("x" * 1_000_000)
    assert await running.send("y") == 1


async def test_a_command_that_takes_no_input_refuses_it(workshop: Workshop):
    running = await workshop.start("sleep 60")
    with pytest.raises(InputRefused, match="without accepts_input") as caught:
        await running.send("hello")
    assert caught.value.code == "input_refused"


async def test_a_command_that_has_closed_its_input_or_ended_refuses_it(workshop: Workshop):
    running = await workshop.start("cat; sleep 60", accepts_input=True)
    await running.send("", end=True)
    with pytest.raises(InputRefused, match="closed"):
        await running.send("more")
    await running.stop(force=True)
    await ended(running)
    with pytest.raises(InputRefused):
        await running.send("more")
