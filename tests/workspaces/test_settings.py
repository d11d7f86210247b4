"""What confined commands see of /etc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holon.workspaces import settings


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    monkeypatch.setattr(settings, "_ETC", folder)
    return folder


def seen(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_only_what_was_chosen_is_copied_and_links_to_programs_stay_links(etc: Path, tmp_path: Path):
    assert seen(settings.copied(tmp_path / "run", network=False)) == {
        "alternatives/awk": os.path.realpath("/usr/bin/env"),
        "passwd": "root:x:0:0::/root:/bin/sh\n",
    }


def test_with_a_network_come_certificates_and_resolvers(etc: Path, tmp_path: Path):
    found = seen(settings.copied(tmp_path / "run", network=True))
    assert found["ssl/certs/one.pem"] == "a certificate"
    assert found["resolv.conf"] == "nameserver 192.0.2.1\n"
    assert "secret" not in str(found)


def test_a_copy_follows_its_original(etc: Path, tmp_path: Path):
    place = settings.copied(tmp_path / "run", network=True)
    kept = (place / "passwd").stat().st_ino
    (tmp_path / "resolved").write_text("nameserver 192.0.2.53\n")
    (etc / "ssl" / "certs" / "one.pem").unlink()
    (etc / "ssl" / "certs" / "two.pem").write_text("another")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    (etc / "alternatives" / "awk").unlink()
    (etc / "alternatives" / "gone").unlink()
    (etc / "alternatives").rmdir()
    found = seen(settings.copied(tmp_path / "run", network=True))
    assert found == {
        "passwd": "root:x:0:0::/root:/bin/sh\n",
        "resolv.conf": "nameserver 192.0.2.53\n",
        "ssl/certs/two.pem": "another",
        "hosts": "127.0.0.1 localhost\n",
    }
    assert (place / "passwd").stat().st_ino == kept, "what did not change is not copied again"


def test_a_folder_may_become_a_file_and_a_file_a_folder(etc: Path, tmp_path: Path):
    settings.copied(tmp_path / "run", network=False)
    (etc / "passwd").unlink()
    (etc / "passwd").mkdir()
    (etc / "passwd" / "inner").write_text("x")
    for name in ("awk", "gone"):
        (etc / "alternatives" / name).unlink()
    (etc / "alternatives").rmdir()
    (etc / "alternatives").write_text("a file")
    found = seen(settings.copied(tmp_path / "run", network=False))
    assert found == {"passwd/inner": "x", "alternatives": "a file"}
