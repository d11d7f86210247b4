"""What confined commands see of /etc."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holon.workspaces import etc
from tests import disks


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another machine's settings."""
    folder = tmp_path / "original"
    (folder / "ssl" / "certs").mkdir(parents=True)
    (folder / "alternatives").mkdir()
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "shadow").write_text("root:secret\n")
    (folder / "ssl" / "certs" / "one.pem").write_text("a certificate")
    (folder / "ssl" / "certs" / "loop").symlink_to(folder / "ssl" / "certs")
    (folder / "ssl" / "private.key").write_text("secret")
    (folder / "alternatives" / "awk").symlink_to("/usr/bin/env")
    (folder / "alternatives" / "gone").symlink_to("/usr/bin/no-such-program")
    (folder / "resolv.conf").symlink_to(tmp_path / "resolved")
    (tmp_path / "resolved").write_text("nameserver 192.0.2.1\n")
    monkeypatch.setattr(etc, "_ETC", folder)
    return folder


def seen(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_only_what_was_chosen_is_copied_and_links_to_programs_stay_links(original: Path, tmp_path: Path):
    assert seen(etc.copied(tmp_path / "run", network=False)) == {
        "alternatives/awk": os.path.realpath("/usr/bin/env"),
        "passwd": "root:x:0:0::/root:/bin/sh\n",
    }


def test_with_a_network_come_certificates_and_resolvers(original: Path, tmp_path: Path):
    found = seen(etc.copied(tmp_path / "run", network=True))
    assert found["ssl/certs/one.pem"] == "a certificate"
    assert found["resolv.conf"] == "nameserver 192.0.2.1\n"
    assert "secret" not in str(found)


def test_a_copy_follows_its_original(original: Path, tmp_path: Path):
    place = etc.copied(tmp_path / "run", network=True)
    kept = (place / "passwd").stat().st_ino
    (tmp_path / "resolved").write_text("nameserver 192.0.2.53\n")
    (original / "ssl" / "certs" / "one.pem").unlink()
    (original / "ssl" / "certs" / "two.pem").write_text("another")
    (original / "hosts").write_text("127.0.0.1 localhost\n")
    (original / "alternatives" / "awk").unlink()
    (original / "alternatives" / "gone").unlink()
    (original / "alternatives").rmdir()
    found = seen(etc.copied(tmp_path / "run", network=True))
    assert found == {
        "passwd": "root:x:0:0::/root:/bin/sh\n",
        "resolv.conf": "nameserver 192.0.2.53\n",
        "ssl/certs/two.pem": "another",
        "hosts": "127.0.0.1 localhost\n",
    }
    assert (place / "passwd").stat().st_ino == kept, "what did not change is not copied again"


def test_a_folder_may_become_a_file_and_a_file_a_folder(original: Path, tmp_path: Path):
    etc.copied(tmp_path / "run", network=False)
    (original / "passwd").unlink()
    (original / "passwd").mkdir()
    (original / "passwd" / "inner").write_text("x")
    for name in ("awk", "gone"):
        (original / "alternatives" / name).unlink()
    (original / "alternatives").rmdir()
    (original / "alternatives").write_text("a file")
    found = seen(etc.copied(tmp_path / "run", network=False))
    assert found == {"passwd/inner": "x", "alternatives": "a file"}


def test_a_full_disk_is_an_error_and_no_missing_file_and_passes_with_it(original: Path, tmp_path: Path):
    with disks.small(tmp_path / "disk", "size=64k") as disk:
        (original / "passwd").write_text("x" * 20_000)
        disks.fill(disk)
        with pytest.raises(OSError, match="No space left"):
            etc.copied(disk, network=False)
        (disk / "filler").unlink()
        assert (etc.copied(disk, network=False) / "passwd").read_text() == "x" * 20_000


def test_copies_that_were_cleared_away_are_made_again(original: Path, tmp_path: Path):
    place = etc.copied(tmp_path / "run", network=False)
    shutil.rmtree(place)
    assert (etc.copied(tmp_path / "run", network=False) / "passwd").exists()
