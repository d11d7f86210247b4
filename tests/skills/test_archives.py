"""Archives that lie: whatever they claim, what comes out is bounded and stays in its folder."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from holon.core.errors import InvalidInput
from holon.skills import archives
from holon.skills.archives import unpack
from holon.skills.repositories import without_secrets

SKILL = b"---\nname: pdf-filler\ndescription: Fills forms.\n---\n\nFill the form.\n"


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def tarred(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("pack", "suffix"), [(zipped, ".zip"), (tarred, ".tar.gz")])
def test_members_count_together_so_that_many_of_them_are_no_way_round_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack, suffix: str
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 100_000)
    archive = pack(tmp_path / f"bomb{suffix}", {f"f{number}": bytes(30_000) for number in range(10)})
    assert archive.stat().st_size < 10_000
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(InvalidInput, match="more than 2000 files or 100000 bytes"):
        unpack(archive, folder)
    assert written(folder) <= 100_000


@pytest.mark.parametrize(("pack", "suffix"), [(zipped, ".zip"), (tarred, ".tar.gz")])
def test_empty_files_count_too(tmp_path: Path, pack, suffix: str) -> None:
    archive = pack(tmp_path / f"many{suffix}", {f"f{number}": b"" for number in range(2_005)})
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(InvalidInput, match="more than 2000 files"):
        unpack(archive, folder)
    assert len(list(folder.iterdir())) == 2_000


def test_a_tar_header_that_claims_to_be_huge_is_not_read_into_memory(tmp_path: Path) -> None:
    """A header of 400 MB, which compresses to next to nothing."""
    info = tarfile.TarInfo("header")
    info.type, info.size = tarfile.XHDTYPE, 400 * 1024 * 1024
    archive = tmp_path / "header.tar.gz"
    with gzip.open(archive, "wb", 1) as file:
        file.write(info.tobuf())
        for _ in range(400):
            file.write(bytes(1024 * 1024))
    folder = tmp_path / "out"
    folder.mkdir()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="more than"):
            unpack(archive, folder)
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_that_is_damaged_anywhere_is_refused_in_words_or_read(tmp_path: Path, pack) -> None:
    sound = pack(tmp_path / "sound", {"SKILL.md": SKILL * 200, "references/a.md": b"text" * 500}).read_bytes()
    chance = random.Random(5)
    refused = 0
    for number in range(150):
        data = bytearray(sound)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        archive, folder = tmp_path / f"{number}.skill", tmp_path / f"out{number}"
        archive.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
        folder.mkdir()
        try:
            unpack(archive, folder)
        except InvalidInput:
            refused += 1
    assert refused > 30


def test_a_zip_whose_header_lies_about_the_size_is_still_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 100_000)
    data = bytearray(zipped(tmp_path / "a.zip", {"big": bytes(5_000_000)}).read_bytes())
    central = data.rindex(b"PK\x01\x02")
    data[central + 24 : central + 28] = struct.pack("<I", 10)
    (tmp_path / "a.zip").write_bytes(data)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(InvalidInput):
        unpack(tmp_path / "a.zip", folder)
    assert written(folder) <= 100_000


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:s3cret@example.org/x.git", "https://example.org/x.git"),
        ("https://t0ken@example.org/x.git", "https://example.org/x.git"),
        ("git+https://me:s3@cret@example.org/x.git", "git+https://example.org/x.git"),
        ("ssh://git@example.org:22/x.git", "ssh://git@example.org:22/x.git"),
        ("ssh://git:s3cret@example.org/x.git", "ssh://example.org/x.git"),
        ("git@example.org:x.git", "git@example.org:x.git"),
        ("/home/me@work/skills", "/home/me@work/skills"),
        ("fatal: unable to access 'https://me:s3cret@h/x/': no", "fatal: unable to access 'https://h/x/': no"),
    ],
)
def test_a_secret_in_a_url_is_never_written_down(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
