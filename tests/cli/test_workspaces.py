"""`holon workspace backend` and `holon workspace use --id`, on a real daemon."""

from __future__ import annotations

from pathlib import Path

from holon.workspaces.sandbox import probe
from tests.cli.conftest import Cli
from tests.workspaces.projects import Project


def test_a_backend_is_chosen_for_one_agent_and_said_in_words(daemon: Cli) -> None:
    daemon.json("agent", "create", "careful")
    before = daemon("workspace", "backend", "--agent", "careful").out
    assert before == (
        "commands of agent careful run on host_local "
        "(by execution.backend host_local; chosen: commands are not confined)\n"
    )
    chosen = daemon.json("workspace", "backend", "auto", "--agent", "careful")["backend"]
    assert (chosen["source"], chosen["choice"]) == ("agent_override", "auto")
    assert chosen["effective"] == ("sandboxed" if probe().available else "host_local")
    shown = daemon("agent", "status", "careful").out
    place = "sandboxed without network" if probe().available else "host_local"
    assert f"{place} (by its own choice auto;" in shown
    assert f"{place} (by its own choice auto;" in daemon("workspace", "show", "--agent", "careful").out
    assert daemon.json("workspace", "backend", "--agent", "main")["backend"]["source"] == "runtime_default"
    back = daemon.json("workspace", "backend", "default", "--agent", "careful")["backend"]
    assert (back["source"], back["effective"]) == ("runtime_default", "host_local")


def test_the_network_of_a_sandbox_is_chosen_for_one_agent(daemon: Cli) -> None:
    daemon.json("agent", "create", "fetcher")
    online = daemon("workspace", "backend", "auto", "--network", "on", "--agent", "fetcher").out
    assert ("sandboxed with the network" if probe().available else "host_local") in online
    alone = daemon.json("workspace", "backend", "--network", "default", "--agent", "fetcher")["backend"]
    assert (alone["choice"], alone["network"]) == ("auto", not probe().available)
    wrong = daemon("workspace", "backend", "--network", "maybe", "--json")
    assert (wrong.code, wrong.problem["code"]) == (2, "invalid_input")
    assert "on, off or default" in wrong.err


def test_a_backend_that_is_none_is_refused(daemon: Cli) -> None:
    done = daemon("workspace", "backend", "docker", "--json")
    assert (done.code, done.problem["code"]) == (2, "invalid_input")


def test_home_is_used_by_its_id(daemon: Cli, tmp_path: Path) -> None:
    daemon.json("agent", "create", "homely")
    used = daemon.json("workspace", "use", str(tmp_path), "--agent", "homely")
    home = daemon.json("workspace", "use", "--id", "agent_home", "--agent", "homely")
    assert home["active"]["workspace_id"] == "agent_home"
    left = daemon.json("workspace", "detach", used["active"]["workspace_id"], "--agent", "homely")
    assert left["attached_workspaces"] == []


def test_a_folder_that_vanished_is_said(daemon: Cli, tmp_path: Path) -> None:
    daemon.json("agent", "create", "unlucky")
    (tmp_path / "gone").mkdir()
    daemon.json("workspace", "use", str(tmp_path / "gone"), "--agent", "unlucky")
    (tmp_path / "gone").rmdir()
    shown = "".join(daemon("workspace", "show", "--agent", "unlucky").out.split())
    assert f"theexecutionroot'{tmp_path}/gone'isgone;theagentisbackinitshome" in shown


def test_a_worktree_that_was_left_is_listed_and_removed(daemon: Cli, tmp_path: Path) -> None:
    project = Project.new(tmp_path / "shop")
    daemon.json("agent", "create", "tidy")
    daemon.json("workspace", "use", str(project.folder), "--agent", "tidy")
    assert "no worktrees stand" in daemon("workspace", "worktrees", "--agent", "tidy").out
    tree = tmp_path / ".holon-worktrees-shop" / "holon-tidy-work"
    project.git("worktree", "add", "-q", "-b", "holon/tidy/work", str(tree))
    (tree / "new.txt").write_text("exists nowhere else")
    shown = daemon("workspace", "worktrees", "--agent", "tidy").out
    assert "holon/tidy/work" in shown
    assert "left behind" in shown
    kept = daemon("workspace", "remove-worktree", str(tree), "--agent", "tidy")
    assert (kept.code, "--discard" in kept.err) == (2, True)
    gone = daemon.json("workspace", "remove-worktree", str(tree), "--discard", "--agent", "tidy")
    assert gone["cleanup_status"] == "removed"
    assert not tree.exists()
    assert daemon.json("workspace", "worktrees", "--agent", "tidy")["worktrees"] == []
