"""Nothing gets out of an execution root, by whatever name."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path, PurePosixPath

import pytest

from holon.core.errors import AgentError
from holon.workspaces import patches
from holon.workspaces.roots import ExecutionRoot, RootViolation
from tests.workspaces.trees import grown, patched

SECRET = b"the secret that nobody may see\n"

#: `{root}` and `{outside}` are absolute paths of folders that are neighbours.
ESCAPES = [
    # upward
    "..",
    "../",
    "../outside",
    "../outside/secret.txt",
    "../outside/new.txt",
    "./../outside/secret.txt",
    "sub/../../outside/secret.txt",
    "sub/./.././../outside/secret.txt",
    "sub//..//..//outside//secret.txt",
    "sub/deep/../../../outside/secret.txt",
    "../../../../../../../../etc/passwd",
    "../root-evil/file.txt",
    "../root/../outside/secret.txt",
    "missing/../../outside/secret.txt",
    "missing/../file.txt",
    "~/../../outside/secret.txt",
    # absolute
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "/../etc/passwd",
    "/etc/../etc/passwd",
    "{outside}",
    "{outside}/secret.txt",
    "{outside}/new.txt",
    "/{outside}/secret.txt",
    "{root}/../outside/secret.txt",
    "{root}/sub/../../outside/secret.txt",
    "{root}-evil/file.txt",
    "{root}x",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/dev/null",
    "/dev/stdin",
    "/dev/fd/0",
    "/dev/shm/holon-escape",
    # links
    "link_out",
    "link_out/secret.txt",
    "link_out/new.txt",
    "link_out/../outside/secret.txt",
    "{root}/link_out/secret.txt",
    "file_out",
    "dangling_out",
    "dangling_folder/new.txt",
    "sub/link_up/outside/secret.txt",
    "sub/link_up/../etc/passwd",
    "chain/secret.txt",
    "link_slash/etc/passwd",
    "link_slash{outside}/secret.txt",
    "link_deep/../../../outside/secret.txt",
    "loop",
    "loop/file.txt",
    "link_dev",
    # special files
    "pipe",
    "sub/../pipe",
    "{root}/pipe",
    "socket",
    "link_pipe",
    # characters
    "",
    "file.txt\0",
    "\0",
    "sub/\0/file.txt",
    "../outside/secret.txt\0.txt",
    "\ud800.txt",
    "caf\udce9.txt",
    # unicode that some file systems turn into dots and slashes, or leave out
    "‥/outside/secret.txt",
    "․․/outside/secret.txt",
    "．．/outside/secret.txt",
    "．./outside/secret.txt",
    "..／outside／secret.txt",
    "sub/‥/‥/outside/secret.txt",
    ".\u200b./outside/secret.txt",
    "\ufeff../outside/secret.txt",
    "..\u00ad/outside/secret.txt",
    ".\u2060.\u2060/outside/secret.txt",
    # size
    "x" * 300,
    "sub/" + "é" * 200,
    "sub/" * 2_000 + "file.txt",
]

#: Each way in which a patch can name a file, in both forms.
ATTEMPTS = {
    "freeform add": "*** Begin Patch\n*** Add File: {path}\n+new\n*** End Patch\n",
    "freeform update": "*** Begin Patch\n*** Update File: {path}\n-the secret that nobody may see\n+x\n*** End Patch\n",
    "freeform delete": "*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n",
    "freeform move out": "*** Begin Patch\n*** Update File: file.txt\n*** Move to: {path}\n*** End Patch\n",
    "freeform move in": "*** Begin Patch\n*** Update File: {path}\n*** Move to: mine.txt\n*** End Patch\n",
    "unified add": "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n",
    "unified modify": "--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-the secret that nobody may see\n+x\n",
    "unified delete": "--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-the secret that nobody may see\n",
    "unified copy": "diff --git a/x b/y\nsimilarity index 100%\ncopy from {path}\ncopy to mine.txt\n",
    "unified move": "diff --git a/x b/y\nsimilarity index 100%\nrename from file.txt\nrename to {path}\n",
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[ExecutionRoot, Path]:
    """A root full of traps, and the neighbour that they lead to."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub" / "deep").mkdir(parents=True)
    outside.mkdir()
    (tmp_path / "root-evil").mkdir()
    (tmp_path / "root-evil" / "file.txt").write_bytes(SECRET)
    (outside / "secret.txt").write_bytes(SECRET)
    (root / "file.txt").write_text("mine\n")
    for name, target in {
        "link_out": str(outside),
        "file_out": "../outside/secret.txt",
        "dangling_out": "../outside/new.txt",
        "dangling_folder": str(outside / "not-there"),
        "sub/link_up": "../..",
        "chain": "chain2",
        "chain2": "sub/../link_out",
        "link_slash": "/",
        "link_deep": "sub/deep",
        "loop": "loop2",
        "loop2": "loop",
        "link_dev": "/dev/null",
        "link_pipe": "pipe",
        "link_in": "sub",
    }.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(root)  # the names of sockets must be short
        made.bind("socket")
        os.chdir(here)
    return ExecutionRoot(root), outside


def filled(escape: str, root: ExecutionRoot, outside: Path) -> str:
    return escape.replace("{root}", str(root.path)).replace("{outside}", str(outside))


def test_there_are_at_least_sixty_escapes():
    assert len(set(ESCAPES)) == len(ESCAPES) >= 60


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: ascii(escape[:40]))
def test_an_escape_is_refused_and_says_what_to_do(places, escape):
    root, outside = places
    given = filled(escape, root, outside)
    with pytest.raises(RootViolation) as caught:
        root.resolve(given, field="workdir")
    error = caught.value
    assert error.code == "execution_root_violation"
    assert error.details["field"] == "workdir"
    assert error.details["root"] == str(root.path)
    assert len(error.details["given"]) <= 201
    assert str(root.path) in (error.hint or "")
    assert "secret that" not in str(error)


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: ascii(escape[:40]))
def test_no_patch_escapes(places, escape, tmp_path):
    root, outside = places
    before = grown(tmp_path)
    # So that a read would show: the time of the last access is older than that of the last change.
    os.utime(outside / "secret.txt", ns=(1_000_000_000, 2_000_000_000))
    for name, attempt in ATTEMPTS.items():
        with pytest.raises(AgentError) as caught:
            patched(attempt.replace("{path}", filled(escape, root, outside)), root, tmp_path / "journal")
        assert isinstance(caught.value, RootViolation | patches.InvalidPatch), name
        assert "secret that" not in str(caught.value), name
    assert (outside / "secret.txt").stat().st_atime_ns == 1_000_000_000
    assert grown(tmp_path) == before


@pytest.mark.parametrize(
    ("given", "leads_to"),
    [
        ("file.txt", "file.txt"),
        ("./sub//./deep/", "sub/deep"),
        ("sub/../file.txt", "file.txt"),
        (".", ""),
        ("{root}", ""),
        ("{root}/sub/new.txt", "sub/new.txt"),
        ("not/there/yet.txt", "not/there/yet.txt"),
        ("link_in/deep/new.txt", "sub/deep/new.txt"),
        ("link_deep/../file.txt", "sub/file.txt"),
        ("../root/file.txt", "file.txt"),
        ("link_slash{root}/file.txt", "file.txt"),
        ("sub/link_up/root/file.txt", "file.txt"),
        ("...", "..."),
        ("..file", "..file"),
        ("~", "~"),
        ("caf\u00e9/na\u00efve \u2026.txt", "caf\u00e9/na\u00efve \u2026.txt"),
        ("..\\..\\windows", "..\\..\\windows"),
    ],
)
def test_a_path_inside_is_where_its_links_lead(places, given, leads_to):
    root, outside = places
    assert root.resolve(filled(given, root, outside)) == root.path / leads_to


def test_an_entry_is_located_without_following_it(places):
    root, _ = places
    assert root.locate("link_in") == PurePosixPath("link_in")
    assert root.locate("link_in/new.txt") == PurePosixPath("sub/new.txt")
    assert root.locate("sub/..") == PurePosixPath()
    with pytest.raises(RootViolation):
        root.locate("file_out")


def test_the_root_may_be_named_by_a_link(places, tmp_path):
    root, _ = places
    (tmp_path / "alias").symlink_to(root.path)
    alias = ExecutionRoot(tmp_path / "alias")
    assert alias.path == root.path
    assert alias.resolve(f"{tmp_path}/alias/file.txt") == root.path / "file.txt"


@pytest.mark.parametrize("path", ["not-there", "root/file.txt", "root/loop", "nul\0"])
def test_a_root_must_be_a_folder(places, tmp_path, path):
    with pytest.raises(RootViolation, match=r"is gone|is not a folder"):
        ExecutionRoot(f"{tmp_path}/{path}")


def test_a_root_that_vanished_or_was_replaced_is_refused(places, tmp_path):
    root, _ = places
    root.path.rename(tmp_path / "elsewhere")
    with pytest.raises(RootViolation, match="is gone"):
        root.resolve("file.txt")
    root.path.mkdir()
    with pytest.raises(RootViolation, match="is gone"):
        root.resolve("file.txt")
    root.path.rmdir()
    root.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RootViolation, match="is gone"), root.folder(PurePosixPath()):
        pass


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_link_that_is_put_in_the_way_later_leads_nowhere(places, depth):
    root, outside = places
    path = PurePosixPath("a/b/c")
    (root.path / path).mkdir(parents=True)
    (outside / "b" / "c").mkdir(parents=True)
    swapped = root.path.joinpath(*path.parts[:depth])
    swapped.rename(root.path / "moved")
    swapped.symlink_to([outside, outside / "b", outside / "b" / "c"][depth - 1])
    with pytest.raises(RootViolation, match="became a link"), root.folder(path):
        pass


def test_a_patch_that_was_checked_does_not_follow_a_link_put_there_afterwards(places, tmp_path):
    root, outside = places
    (root.path / "sub" / "a.txt").write_text("old\n")
    (outside / "a.txt").write_text("old\n")
    plan = patches.check(patches.parse("--- a/sub/a.txt\n+++ b/sub/a.txt\n@@ -1 +1 @@\n-old\n+new\n"), root)
    (root.path / "sub").rename(root.path / "gone")
    (root.path / "sub").symlink_to(outside)
    before = grown(tmp_path)
    with pytest.raises(RootViolation):
        patches.apply(plan, tmp_path / "journal")
    (tmp_path / "journal" / "lock").unlink()
    assert grown(tmp_path) == before


ALIAS = """
import os, sys
from pathlib import Path
from holon.workspaces.roots import ExecutionRoot
from holon.workspaces import patches
root = ExecutionRoot(sys.argv[1])
assert root.resolve(sys.argv[2] + "/file.txt") == root.path / "file.txt"
text = "*** Begin Patch\\n*** Update File: one/a.txt\\n-a\\n+b\\n*** Update File: two/a.txt\\n-a\\n+c\\n*** End Patch"
print(*[problem.kind for problem in patches.check(patches.parse(text), root).problems])
"""


def test_a_folder_is_known_by_itself_and_not_by_its_spelling(tmp_path):
    """Two names of one folder, as a file system that ignores case has them; here made by mounting it twice."""
    for name in ("root/one", "root/two", "ROOT"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root" / "file.txt").touch()
    (tmp_path / "root" / "one" / "a.txt").write_text("a\n")
    mount = f"mount --bind {tmp_path}/root {tmp_path}/ROOT && mount --bind {tmp_path}/root/one {tmp_path}/root/two"
    tried = (
        subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True) if shutil.which("unshare") else None
    )
    if tried is None or tried.returncode:
        pytest.skip("needs a mount namespace")
    script = f"{mount} && exec {sys.executable} -c '{textwrap.dedent(ALIAS)}' {tmp_path}/root {tmp_path}/ROOT"
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=30)
    assert (ran.stdout.strip(), ran.stderr) == ("same_file", "")
