"""Commands: what a runner of its own and a sandbox cost a short one, what a very loud one leaves, and how soon many are
found again.

Between two short commands lies a pause, as a model's round lies between two of an agent's; without any (`back_to_back`)
the next spare is still being made. The shell is the default one, a login bash, in a home without a profile.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks import homes
from benchmarks.measures import Measure, Result, Scale, middle
from benchmarks.progress import Progress
from holon.tasks.commands import CommandRunner
from holon.tasks.outputs import budget_chars
from holon.tasks.protocol import CommandStatus
from holon.tasks.running import RunningCommand
from holon.tasks.specs import CommandSpec, shell_argv
from holon.workspaces import cgroups
from holon.workspaces.sandbox import SandboxProbe, SandboxSpec, confine, probe

LIMIT_SPAWN = 2.0
#: What a sandbox may add to a command.
LIMIT_SANDBOX_MS = 10.0
LIMIT_REATTACH_S = 2.0
#: A runner that has relayed a gigabyte may be this much larger than one that has relayed nothing.
LIMIT_GROWTH_MB = 8.0
PAUSE_S = 0.05
MIB = 1_048_576


class Sizes(NamedTuple):
    #: Short commands of each shell; bytes of the loud one; commands that live when the daemon is killed.
    short: int
    loud_bytes: int
    live: int


SIZES = {
    Scale.QUICK: Sizes(2, 20 * MIB, 4),
    Scale.NORMAL: Sizes(60, 1_024 * MIB, 200),
    Scale.FULL: Sizes(300, 8_192 * MIB, 600),
}


def measure(scale: Scale, progress: Progress) -> Result:
    sizes = SIZES[scale]
    with homes.scratch() as home:
        found = homes.run(_measure(home, sizes, progress))
        reattached = homes.run(_reattach(home, sizes.live, progress))
    measures = [
        Measure(
            what="'true' in the default shell",
            unit="ms",
            ours=found.short["bash -lc"][0],
            baseline=found.short["bash -lc"][1],
            baseline_is="the same shell, spawned by this process and waited for",
            limit=LIMIT_SPAWN * found.short["bash -lc"][1],
            limit_is=f"{LIMIT_SPAWN:g} times the baseline",
        ),
        *_sandbox_measure(found),
        Measure(
            what=f"memory after {sizes.loud_bytes // MIB:,} MiB of output",
            unit="MB",
            ours=found.loud_mb,
            baseline=found.quiet_mb,
            baseline_is="a runner whose command says nothing",
            limit=found.quiet_mb + LIMIT_GROWTH_MB,
            limit_is=f"{LIMIT_GROWTH_MB:g} MB more",
        ),
        Measure(
            what=f"disk after {sizes.loud_bytes // MIB:,} MiB of output",
            unit="MiB",
            ours=found.kept_bytes / MIB,
            baseline=sizes.loud_bytes / MIB,
            baseline_is="what the command wrote",
            limit=8.01,
            limit_is="7 MiB of its beginning, 1 of its end",
        ),
        Measure(
            what=f"{sizes.live} live commands found again after SIGKILL",
            unit="s",
            ours=reattached.ours_s,
            baseline=reattached.bare_s,
            baseline_is="a bare connection to each of their sockets",
            limit=LIMIT_REATTACH_S,
            limit_is="from the start of the new runner",
        ),
    ]
    shells = {shell: {"ours_ms": round(a, 2), "bare_ms": round(b, 2)} for shell, (a, b) in found.short.items()}
    return Result(
        measures=measures,
        details={
            **sizes._asdict(),
            "shells": shells,
            "back_to_back_ms": round(found.back_to_back_ms, 2),
            "sandbox": probe().reason,
            **({name: round(value, 2) for name, value in found.sandboxed._asdict().items()} if found.sandboxed else {}),
            "loud_s": round(found.loud_s, 2),
            "loud_bare_s": round(found.loud_bare_s, 2),
            "preview_chars": found.preview_chars,
            "runner_private_mb": round(reattached.private_mb, 1),
            "start_all_s": round(reattached.start_s, 2),
        },
    )


class _Sandboxed(NamedTuple):
    confined_ms: float
    host_ms: float
    #: Of it, to make the sandbox's command line.
    prefix_ms: float
    #: Without joining control groups, for which the kernel may wait some milliseconds.
    ungrouped_ms: float


def _sandbox_measure(found: _Found) -> list[Measure]:
    """None where no sandbox can be made."""
    if found.sandboxed is None:
        return []
    return [
        Measure(
            what="'true' in the default shell, sandboxed",
            unit="ms",
            ours=found.sandboxed.confined_ms,
            baseline=found.sandboxed.host_ms,
            baseline_is="the same on the host, by the same runner",
            limit=found.sandboxed.host_ms + LIMIT_SANDBOX_MS,
            limit_is=f"{LIMIT_SANDBOX_MS:g} ms more",
        )
    ]


class _Found(NamedTuple):
    #: Shell -> ours and bare, in milliseconds.
    short: dict[str, tuple[float, float]]
    back_to_back_ms: float
    sandboxed: _Sandboxed | None
    quiet_mb: float
    loud_mb: float
    kept_bytes: int
    preview_chars: int
    loud_s: float
    loud_bare_s: float


async def _measure(home: Path, sizes: Sizes, progress: Progress) -> _Found:
    env = _environment(home)
    async with CommandRunner(home / "run") as runner:
        shop = _Shop(runner, home)
        await shop.run("true")
        short = {}
        for shell, login in (("bash", True), ("bash", False), ("sh", False)):
            argv = shell_argv(shell, login, env)
            progress.say(f"'true' in {' '.join(argv)}, {sizes.short} times")
            ours, bare = [], []
            for _ in range(sizes.short):
                await asyncio.sleep(PAUSE_S)
                ours.append(await _seconds(shop.run("true", shell=shell, login=login)))
                await asyncio.sleep(PAUSE_S)
                bare.append(_spawn([*argv, "true"], env))
            short[f"{shell} {argv[1]}"] = (middle(ours) * 1000, middle(bare) * 1000)
        sandboxed = await _confined(shop, home, sizes, progress) if probe().available else None
        hurried = [await _seconds(shop.run("true", shell="bash")) for _ in range(sizes.short)]

        progress.say(f"a command that prints {sizes.loud_bytes // MIB:,} MiB")
        loud = f"yes | head -c {sizes.loud_bytes}"
        quiet_mb = await shop.peak_mb("sleep 60", until_bytes=0)
        loud_mb = await shop.peak_mb(f"{loud}; sleep 60", until_bytes=sizes.loud_bytes)
        loud_s = await _seconds(shop.run(loud))
        status, folder, shown = shop.last
        assert status.stdout_bytes == sizes.loud_bytes
        return _Found(
            short=short,
            back_to_back_ms=middle(hurried) * 1000,
            sandboxed=sandboxed,
            quiet_mb=quiet_mb,
            loud_mb=loud_mb,
            kept_bytes=sum(file.stat().st_size for file in folder.iterdir()),
            preview_chars=shown,
            loud_s=loud_s,
            loud_bare_s=_spawn([*shell_argv("bash", True, env), loud], env),
        )


async def _confined(shop: _Shop, home: Path, sizes: Sizes, progress: Progress) -> _Sandboxed:
    """As an agent's commands are: its own home, a project, no network; the sandbox is described anew for each."""
    root, holon = home / "project", home / "holon"
    agent = holon / "agents" / "main"
    records = agent / "task-output"
    for folder in (root, records):
        folder.mkdir(parents=True)
    spec = SandboxSpec(
        root=root,
        cwd=root,
        env=_environment(home),
        clean=True,
        readable=(records,),
        agent_home=agent,
        holon_home=holon,
        group=f"bench-{os.getpid()}",
    )
    progress.say(f"'true' sandboxed, {sizes.short} times")
    prefixes: list[float] = []

    async def confined(found: SandboxProbe) -> None:
        began = time.perf_counter()
        cell = confine(spec, found)
        prefixes.append(time.perf_counter() - began)
        await shop.run(
            "true", shell="bash", workdir=root, argv_prefix=cell.prefix, limits=cell.limits, groups=cell.groups
        )

    inside, ungrouped, host = [], [], []
    for _ in range(sizes.short):
        await asyncio.sleep(PAUSE_S)
        inside.append(await _seconds(confined(probe())))
        await asyncio.sleep(PAUSE_S)
        host.append(await _seconds(shop.run("true", shell="bash")))
        await asyncio.sleep(PAUSE_S)
        ungrouped.append(await _seconds(confined(replace(probe(), groups=cgroups.NO_GROUPS))))
    cgroups.clear(probe().groups, spec.group)
    return _Sandboxed(*(middle(seconds) * 1000 for seconds in (inside, host, prefixes, ungrouped)))


class _Shop:
    """Commands with folders of their own."""

    def __init__(self, runner: CommandRunner, home: Path) -> None:
        self._runner, self._home, self._count = runner, home, 0
        self.last: tuple[CommandStatus, Path, int]

    async def start(self, cmd: str, **changes: Any) -> RunningCommand:
        self._count += 1
        return await self._runner.start(_spec(self._home, str(self._count), cmd, **changes))

    async def run(self, cmd: str, **changes: Any) -> None:
        """As a tool would: to the end, with what is shown of the output."""
        running = await self.start(cmd, **changes)
        status = await running.wait(homes.WAIT_S * 5)
        assert status
        assert status.exit_status == 0
        self.last = (status, running.folder, len(running.preview(budget_chars(None)).stdout))

    async def peak_mb(self, cmd: str, until_bytes: int) -> float:
        """The largest size that a runner had until its command had written so much."""
        running = await self.start(cmd)
        async with asyncio.timeout(homes.WAIT_S * 5):
            while running.preview(0).stdout_bytes < until_bytes:  # noqa: ASYNC110 - only the files tell
                await asyncio.sleep(0.1)
        lines = Path(f"/proc/{running.started.runner_pid}/status").read_text().splitlines()  # noqa: ASYNC240
        await running.stop(force=True)
        await running.wait(homes.WAIT_S)
        return next(int(line.split()[1]) / 1_000 for line in lines if line.startswith("VmHWM"))


class _Reattached(NamedTuple):
    ours_s: float
    bare_s: float
    start_s: float
    private_mb: float


async def _reattach(home: Path, count: int, progress: Progress) -> _Reattached:
    progress.say(f"{count} commands, and their daemon is killed")
    started = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.commands", str(home), str(count)]
    daemon = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert daemon.stdout
    assert await daemon.stdout.readline() == b"ready\n", "the stand-in ended before all commands ran"
    start_s = time.perf_counter() - started
    os.kill(daemon.pid, signal.SIGKILL)
    await daemon.wait()
    folders = [home / "commands" / f"live-{n}" for n in range(count)]

    began = time.perf_counter()
    async with CommandRunner(home / "run") as runner:
        found = await asyncio.gather(*(runner.attach(folder) for folder in folders))
        ours_s = time.perf_counter() - began
        live = [each for each in found if isinstance(each, RunningCommand)]
        private_mb = middle([_private_mb(each.started.runner_pid) for each in live])
        bare_s = _connect_all(folders)
        (home / "go").touch()
        ends = [await each.wait(homes.WAIT_S) for each in live]
    exits = [status.exit_status for status in ends if status]
    ran = Counter((home / "ran").read_text().split())
    if exits != [n % 200 for n in range(count)] or ran != Counter(str(n) for n in range(count)):
        raise RuntimeError(f"of {count} commands {len(live)} were found alive, {len(exits)} ended, {len(ran)} ran")
    return _Reattached(ours_s, bare_s, start_s, private_mb)


async def _live(home: Path, count: int) -> None:
    """The daemon that is killed."""
    async with CommandRunner(home / "run") as runner:
        await asyncio.gather(
            *(
                runner.start(
                    _spec(
                        home,
                        f"live-{n}",
                        f"echo {n} >> ran; while [ ! -e go ]; do sleep 1; done; exit {n % 200}",
                        shell="sh",
                    )
                )
                for n in range(count)
            )
        )
        print("ready", flush=True)
        await asyncio.Event().wait()


def _spec(home: Path, name: str, cmd: str, **changes: Any) -> CommandSpec:
    given = {"workdir": home, "env": _environment(home), **changes}
    return CommandSpec(cmd=cmd, folder=home / "commands" / name, **given)


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}


async def _seconds(work: Any) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


def _spawn(argv: list[str], env: dict[str, str]) -> float:
    """The same shell without us: its output is read, and thrown away."""
    started = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT) as process:
        assert process.stdout
        while process.stdout.read1(65_536):  # type: ignore[attr-defined]
            pass
        process.wait()
    return time.perf_counter() - started


def _connect_all(folders: list[Path]) -> float:
    here, started = os.getcwd(), time.perf_counter()
    try:
        for folder in folders:
            os.chdir(folder)
            with socket.socket(socket.AF_UNIX) as bare:
                bare.connect("control")
                bare.recv(4_096)
    finally:
        os.chdir(here)
    return time.perf_counter() - started


def _private_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1_000 for line in lines if line.startswith("Private_Dirty"))


if __name__ == "__main__":
    homes.run(_live(Path(sys.argv[1]), int(sys.argv[2])))
