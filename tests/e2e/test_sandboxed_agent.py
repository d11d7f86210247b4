"""A sandboxed agent from end to end: a real host, real turns, real bubblewrap; and the same things on the host."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from holon.core.codec import to_plain
from holon.core.policy import BackendChoice, Guarantee
from holon.workspaces import sandbox
from holon.workspaces.git import git
from tests.cli.conftest import Cli, a_home, end, until
from tests.runtime.living import Living, soon
from tests.workspaces.cells import needs_sandbox
from tests.workspaces.projects import Project

TOKEN, KEY = "control-token-of-this-test", "sk-ant-REDACTED"
#: The model calls the tool that it is told to, and then says what the tool said.
SCRIPT = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "over: {input}"}]
  - when: {pattern: '^run (?P<cmd>.*)'}
    rounds:
      - {tools: [{name: ExecCommand, input: {cmd: '{cmd}', login: false}}]}
      - text: '{result}'
  - when: {pattern: '^in (?P<dir>\\S+) run (?P<cmd>.*)'}
    rounds:
      - {tools: [{name: ExecCommand, input: {cmd: '{cmd}', workdir: '{dir}', login: false}}]}
      - text: '{result}'
  - when: {pattern: '^two from (?P<dir>\\S+)'}
    rounds:
      - {tools: [{name: ExecCommandBatch, input: {items: [
          {cmd: pwd, workdir: '{dir}', login: false}, {cmd: pwd, login: false}]}}]}
      - text: '{result}'
  - when: {pattern: '^use (?P<path>.*)'}
    rounds:
      - {tools: [{name: UseWorkspace, input: {path: '{path}'}}]}
      - text: '{result}'
  - when: {pattern: '^isolate (?P<id>.*)'}
    rounds:
      - {tools: [{name: UseWorkspace, input: {workspace_id: '{id}', mode: isolated}}]}
      - text: '{result}'
  - when: {pattern: '^long (?P<cmd>.*)'}
    rounds:
      - {tools: [{name: ExecCommand, input: {cmd: '{cmd}', login: false, yield_time_ms: 1}}]}
      - text: '{result}'
  - when: {pattern: '^send somebody to run (?P<cmd>.*)'}
    rounds:
      - {tools: [{name: SpawnAgent, input: {initial_message: 'run {cmd}'}}]}
      - text: '{result}'
  - when: {pattern: '^mend'}
    rounds:
      - {tools: [{name: ApplyPatch, input: {patch:
          "--- a/file-0.txt\\n+++ b/file-0.txt\\n@@ -1 +1 @@\\n-line 0\\n+line nought\\n"}}]}
      - text: '{result}'
"""
SANDBOXED, HOST = BackendChoice.SANDBOXED, BackendChoice.HOST_LOCAL


class Scene:
    """A Holon in one folder, a project in another, and a secret in a third."""

    def __init__(self, folder: Path, life: Living, project: Project) -> None:
        self.folder, self.life, self.project = folder, life, project
        self.home = folder / "holon"
        self.root, self.agent_home = project.folder, self.home / "agents" / "main"
        self.secret = folder / "elsewhere" / "secret.txt"

    async def hear(self, text: str) -> str:
        """What the tool said that this makes the agent call."""
        await self.life.ask(text)
        return (await self.life.briefs())[-1].text

    async def told(self, text: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await self.hear(text)).split("\n")[0])
        return answer

    async def run(self, cmd: str) -> str:
        """What the command printed. It must have been run, whatever came of it."""
        answer = await self.told(f"run {cmd}")
        assert answer["ok"], answer
        return str(answer["stdout_preview"] + answer["stderr_preview"])


class Sets(Protocol):
    async def __call__(self, backend: BackendChoice = SANDBOXED, **settings: Any) -> Scene: ...


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sets]:
    """Sets a scene; the operator has let the agent into the project."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    opened: list[Living] = []

    async def set_(backend: BackendChoice = SANDBOXED, **settings: Any) -> Scene:
        project = Project.new(tmp_path / "project")
        (project.folder / "sub").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "secret.txt").write_text("a secret")
        life = await Living.open(tmp_path / "holon", SCRIPT, backend=backend, control_token=TOKEN, **settings)
        opened.append(life)
        await life.at_rest(None)
        await life.host.housing.enter("main", project.folder, surface="cli")
        return Scene(tmp_path, life, project)

    yield set_
    for life in opened:
        await life.close()


@needs_sandbox
async def test_a_host_that_closes_leaves_no_control_group(scene: Sets) -> None:
    here = await scene()
    bases = [base for base in sandbox.probe().groups if base]
    await here.run("true")
    made = [base / f"holon-{here.life.host.confinement.group_of('main')}" for base in bases]
    assert all(path.is_dir() for path in made)
    await soon(lambda: not any((path / "cgroup.procs").read_text() for path in made))
    await here.life.close()
    assert not any(path.exists() for path in made)


@needs_sandbox
@pytest.mark.spec("RT-320")
async def test_each_command_starts_in_its_own_workdir(scene: Sets) -> None:
    here = await scene()
    assert await here.run("pwd; ls") == f"{here.root}\nfile-0.txt\nsub\n"
    assert (await here.told("in sub run pwd"))["stdout_preview"] == f"{here.root}/sub\n"
    batch = json.loads((await here.hear("two from sub")).split("\n")[0])
    assert [item["stdout_preview"] for item in batch["items"]] == [f"{here.root}/sub\n", f"{here.root}\n"]
    refused = await here.told("in .. run pwd")
    assert (refused["ok"], refused["kind"]) == (False, "execution_root_violation")


@needs_sandbox
async def test_it_writes_in_the_root_and_in_its_home_and_nowhere_else(scene: Sets) -> None:
    here = await scene()
    await here.run(f"echo one > made.txt; echo two > {here.agent_home}/notes/made.txt")
    assert (here.root / "made.txt").read_text() == "one\n"
    assert (here.agent_home / "notes" / "made.txt").read_text() == "two\n"
    outside = (here.secret, here.folder / "new", here.home / "new", here.home / "state" / "new", Path("/etc/new"))
    for target in outside:  # below /tmp it may write, but what it writes is its own /tmp
        await here.run(f"mkdir -p {target.parent}; echo changed > {target}")
    assert here.secret.read_text() == "a secret"
    assert [path for path in outside if path.exists()] == [here.secret]
    assert "Read-only" in await here.run("echo changed > /etc/new")
    key = (here.home / "state" / "secret.key").read_bytes()
    await here.run(f"rm -rf {here.folder} {here.home} / 2>/dev/null; true")
    assert here.secret.read_text() == "a secret"
    assert (here.home / "state" / "secret.key").read_bytes() == key
    assert not (here.root / "made.txt").exists(), "what is its own it can remove"


@needs_sandbox
async def test_neither_the_runtimes_state_nor_another_agent_nor_a_stranger_can_be_read(scene: Sets) -> None:
    here = await scene()
    await here.life.host.agents.create("other", surface="cli")
    await here.life.at_rest("other")
    (here.home / "agents" / "other" / "memory" / "self.md").write_text("of another")
    places = [
        here.home / "state" / "secret.key",
        here.home / "state" / "holon.sqlite3",
        here.home / "agents" / "other" / "memory" / "self.md",
        here.secret,
        Path("/etc/shadow"),
        Path(f"/proc/{os.getpid()}/environ"),
    ]
    for path in places:
        assert path.exists(), "a test of nothing"
        assert "No such file" in await here.run(f"cat {path}")
    assert await here.run(f"ls {here.home}") == "agents\n"
    assert await here.run(f"ls {here.home}/agents") == "main\n"


@needs_sandbox
async def test_no_secret_is_in_the_environment(scene: Sets) -> None:
    here = await scene()
    said = await here.run("env; tr '\\\\0' '\\\\n' < /proc/1/environ; cat /proc/*/cmdline | tr '\\\\0' '\\\\n'")
    assert "HOLON_AGENT_ID=main" in said
    assert "HOME=/tmp/home" in said
    assert TOKEN not in said
    assert KEY not in said
    assert "HOLON_HOME" not in said
    assert "HOLON_CONTROL" not in said


@contextmanager
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@needs_sandbox
@pytest.mark.parametrize("allowed", [False, True])
async def test_there_is_no_network_unless_the_operator_allows_it(scene: Sets, allowed: bool) -> None:
    here = await scene(network=allowed)
    with listener() as port:
        said = await here.run(f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo connected")
    assert ("connected" in said) is allowed
    policy = (await here.life.host.views.summary("main")).execution.policy
    assert policy.process_execution.network_confinement == ("not_enforced" if allowed else "hard_enforced")


@needs_sandbox
@pytest.mark.spec("RT-319")
async def test_the_snapshot_says_what_the_kernel_enforces_and_who_chose_it(scene: Sets) -> None:
    here = await scene()
    found = (await here.life.host.views.summary("main")).execution
    assert set(to_plain(found.policy.process_execution).values()) == {"hard_enforced"}
    assert found.profile.backend == found.policy.backend == "sandboxed"
    assert to_plain(found.backend) == {
        "source": "runtime_default",
        "choice": "sandboxed",
        "effective": "sandboxed",
        "reason": "chosen",
        "network": False,
    }


@needs_sandbox
@pytest.mark.spec("RT-321", "RT-333", "RT-340")
async def test_it_commits_in_the_main_tree_and_in_a_worktree_of_its_own(scene: Sets) -> None:
    here = await scene()
    commit = "git -c user.name=a -c user.email=a@b.c commit -qam"
    assert (await here.told("mend"))["ok"]
    assert await here.run(f"{commit} first && git log --format=%s -1") == "first\n"
    assert here.project.git("log", "--format=%s", "-1") == "first\n"

    workspace_id = (await here.life.state()).active_workspace_id
    isolated = await here.told(f"isolate {workspace_id}")
    assert isolated["ok"], isolated
    tree = Path(isolated["execution_root"])
    assert (await here.run("pwd")).strip() == str(tree) != str(here.root)
    assert await here.run(f"echo two >> file-0.txt; {commit} second && git log --format=%s -1") == "second\n"
    assert here.project.git("log", "--format=%s", "-1", folder=tree) == "second\n"
    assert here.project.git("log", "--format=%s", "-1") == "first\n", "the project itself is where it was"
    assert "Read-only" in await here.run(f"echo x > {here.root}/.git/config")
    assert not (here.root / "x").exists()
    assert "No such file" in await here.run(f"cat {here.root}/file-0.txt"), "it was kept apart from the main tree"


@needs_sandbox
@pytest.mark.parametrize(
    "attempt",
    [
        "ln -s {secret} way && cat way",
        "ln -s {home}/state way && cat way/secret.key && echo a secret",
        "cat /proc/1/root{secret}",
        "cat /proc/self/root{secret}",
        "cd /proc/self/cwd/../elsewhere && cat secret.txt",
        "unshare -Ur sh -c 'mount --bind / /mnt && cat /mnt{secret}'",
        "nsenter -t 1 -m cat {secret}",
        "chroot / cat {secret}",
        "mount -t tmpfs none {root} && echo a secret",
        "mknod disk b 8 0 && echo a secret",
        "kill -0 {pid} && echo a secret",
        "git config --local core.fsmonitor evil && echo a secret",
        "echo evil > .git/hooks/post-commit && echo a secret",
        "mv .git/hooks .git/elsewhere && echo a secret",
        "echo evil > /proc/sys/kernel/core_pattern && echo a secret",
        "echo '{{}}' > {agent_home}/task-output/started.json && echo a secret",
        "mkdir {agent_home}/task-output/new && echo a secret",
        "for task in {agent_home}/task-output/*; do echo '{{}}' > $task/status.json && echo a secret; done",
        "[ -e {home}/run ] && echo a secret",
    ],
)
async def test_a_way_out_is_none(scene: Sets, attempt: str) -> None:
    """Each prints `a secret` if it works."""
    here = await scene()
    command = attempt.format(
        secret=here.secret, home=here.home, root=here.root, agent_home=here.agent_home, pid=os.getpid()
    )
    assert "a secret" not in await here.run(command)


@needs_sandbox
async def test_it_does_not_choose_what_it_may_write(scene: Sets) -> None:
    here = await scene()
    for path in (here.secret.parent, here.home, here.home / "state", here.folder, Path("/etc"), Path("/")):
        refused = await here.told(f"use {path}")
        assert (refused["ok"], refused["kind"]) == (False, "workspace_refused"), path
    assert (await here.told(f"use {here.root}/sub"))["ok"], "the operator attached it"
    (here.agent_home / "work" / "own").mkdir()
    assert (await here.told(f"use {here.agent_home}/work/own"))["ok"], "what is in its home is its own"
    assert await here.run("pwd; echo x > y; cat y") == f"{here.agent_home}/work/own\nx\n"


@needs_sandbox
async def test_below_the_folders_that_the_operator_named_it_attaches_by_itself(scene: Sets, tmp_path: Path) -> None:
    (tmp_path / "free" / "one").mkdir(parents=True)
    here = await scene(workspace_roots=[str(tmp_path / "free")])
    assert (await here.told(f"use {tmp_path}/free/one"))["ok"]
    refused = await here.told(f"use {here.secret.parent}")
    assert f"a folder below: {tmp_path}/free" in refused["hint"]


@needs_sandbox
async def test_what_the_operator_made_readable_is_readable_only(scene: Sets, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tool").write_text("sharp")
    here = await scene(readable=[str(tmp_path / "tools"), str(tmp_path / "nowhere")])
    assert await here.run(f"cat {tmp_path}/tools/tool") == "sharp"
    assert "Read-only" in await here.run(f"echo blunt > {tmp_path}/tools/tool")


@needs_sandbox
async def test_one_agent_may_reach_the_network_and_whom_it_sends_too(scene: Sets) -> None:
    here = await scene()
    confinement = here.life.host.confinement
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        call = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert "reached" not in await here.run(call)
        await confinement.set("main", network=True, surface="cli")
        assert await here.run(call) == "reached\n"
        await here.life.ask(f"send somebody to run {call}")

        async def over() -> str | None:
            return next((brief.text for brief in await here.life.briefs() if brief.text.startswith("over:")), None)

        assert "reached" in await here.life.until(over)
        assert (await confinement.set("main", network=None, surface="cli")).backend.network is False
        assert "reached" not in await here.run(call)


@needs_sandbox
async def test_memory_processes_and_time_are_the_operators_to_set(scene: Sets) -> None:
    here = await scene(memory_mb=64, processes=20, time_limit_s=1)
    if sandbox.probe().process_limit is Guarantee.HARD_ENFORCED:
        assert "fork" in await here.run("for i in $(seq 40); do sleep 0.5 & done; wait")
    answer = await here.told("run head -c 200M /dev/zero | tail -c 150M | wc -c")
    assert "157286400" not in answer["stdout_preview"]
    answer = await here.told("run sleep 60")
    assert answer["exit_status"] != 0
    assert "time limit" in str(answer)


@needs_sandbox
async def test_whom_it_sends_is_confined_as_it_is(scene: Sets) -> None:
    """Also where only this agent is confined, and its children would not be by the runtime's setting."""
    here = await scene(HOST)
    await here.life.host.confinement.set("main", SANDBOXED, surface="cli")
    await here.life.ask(f"send somebody to run cat {here.secret} {here.home}/state/secret.key")

    async def over() -> str | None:
        return next((brief.text for brief in await here.life.briefs() if brief.text.startswith("over:")), None)

    said = await here.life.until(over)
    assert "No such file" in said
    assert "a secret" not in said


@needs_sandbox
async def test_an_agents_own_choice_holds_after_a_restart_and_for_nobody_else(scene: Sets) -> None:
    here = await scene(HOST)
    assert await here.run(f"cat {here.secret}") == "a secret"
    outcome = await here.life.host.confinement.set("main", SANDBOXED, surface="cli")
    assert (outcome.changed, outcome.backend.source, outcome.backend.effective) == (True, "agent_override", "sandboxed")
    assert "No such file" in await here.run(f"cat {here.secret}")
    assert (await here.life.host.confinement.set("main", SANDBOXED, surface="cli")).changed is False

    await here.life.close()
    here.life = await Living.open(here.home, SCRIPT, backend=HOST)
    try:
        assert "No such file" in await here.run(f"cat {here.secret}")
        await here.life.host.agents.create("other", surface="cli")
        assert (await here.life.host.confinement.get("other")).backend.effective == "host_local"
        back = await here.life.host.confinement.set("main", None, surface="cli")
        assert (back.backend.source, back.backend.effective) == ("runtime_default", "host_local")
        assert await here.run(f"cat {here.secret}") == "a secret"
        told = [event.payload for event in await here.life.events("agent_backend_set")]
        assert [(each["before"], each["choice"], each["surface"]) for each in told] == [
            ("host_local", "sandboxed", "cli"),
            ("sandboxed", "host_local", "cli"),
        ]
    finally:
        await here.life.close()


@pytest.mark.spec("RT-322")
async def test_on_the_host_commands_run_as_the_operator_does_and_the_policy_says_so(scene: Sets) -> None:
    here = await scene(HOST)
    assert await here.run(f"cat {here.secret}") == "a secret"
    await here.run(f"echo new > {here.folder}/new")
    assert (here.folder / "new").read_text() == "new\n"
    said = await here.run("env")
    assert TOKEN not in said
    assert KEY not in said
    found = (await here.life.host.views.summary("main")).execution
    promised = to_plain(found.policy.process_execution)
    assert promised == {
        "cwd_rooting": "runtime_shaped",
        "projection_rooting": "runtime_shaped",
        "path_confinement": "not_enforced",
        "write_confinement": "not_enforced",
        "network_confinement": "not_enforced",
        "secret_isolation": "not_enforced",
        "child_process_containment": "not_enforced",
    }
    assert found.backend is not None
    assert (found.backend.effective, found.backend.reason) == ("host_local", "chosen: commands are not confined")


@needs_sandbox
@pytest.mark.spec("RT-281", "RT-282")
def test_a_sandboxed_task_outlives_a_killed_daemon_and_its_result_comes_once() -> None:
    with a_home() as cli:
        (cli.home / "scripts" / "hands.yaml").write_text(SCRIPT)
        able = Cli(cli.home, {"HOLON_MODEL": "scripted/hands", "HOLON_EXECUTION_BACKEND": "sandboxed"})
        go = cli.home / "agents" / "main" / "go"
        process = able.start("serve", "--listen", "127.0.0.1:0", "--json")
        assert process.stdout
        assert process.stdout.readline()
        able.json("prompt", f"long until [ -e {go} ]; do sleep 0.05; done; cat {cli.home}/config.json; echo survived")
        (task,) = able.json("task", "list")
        end(process, signal.SIGKILL)
        process = able.start("serve", "--listen", "127.0.0.1:0", "--json")
        try:
            assert process.stdout
            assert process.stdout.readline()
            assert able.json("task", "status", task["id"])["status"] == "running"
            go.touch()
            until(lambda: "survived" in json.dumps(able.json("tail", "--limit", "50")), "the task's result")
            admitted = [e for e in able.json("events", "--limit", "500")["events"] if e["type"] == "message_admitted"]
            assert sum("task_result" in json.dumps(event) for event in admitted) == 1
            assert able.json("task", "status", task["id"])["status"] == "completed"
        finally:
            end(process)


@needs_sandbox
async def test_ending_a_sandboxed_task_ends_all_that_it_started(scene: Sets) -> None:
    here = await scene()
    answer = await here.told("long (setsid sleep 4711 &) ; echo ready > ready; sleep 4711")
    task_id = answer["task_handle"]["task_id"]
    async with asyncio.timeout(10):
        while not (here.root / "ready").exists():  # noqa: ASYNC110 - only the file tells
            await asyncio.sleep(0.01)
    await here.life.host.commands.stop(task_id, force=True)

    async def over() -> bool | None:
        return (await here.life.tasks())[0].status == "cancelled" or None

    await here.life.until(over)
    assert b"4711" not in b"".join(command_lines())


def command_lines() -> list[bytes]:
    """Of every process that lives."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(Path("/proc", name, "cmdline").read_bytes())
            except OSError:
                continue
    return found


@needs_sandbox
async def test_a_root_that_becomes_a_link_is_lost_and_opens_nothing(scene: Sets) -> None:
    here = await scene()
    work = here.agent_home / "work"
    await here.run(f"mkdir -p {work}/x")
    assert (await here.told(f"use {work}/x"))["ok"]
    await here.run(f"cd /; mv {work} {work}2; mkdir {work}; ln -s {here.secret.parent} {work}/x")
    for attempt in ("run cat secret.txt; echo changed > secret.txt", "mend"):
        answer = await here.told(attempt)
        assert (answer["ok"], "a secret" in str(answer)) == (False, False)
    assert here.secret.read_text() == "a secret"


@needs_sandbox
@pytest.mark.parametrize("condition", ["gitdir:**/worktrees/**", "onbranch:holon/**"])
async def test_the_runtimes_own_git_runs_nothing_of_the_agents_outside(scene: Sets, condition: str) -> None:
    """The filter is configured only where the worktree is, which is where files are checked out."""
    here = await scene()
    repo = here.agent_home / "repo"
    evil = f"id > {here.folder}/outside; id > {here.agent_home}/inside; cat"
    await here.run(
        f"git init -q -b main {repo}; cd {repo}; echo '* filter=evil' > .gitattributes; git add .; "
        "git -c user.name=a -c user.email=a@example.org commit -qm one; "
        f"""printf '[filter "evil"]\\n\\tsmudge = "{evil}"\\n\\tclean = "{evil}"\\n' > .git/more; """
        f"""printf '[includeIf "{condition}"]\\n\\tpath = more\\n' >> .git/config"""
    )
    used = await here.told(f"use {repo}")
    assert (await here.told(f"isolate {used['workspace_id']}"))["ok"]
    assert (await here.run("cat .gitattributes")).strip() == "* filter=evil"
    assert not (here.folder / "outside").exists()
    assert not (here.agent_home / "inside").exists()


@needs_sandbox
async def test_a_filter_that_comes_while_git_looks_runs_in_the_cell(scene: Sets) -> None:
    """As a command of the agent's could do it in the background: the look at the configuration sees nothing yet."""
    here = await scene(processes=77)
    repo = here.agent_home / "repo"
    await here.run(
        f"git init -q -b main {repo}; cd {repo}; echo '* filter=evil' > .gitattributes; git add .; "
        "git -c user.name=a -c user.email=a@example.org commit -qm one; "
        f"git config filter.evil.smudge 'id > {here.folder}/outside; ulimit -n > {here.agent_home}/inside; cat'"
    )
    groups = [base / f"holon-{here.life.host.confinement.group_of('main')}" for base in sandbox.probe().groups if base]
    before = {path: path.read_text() for group in groups for path in group.glob("*.max")}
    cell = await here.life.host.store.read(lambda tx: here.life.host.confinement.git_cell(tx, "main"))
    assert cell is not None
    made = here.agent_home / ".holon-worktrees-repo" / "x"
    with cell.around(repo / ".git", made.parent, repo):
        await git(repo, "worktree", "add", "--quiet", "-b", "x", str(made))  # without switching anything off
    assert (here.agent_home / "inside").read_text() == "4096\n"
    assert not (here.folder / "outside").exists()
    assert {path: path.read_text() for path in before} == before, "the limits of the agent's commands are as they were"


@needs_sandbox
async def test_what_git_would_obey_cannot_be_made_or_does_not_stay(scene: Sets) -> None:
    here = await scene()
    here.project.git("config", "extensions.worktreeConfig", "true")
    evil = f"[core]\\n\\tfsmonitor = touch {here.folder}/outside\\n"
    config = (here.root / ".git" / "config").stat().st_mtime_ns
    assert "Read-only" in await here.run(f"printf '{evil}' > .git/config.worktree")
    await here.run(f"git init -q {here.agent_home}/evil; echo {here.agent_home}/evil/.git > .git/commondir")

    async def gone() -> bool:
        return not (here.root / ".git" / "commondir").exists()

    await here.life.until(gone)
    here.project.git("status", "--short")
    assert (here.root / ".git" / "config").stat().st_mtime_ns == config
    assert not (here.folder / "outside").exists()
    (told,) = [event.payload for event in await here.life.events("repository_tampered")]
    assert (here.root / ".git" / told["moved_to"]).read_text().strip() == f"{here.agent_home}/evil/.git"
    assert (await here.run("git status --short")) == ""
