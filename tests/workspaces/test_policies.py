"""The policy says what holds and nothing more, and everything that acts on the machine passes one gate."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import msgspec
import pytest

from holon.core.codec import to_plain
from holon.core.policy import BackendChoice, ExecutionPolicy, ExecutionProfile, Guarantee
from holon.core.workspaces import WorkspaceRefused
from holon.workspaces.anchors import detect
from holon.workspaces.policies import (
    Action,
    Attacher,
    Chosen,
    ExecutionBackend,
    PolicyOptions,
    ToolDenied,
    choose,
    permit,
    permit_attachment,
    policy_for,
    profile_for,
)
from holon.workspaces.sandbox import SandboxProbe, probe
from tests.workspaces.projects import Project

HOST, SANDBOXED = ExecutionBackend.HOST_LOCAL, ExecutionBackend.SANDBOXED
WORKS = SandboxProbe(available=True, reason="bubblewrap 0.9.0 works", executable="/usr/bin/bwrap", version="0.9.0")
FAILS = SandboxProbe(available=False, reason="user namespaces are forbidden")


@pytest.mark.spec("RT-322")
@pytest.mark.parametrize("found", [None, WORKS, FAILS])
def test_on_the_host_nothing_is_said_to_be_confined(found: SandboxProbe | None) -> None:
    assert to_plain(policy_for(HOST, PolicyOptions(), found)) == {
        "backend": "host_local",
        "process_execution_exposed": True,
        "managed_worktree_supported": True,
        "resource_authority": {
            "message_ingress": "hard_enforced",
            "agent_state": "hard_enforced",
            "control_plane": "hard_enforced",
            "workspace_projection": "runtime_shaped",
            "process_execution": "not_enforced",
        },
        "process_execution": {
            "cwd_rooting": "runtime_shaped",
            "projection_rooting": "runtime_shaped",
            "path_confinement": "not_enforced",
            "write_confinement": "not_enforced",
            "network_confinement": "not_enforced",
            "secret_isolation": "not_enforced",
            "child_process_containment": "not_enforced",
        },
    }


def test_in_a_sandbox_that_works_what_the_kernel_does_is_hard() -> None:
    policy = policy_for(SANDBOXED, PolicyOptions(), WORKS)
    assert set(to_plain(policy.process_execution).values()) == {"hard_enforced"}
    assert set(to_plain(policy.resource_authority).values()) == {"hard_enforced"}
    assert policy.process_execution_exposed


def test_a_sandbox_with_the_network_says_that_the_network_is_not_confined() -> None:
    policy = policy_for(SANDBOXED, PolicyOptions(network=True), WORKS)
    said = to_plain(policy.process_execution)
    assert said.pop("network_confinement") == "not_enforced"
    assert set(said.values()) == {"hard_enforced"}


@pytest.mark.parametrize("found", [None, FAILS])
def test_a_sandbox_that_does_not_work_claims_nothing_and_runs_nothing(found: SandboxProbe | None) -> None:
    policy = policy_for(SANDBOXED, PolicyOptions(), found)
    assert not policy.process_execution_exposed
    assert Guarantee.HARD_ENFORCED not in msgspec.structs.asdict(policy.process_execution).values()
    with pytest.raises(ToolDenied, match="choose"):
        permit(Action.PROCESS, profile_for(SANDBOXED, PolicyOptions()), policy)


@pytest.mark.parametrize(
    ("choice", "found", "chosen"),
    [
        (BackendChoice.AUTO, WORKS, Chosen(SANDBOXED, "bubblewrap 0.9.0 works")),
        (BackendChoice.AUTO, FAILS, Chosen(HOST, "commands are not confined: user namespaces are forbidden")),
        (BackendChoice.HOST_LOCAL, WORKS, Chosen(HOST, "chosen: commands are not confined")),
        (BackendChoice.HOST_LOCAL, FAILS, Chosen(HOST, "chosen: commands are not confined")),
        (BackendChoice.SANDBOXED, WORKS, Chosen(SANDBOXED, "chosen")),
        (BackendChoice.SANDBOXED, FAILS, Chosen(SANDBOXED, "chosen, but user namespaces are forbidden")),
    ],
)
def test_an_agent_that_must_be_sandboxed_is_never_let_out(
    choice: BackendChoice, found: SandboxProbe, chosen: Chosen
) -> None:
    assert choose(choice, found) == chosen


def test_what_is_chosen_by_itself_here_is_what_the_probe_found() -> None:
    assert choose(BackendChoice.AUTO, probe()).backend is (SANDBOXED if probe().available else HOST)


@pytest.mark.spec("RT-323")
@pytest.mark.parametrize(
    ("options", "denied"),
    [
        (PolicyOptions(), set()),
        (PolicyOptions(processes=False), {Action.PROCESS, Action.BACKGROUND_TASK}),
        (PolicyOptions(background_tasks=False), {Action.BACKGROUND_TASK}),
        (PolicyOptions(worktrees=False), {Action.WORKTREE}),
        (PolicyOptions(processes=False, worktrees=False), set(Action)),
    ],
)
@pytest.mark.parametrize("backend", list(ExecutionBackend))
def test_what_is_switched_off_is_denied_at_the_gate_and_nothing_else_is(
    backend: ExecutionBackend, options: PolicyOptions, denied: set[Action]
) -> None:
    assert _denied(profile_for(backend, options), policy_for(backend, options, WORKS)) == denied


@pytest.mark.spec("RT-323")
def test_the_gate_needs_the_profile_and_the_policy_for_every_action() -> None:
    """Every combination: an action passes only if everything that concerns it is on, on both sides."""
    for processes, background, worktrees, exposed, supported in product([True, False], repeat=5):
        profile = ExecutionProfile(
            process_execution_exposed=processes,
            allow_background_tasks=background,
            supports_managed_worktrees=worktrees,
        )
        policy = ExecutionPolicy(process_execution_exposed=exposed, managed_worktree_supported=supported)
        allowed = {
            Action.PROCESS: processes and exposed,
            Action.BACKGROUND_TASK: processes and exposed and background,
            Action.WORKTREE: worktrees and supported,
        }
        assert _denied(profile, policy) == {action for action in Action if not allowed[action]}


def test_a_profile_of_another_backend_opens_nothing() -> None:
    profile = profile_for(HOST, PolicyOptions())
    assert _denied(profile, policy_for(SANDBOXED, PolicyOptions(), WORKS)) == set(Action)


def test_a_denial_says_what_is_missing_and_who_can_change_it() -> None:
    profile = ExecutionProfile()
    with pytest.raises(ToolDenied) as caught:
        permit(Action.WORKTREE, profile, ExecutionPolicy())
    assert (caught.value.code, caught.value.status) == ("execution_denied", 403)
    assert str(caught.value) == (
        "making a worktree is not allowed: this agent makes no worktrees:"
        " an operator changes the agent's execution settings"
    )


class TestAttaching:
    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in (
            "holon/state",
            "holon/agents/other",
            "holon/agents/main/work",
            "person/.ssh",
            "projects/mine",
            "elsewhere",
        ):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "projects" / "link").symlink_to(tmp_path / "elsewhere")
        monkeypatch.setenv("HOME", str(tmp_path / "person"))
        return tmp_path

    def _refused(
        self,
        place: Path,
        path: str,
        by: Attacher,
        backend: ExecutionBackend,
        roots: tuple[Path, ...] | None = None,
    ) -> bool:
        options = PolicyOptions(workspace_roots=roots)
        try:
            permit_attachment(
                detect(place / path),
                by,
                backend,
                options,
                agent_home=place / "holon" / "agents" / "main",
                holon_home=place / "holon",
            )
        except WorkspaceRefused as refused:
            return bool(refused.hint)
        return False

    @pytest.mark.parametrize("by", list(Attacher))
    @pytest.mark.parametrize("backend", list(ExecutionBackend))
    @pytest.mark.parametrize(
        "path",
        ["/", "/etc", "/tmp", "/usr/bin", ".", "person", "person/.ssh", "holon", "holon/state", "holon/agents/other"],
    )
    def test_nobody_attaches_a_private_or_a_system_place(
        self, place: Path, by: Attacher, backend: ExecutionBackend, path: str
    ) -> None:
        assert self._refused(place, path, by, backend, roots=(Path("/"),))

    @pytest.mark.parametrize("backend", list(ExecutionBackend))
    def test_what_lies_in_its_own_home_an_agent_may_attach(self, place: Path, backend: ExecutionBackend) -> None:
        assert not self._refused(place, "holon/agents/main/work", Attacher.AGENT, backend)

    def test_a_worktree_is_judged_by_its_repository_too(self, place: Path) -> None:
        project = Project.new(place / "elsewhere" / "shop")
        project.git("worktree", "add", "-q", "-b", "try", str(place / "projects" / "tree"))
        roots = (place / "projects",)
        assert self._refused(place, "projects/tree", Attacher.AGENT, SANDBOXED, roots=roots)
        assert not self._refused(place, "projects/tree", Attacher.OPERATOR, SANDBOXED, roots=roots)

    def test_an_agent_on_the_host_attaches_any_project(self, place: Path) -> None:
        assert not self._refused(place, "elsewhere", Attacher.AGENT, HOST)

    def test_a_sandboxed_agent_cannot_choose_what_it_may_write(self, place: Path) -> None:
        assert self._refused(place, "elsewhere", Attacher.AGENT, SANDBOXED)
        assert not self._refused(place, "elsewhere", Attacher.OPERATOR, SANDBOXED)

    @pytest.mark.parametrize("backend", list(ExecutionBackend))
    def test_an_agent_attaches_below_the_roots_that_it_was_given(self, place: Path, backend: ExecutionBackend) -> None:
        roots = (place / "projects",)
        assert not self._refused(place, "projects/mine", Attacher.AGENT, backend, roots=roots)
        assert self._refused(place, "elsewhere", Attacher.AGENT, backend, roots=roots)
        assert self._refused(place, "projects/link", Attacher.AGENT, backend, roots=roots)


def _denied(profile: ExecutionProfile, policy: ExecutionPolicy) -> set[Action]:
    denied = set()
    for action in Action:
        try:
            permit(action, profile, policy)
        except ToolDenied:
            denied.add(action)
    return denied


def test_the_page_says_what_the_policy_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "workspaces.md").read_text()
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| `(\w+)` \| `(\w+)`", page, flags=re.MULTILINE)
    said = {name: levels for names, *levels in rows for name in re.findall(r"\w+", names)}
    host = to_plain(policy_for(HOST, PolicyOptions()).process_execution)
    confined = to_plain(policy_for(SANDBOXED, PolicyOptions(), WORKS).process_execution)
    assert said == {name: [host[name], confined[name]] for name in host}
