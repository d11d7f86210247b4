"""Installing: from a folder, an archive or git, with provenance; nothing gets out, nothing is run."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holon.core.errors import Conflict, HolonError, InvalidInput, NotFound
from holon.skills.installing import PROVENANCE, install, provenance_of, uninstall
from holon.skills.scaffold import scaffold
from tests.skills.shelves import put_skill

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = "---\nname: deploy\ndescription: d\n---\nbody\n"


def left(root: Path) -> list[str]:
    return sorted(os.listdir(root)) if root.exists() else []


def test_a_folder_is_copied_with_its_provenance(tmp_path: Path) -> None:
    source = put_skill(tmp_path / "from", "deploy", references={"references/a.md": "a", "scripts/go.sh": "echo"})
    (source / "scripts/go.sh").chmod(0o4755)

    done = install(str(source), tmp_path / "to", NOW)

    assert (done.name, done.provenance.kind, done.provenance.files, done.replaced) == ("deploy", "directory", 3, False)
    assert provenance_of(tmp_path / "to/deploy") == done.provenance
    assert (tmp_path / "to/deploy/references/a.md").read_text() == "a"
    assert (tmp_path / "to/deploy/scripts/go.sh").stat().st_mode & 0o7777 == 0o755
    assert left(tmp_path / "to") == ["deploy"], "nothing is left of the work"


def test_a_name_is_taken_once_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    source = put_skill(tmp_path / "from", "deploy", body="old")
    install(str(source), tmp_path / "to", NOW)
    (source / "SKILL.md").write_text(TEXT)

    with pytest.raises(Conflict, match="--replace"):
        install(str(source), tmp_path / "to", NOW)
    assert install(str(source), tmp_path / "to", NOW, replace=True).replaced
    assert (tmp_path / "to/deploy/SKILL.md").read_text() == TEXT
    assert left(tmp_path / "to") == ["deploy"]


def test_of_several_skills_one_must_be_named(tmp_path: Path) -> None:
    put_skill(tmp_path / "from/skills", "one")
    put_skill(tmp_path / "from/skills", "two")

    with pytest.raises(InvalidInput, match="one, two"):
        install(str(tmp_path / "from"), tmp_path / "to", NOW)
    assert install(str(tmp_path / "from"), tmp_path / "to", NOW, skill="two").name == "two"
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=r"no SKILL\.md"):
        install(str(tmp_path / "empty"), tmp_path / "to", NOW)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_is_unpacked(tmp_path: Path, kind: str) -> None:
    put_skill(tmp_path / "from", "deploy", references={"references/a.md": "a"})
    archive = shutil.make_archive(str(tmp_path / "pack"), {"zip": "zip", "tar.gz": "gztar"}[kind], tmp_path / "from")

    assert install(archive, tmp_path / "to", NOW).provenance.kind == "archive"
    assert (tmp_path / "to/deploy/references/a.md").read_text() == "a"


@pytest.mark.parametrize(
    "name", ["../out.md", "deploy/../../out.md", "/out.md", "C:\\out.md", "..\\out.md", "deploy/..\\..\\out.md", ".."]
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_whose_paths_leave_it_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    archive = tmp_path / f"evil.{kind}"
    members = {"deploy/SKILL.md": TEXT, name: "out"}
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as made:
            for path, text in members.items():
                made.writestr(path, text)
    else:
        with tarfile.open(archive, "w") as tar:
            for path, text in members.items():
                info = tarfile.TarInfo(path)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))

    with pytest.raises(InvalidInput, match="leaves it"):
        install(str(archive), tmp_path / "to", NOW)
    assert left(tmp_path / "to") == []
    assert not list(tmp_path.rglob("out.md"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_an_archive_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as made:
        info = tarfile.TarInfo("deploy/references/a.md")
        info.type, info.linkname = kind, "/etc/passwd"
        made.addfile(info)

    with pytest.raises(InvalidInput, match="link or device"):
        install(str(tmp_path / "evil.tar"), tmp_path / "to", NOW)


@pytest.mark.parametrize(
    "fault", ["link", "broken archive", "no skill", "bad name", "bomb", "nowhere", "option", "ext"]
)
def test_what_cannot_be_installed_leaves_nothing(tmp_path: Path, fault: str) -> None:
    source = str(put_skill(tmp_path / "from", "deploy"))
    match fault:
        case "link":
            (tmp_path / "from/deploy/a.md").symlink_to("/etc/passwd")
        case "broken archive":
            source = str(tmp_path / "x.zip")
            Path(source).write_bytes(b"PK\x03\x04 and no more")
        case "no skill":
            (tmp_path / "from/deploy/SKILL.md").unlink()
        case "bad name":
            (tmp_path / "from/deploy/SKILL.md").write_text("---\nname: ../evil\ndescription: d\n---\nb")
        case "bomb":
            source = str(tmp_path / "x.zip")
            with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as made:
                made.writestr("deploy/SKILL.md", TEXT)
                made.writestr("deploy/big", b"\0" * 60_000_000)
        case "nowhere":
            source = str(tmp_path / "nothing")
        case "option":
            source = "--upload-pack=touch /tmp/x"
        case "ext":
            source = "ext::sh -c 'touch /tmp/x'"

    with pytest.raises(HolonError):
        install(source, tmp_path / "to", NOW)
    assert left(tmp_path / "to") == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not on this machine")
    folder = tmp_path / "repository"
    put_skill(folder / "skills", "deploy", body="first")
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "one")
    _git(folder, "tag", "v1")
    (folder / "skills/deploy/SKILL.md").write_text(TEXT)
    hook = folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    _git(folder, "commit", "-qam", "two")
    return folder


def _git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def test_a_git_url_is_pinned_to_its_commit_and_nothing_is_run(tmp_path: Path, repository: Path) -> None:
    newest = install(f"file://{repository}", tmp_path / "to", NOW)
    old = install(f"git+file://{repository}", tmp_path / "old", NOW, ref="v1")

    assert (newest.provenance.kind, newest.provenance.commit) == ("git", _git(repository, "rev-parse", "HEAD"))
    assert (old.provenance.ref, old.provenance.commit) == ("v1", _git(repository, "rev-parse", "v1"))
    assert "first" in (tmp_path / "old/deploy/SKILL.md").read_text()
    assert not (tmp_path / "to/deploy/.git").exists() and not (tmp_path / "ran").exists()
    with pytest.raises(HolonError, match="no 'v9'"):
        install(f"file://{repository}", tmp_path / "to", NOW, ref="v9", replace=True)
    with pytest.raises(InvalidInput, match="not a git ref"):
        install(f"file://{repository}", tmp_path / "to", NOW, ref="--upload-pack=x", replace=True)


def test_uninstalling_removes_what_was_installed_and_asks_before_it_removes_ones_own(tmp_path: Path) -> None:
    root = tmp_path / "to"
    install(str(put_skill(tmp_path / "from", "deploy")), root, NOW)
    put_skill(root, "mine")

    found = uninstall("deploy", root)
    assert found is not None and found.kind == "directory"
    with pytest.raises(Conflict, match="--force"):
        uninstall("mine", root)
    uninstall("mine", root, force=True)
    assert left(root) == []
    for name in ("../to", "", "deploy", PROVENANCE):
        with pytest.raises((InvalidInput, NotFound)):
            uninstall(name, root, force=True)


def test_a_root_that_is_no_folder_is_named_with_what_to_look_at(tmp_path: Path) -> None:
    source = put_skill(tmp_path / "from", "deploy")
    root = tmp_path / "skills"
    root.write_text("in the way")

    for act in (lambda: install(str(source), root, NOW), lambda: scaffold("deploy", "d", root)):
        with pytest.raises(Conflict) as raised:
            act()
        assert str(root) in raised.value.message
        assert raised.value.hint == f"check that {root} is a folder that you may write, and that its disk has space"
    assert root.read_text() == "in the way"
