"""What a command gets, what it gives back, and what is said when it cannot be started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from holon.core.errors import AgentError, DeveloperError
from holon.tasks.failures import CommandSpawnFailed, FolderTaken, ShellMissing, WorkdirMissing, WorkdirUnusable
from holon.tasks.outputs import OutputPreview
from holon.tasks.protocol import Outcome
from holon.tasks.specs import CommandSpec, shell_argv
from tests.tasks.workshop import ENV, Workshop, alive, ended, eventually

#: 32 and 33 belong to the C library: no program can change them, and what it spawns has them ignored.
LIBC_SIGNALS = 0b11 << 31


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
async def test_the_exit_status_comes_back(workshop: Workshop, code: int):
    status, _ = await workshop.run(f"exit {code}")
    assert (status.outcome, status.exit_status, status.signal) == (Outcome.EXITED, code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_command_that_a_signal_ended_says_which(workshop: Workshop, number: signal.Signals):
    status, _ = await workshop.run(f"kill -{int(number)} $$")
    assert (status.outcome, status.exit_status, status.signal) == (Outcome.SIGNALED, None, number)


async def test_a_command_that_nobody_stopped_says_so_and_its_times_are_in_order(workshop: Workshop):
    status, _ = await workshop.run("true")
    assert (status.stopped, status.forced, status.leftovers, status.survivors) == (None, False, 0, 0)
    assert status.started_at_ms is not None
    assert status.ended_at_ms is not None
    assert 0 <= status.ended_at_ms - status.started_at_ms < 30_000


async def test_the_two_streams_are_kept_apart_and_together_in_order(workshop: Workshop):
    status, preview = await workshop.run("echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three")
    assert preview == OutputPreview(
        stdout="one\nthree\n", stderr="two\n", truncated=False, stdout_bytes=10, stderr_bytes=4
    )
    assert (status.stdout_bytes, status.stderr_bytes) == (10, 4)
    (folder,) = (workshop.root / "commands").iterdir()
    assert (folder / "output.log").read_text() == "one\ntwo\nthree\n"
    assert (folder / "stdout.log").read_text() == "one\nthree\n"
    assert (folder / "stderr.log").read_text() == "two\n"


async def test_as_long_as_only_stdout_is_used_there_is_one_file(workshop: Workshop):
    await workshop.run("echo one")
    (folder,) = (workshop.root / "commands").iterdir()
    assert sorted(file.name for file in folder.iterdir()) == ["output.log", "started.json", "status.json"]


async def test_what_only_stderr_got_is_no_stdout(workshop: Workshop):
    _, preview = await workshop.run("echo oops >&2")
    assert (preview.stdout, preview.stderr) == ("", "oops\n")


async def test_a_command_without_input_reads_an_end(workshop: Workshop):
    status, preview = await workshop.run("cat; readlink /proc/self/fd/0")
    assert (status.exit_status, preview.stdout) == (0, "/dev/null\n")


def environment_of(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_a_command_gets_the_environment_that_it_is_given_and_nothing_else(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOLON_SECRET", "do-not-tell")
    running = await workshop.start("cat /proc/$$/environ; sleep 60", env={**ENV, "GIVEN": "ünï"})
    await eventually(lambda: running.preview(10_000).stdout)
    found = (running.folder / "output.log").read_bytes().decode()
    assert sorted(found.strip("\0").split("\0")) == sorted([*(f"{k}={v}" for k, v in ENV.items()), "GIVEN=ünï"])
    assert [environment_of(pid) for pid in (running.started.runner_pid, workshop.runner.zygote_pid)] == [b"", b""]


async def test_a_command_inherits_no_descriptor_no_ignored_signal_and_no_session(workshop: Workshop):
    cmd = "ps -o sid= -p $$; ls /proc/$$/fd; exec grep -E '^Sig(Blk|Ign)' /proc/self/status"
    running = await workshop.start(cmd)
    await ended(running)
    session, *descriptors, blocked, ignored = running.preview(1_000).stdout.split("\n")[:-1]
    assert int(session) == running.started.runner_pid != os.getsid(0)
    assert descriptors == ["0", "1", "2"]
    assert [int(line.split()[1], 16) & ~LIBC_SIGNALS for line in (blocked, ignored)] == [0, 0]


async def test_a_command_runs_where_it_is_told(workshop: Workshop, tmp_path: Path):
    place = tmp_path / "a place"
    place.mkdir()
    _, preview = await workshop.run("pwd", workdir=place)
    assert preview.stdout == f"{place}\n"


async def test_a_login_shell_reads_the_profile_and_another_does_not(workshop: Workshop, tmp_path: Path):
    (tmp_path / ".profile").write_text("export FROM_PROFILE=yes\n")
    env = {**ENV, "HOME": str(tmp_path)}
    for login, expected in ((True, "yes\n"), (False, "\n")):
        _, preview = await workshop.run("echo $FROM_PROFILE", shell="bash", login=login, env=env)
        assert preview.stdout == expected


def test_the_default_shell_is_a_login_bash_and_without_one_it_is_sh(tmp_path: Path):
    assert shell_argv(None, True, ENV) == ["/usr/bin/bash", "-lc"]
    (tmp_path / "sh").symlink_to("/bin/sh")
    assert shell_argv(None, True, {"PATH": str(tmp_path)}) == [str(tmp_path / "sh"), "-c"]


async def test_what_is_put_before_the_shell_runs_it(workshop: Workshop):
    _, preview = await workshop.run("nice", argv_prefix=("nice", "-n", "7"))
    assert preview.stdout == "7\n"


async def test_the_kernel_holds_a_command_to_its_limits(workshop: Workshop):
    limits = {"RLIMIT_NOFILE": 40, "RLIMIT_CORE": 0, "RLIMIT_DATA": 1 << 28}
    raised = "; ".join(f"ulimit -{name} unlimited 2>/dev/null || ulimit -H -{name}" for name in "ncd")
    _, preview = await workshop.run(f"setpriv --bounding-set=-all --inh-caps=-all sh -c '{raised}'", limits=limits)
    assert preview.stdout == "40\n0\n262144\n"


@pytest.mark.spec("RT-250")
async def test_a_workdir_that_is_not_there_is_named(workshop: Workshop, tmp_path: Path):
    with pytest.raises(WorkdirMissing) as caught:
        await workshop.start("true", workdir=tmp_path / "gone")
    assert caught.value.code == "workdir_missing"
    assert caught.value.message == f"the workdir '{tmp_path / 'gone'}' does not exist"
    assert caught.value.details == {"step": "workdir", "errno": "ENOENT", "workdir": str(tmp_path / "gone")}
    assert caught.value.hint


@pytest.mark.spec("RT-250")
async def test_a_workdir_that_is_a_file_is_named(workshop: Workshop, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(WorkdirUnusable, match="is not a directory"):
        await workshop.start("true", workdir=tmp_path / "file")


@pytest.mark.spec("RT-250")
@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"shell": "no-such-shell"}, ShellMissing, "no-such-shell"),
        ({"argv_prefix": ("no-such-sandbox",)}, CommandSpawnFailed, "'no-such-sandbox' could not be started"),
        ({"cmd": "echo a\0b"}, CommandSpawnFailed, "NUL"),
        ({"cmd": "#" * 200_000}, CommandSpawnFailed, "too long"),
        ({"env": {**ENV, "A=B": "c"}}, CommandSpawnFailed, "illegal environment variable name"),
    ],
)
async def test_a_command_that_cannot_be_spawned_says_why(
    workshop: Workshop, changes: dict[str, object], error: type[AgentError], words: str
):
    with pytest.raises(error, match=words) as caught:
        await workshop.start(**{"cmd": "true", **changes})  # type: ignore[arg-type]
    assert caught.value.hint


async def test_after_a_command_that_could_not_start_the_next_one_does(workshop: Workshop, tmp_path: Path):
    for _ in range(5):
        with pytest.raises(WorkdirMissing):
            await workshop.start("true", workdir=tmp_path / "gone")
    assert (await workshop.run("exit 5"))[0].exit_status == 5


async def test_a_folder_belongs_to_one_command_for_ever(workshop: Workshop):
    spec = workshop.spec("echo first")
    await ended(await workshop.runner.start(spec))
    with pytest.raises(FolderTaken):
        await workshop.runner.start(spec)
    assert (spec.folder / "output.log").read_text() == "first\n"


async def test_two_commands_that_want_one_folder_at_once_do_not_both_run(workshop: Workshop):
    spec = workshop.spec("echo ran >> ran; sleep 0.2")
    first = await workshop.runner.start(spec)
    with pytest.raises(DeveloperError):
        await workshop.runner.start(spec)
    assert (await ended(first)).exit_status == 0
    assert (workshop.root / "ran").read_text() == "ran\n"


async def test_a_folder_may_lie_on_another_disk_and_at_the_end_of_a_long_path(workshop: Workshop):
    place = Path(f"/dev/shm/holon-{os.getpid()}") / ("x" * 120)
    if os.stat("/dev/shm").st_dev == os.stat(workshop.root).st_dev:
        pytest.skip("/dev/shm is on the same disk")
    try:
        running = await workshop.start("echo here; sleep 60", folder=place / "command")
        await eventually(lambda: (place / "command" / "control").exists())
        found = await workshop.runner.attach(place / "command")
        assert await running.stop(force=True)
        await ended(running)
        assert type(found) is type(running)
        assert (place / "command" / "output.log").read_text() == "here\n"
    finally:
        shutil.rmtree(place.parent, ignore_errors=True)


async def test_fifty_commands_at_once_all_end_and_none_sees_another(workshop: Workshop):
    found = await asyncio.gather(*(workshop.run(f"echo {n}; exit {n}") for n in range(50)))
    assert [(status.exit_status, preview.stdout) for status, preview in found] == [(n, f"{n}\n") for n in range(50)]


async def test_waiting_has_an_end_and_no_influence(workshop: Workshop):
    running = await workshop.start("sleep 0.3; echo done")
    assert await running.wait(0.01) is None
    assert running.status is None
    assert alive(running.pid)
    assert (await ended(running)).exit_status == 0
    assert running.status == await running.wait(0)


def test_two_commands_are_the_same_when_everything_that_matters_is(tmp_path: Path):
    plain = {"cmd": "make", "workdir": tmp_path, "shell": "sh", "login": False, "tty": False}
    others = {"cmd": "make x", "workdir": tmp_path / "x", "shell": "bash", "login": True, "tty": True}

    def digest(**changes: object) -> str:
        return CommandSpec(**{"folder": tmp_path / "f", "env": {}, **plain, **changes}).digest()  # type: ignore[arg-type]

    assert digest() == digest(folder=tmp_path / "g", env={"A": "b"}, time_limit_s=3.0)
    assert len({digest(), *(digest(**{name: value}) for name, value in others.items())}) == 6
