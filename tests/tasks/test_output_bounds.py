"""However much a command writes: the files are bounded, the count is true, and the command is never held up."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holon.tasks.capture import ALWAYS_BYTES, Capture
from holon.tasks.commands import CommandRunner
from holon.tasks.folder import OUTPUT, STDERR, STDOUT, fresh_page_of, status_of
from holon.tasks.outputs import combined
from tests.disks import fill, small
from tests.tasks.workshop import Workshop, ended, eventually, memory_kb, spec_in

KIB = 1_024
MIB = 1_048_576


async def test_two_hundred_megabytes_leave_their_beginning_their_end_and_their_number(workshop: Workshop):
    running = await workshop.start(
        "echo begin; yes | head -c 200000000; echo end; sleep 60", head_bytes=100 * KIB, tail_bytes=50 * KIB
    )
    await eventually(lambda: running.preview(1_000).stdout.endswith("end\n"))
    assert memory_kb(running.started.runner_pid, "VmHWM") < 40_000
    await running.stop(force=True)
    status = await ended(running)
    assert (status.stdout_bytes, status.truncated, status.disk_low) == (200_000_010, True, False)
    kept = (running.folder / OUTPUT).read_bytes()
    assert kept.startswith(b"begin\ny\ny\n")
    assert kept.endswith(b"y\ny\nend\n")
    missing = 200_000_010 - 150 * KIB
    assert kept[100 * KIB :].startswith(b"\n[... %d bytes left out ...]\n" % missing)
    assert len(kept) == 150 * KIB + len(b"\n[... %d bytes left out ...]\n" % missing)
    assert {file.name for file in running.folder.iterdir()} <= {OUTPUT, "started.json", "status.json", "control"}


async def test_a_terminal_is_bounded_as_well(workshop: Workshop):
    status, _ = await workshop.run("yes | head -c 3000000", tty=True, head_bytes=10 * KIB, tail_bytes=10 * KIB)
    assert (status.stdout_bytes, status.truncated) == (4_500_000, True)  # a terminal ends its lines with two
    (folder,) = (workshop.root / "commands").iterdir()
    assert (folder / OUTPUT).stat().st_size < 21 * KIB


async def test_both_streams_are_bounded_each_by_itself(workshop: Workshop):
    status, preview = await workshop.run(
        "yes | head -c 1000000; yes no | head -c 900000 >&2", head_bytes=10 * KIB, tail_bytes=10 * KIB
    )
    assert (status.stdout_bytes, status.stderr_bytes, status.truncated) == (1_000_000, 900_000, True)
    assert (preview.stdout_bytes, preview.stderr_bytes) == (1_000_000, 900_000)
    assert preview.stdout.startswith("y\ny\n")
    assert preview.stderr.startswith("no\nno\n")
    (folder,) = (workshop.root / "commands").iterdir()
    assert all((folder / name).stat().st_size < 21 * KIB for name in (OUTPUT, STDOUT, STDERR))


async def test_the_newest_output_of_a_long_stream_can_be_read_while_it_runs(workshop: Workshop):
    running = await workshop.start("yes | head -c 500000; echo now; sleep 60", head_bytes=KIB, tail_bytes=KIB)
    await eventually(lambda: running.preview(100_000).stdout.endswith("y\nnow\n"))
    preview = running.preview(100_000)
    assert (preview.stdout_bytes, preview.truncated) == (500_004, True)
    assert re.search(r"y\n\n\[\.\.\. \d{6} bytes left out \.\.\.\]\n", preview.stdout)


async def test_bytes_that_are_no_text_are_kept_as_they_are_and_shown_as_text(workshop: Workshop):
    _, preview = await workshop.run(r"printf '\377\000\001ok\n'; head -c 100000 /dev/urandom")
    (folder,) = (workshop.root / "commands").iterdir()
    assert (folder / OUTPUT).read_bytes().startswith(b"\xff\x00\x01ok\n")
    assert (folder / OUTPUT).stat().st_size == 100_006
    assert preview.stdout.startswith("���ok\n")
    assert "\0" not in preview.stdout


# ---- a disk that is full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    with small(tmp_path / "disk", "size=4m") as place:
        yield place


async def test_before_the_disk_is_full_the_breaker_stops_the_output_and_not_the_command(
    small_disk: Path, tmp_path: Path
):
    async with CommandRunner(small_disk / "run") as runner:
        spec = spec_in(small_disk, "c", "echo begin; yes | head -c 20000000; echo end", disk_floor_bytes=2 * MIB)
        status = await ended(await runner.start(spec))
    assert (status.exit_status, status.stdout_bytes, status.disk_low, status.truncated) == (0, 20_000_010, True, True)
    kept = (spec.folder / OUTPUT).read_bytes()
    assert kept.startswith(b"begin\n")
    assert kept.endswith(b"y\nend\n")
    assert len(kept) < 2 * MIB + 2 * ALWAYS_BYTES


async def test_a_disk_that_is_full_holds_up_neither_the_command_nor_its_status(small_disk: Path):
    async with CommandRunner(small_disk / "run") as runner:
        running = await runner.start(
            spec_in(small_disk, "c", "read -r go; yes | head -c 20000000; exit 7", accepts_input=True)
        )
        fill(small_disk)
        await running.send("go\n")
        status = await ended(running)
        assert (status.exit_status, status.stdout_bytes, status.disk_low) == (7, 20_000_000, True)
        assert status_of(running.folder) == status


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for many bytes and few files."""
    with small(tmp_path / "few", "size=64m,nr_inodes=64") as place:
        yield place


def take_all_files(disk: Path) -> None:
    with suppress(OSError):
        for n in range(1_000):
            (disk / f"file{n}").touch()
    assert os.statvfs(disk).f_favail == 0


def test_where_no_file_can_be_made_pages_stay_as_they_are_and_can_be_read(few_files: Path):
    """The page that is full is not given up before there is another one."""
    capture = Capture(few_files, 10, 100, 0)
    capture.take(STDOUT, b"0123456789" + b"a" * 60)
    capture.show(0.0, paused=True)
    take_all_files(few_files)
    capture.take(STDOUT, b"b" * 90)
    capture.show(0.0, paused=True)
    assert sorted(path.name for path in few_files.glob(f"{OUTPUT}*")) == [OUTPUT, f"{OUTPUT}.tail"]
    assert combined(few_files, 1_000).text == "0123456789" + "a" * 60
    capture.close()
    assert (capture.disk.low, capture.truncated) == (True, True)
    assert (few_files / OUTPUT).read_bytes().endswith(b"a" * 10 + b"b" * 90)


def test_a_page_that_cannot_be_made_leaves_the_old_ones(tmp_path: Path):
    """Whatever the reason: here the name is taken by a folder."""
    capture = Capture(tmp_path, 10, 100, 0)
    for byte in (b"a", b"b"):
        capture.take(STDOUT, byte * 70)
        capture.show(0.0, paused=True)
    fresh_page_of(tmp_path / OUTPUT).mkdir()
    capture.take(STDOUT, b"c" * 70)
    capture.show(0.0, paused=True)
    assert combined(tmp_path, 1_000).text == "a" * 70 + "b" * 70
    assert capture.disk.low is False
    fresh_page_of(tmp_path / OUTPUT).rmdir()
    capture.take(STDOUT, b"d" * 70)
    capture.show(0.0, paused=True)
    assert combined(tmp_path, 1_000).text.endswith("d" * 70)
    capture.close()


def test_a_folder_that_was_removed_is_not_taken_for_a_full_disk(tmp_path: Path):
    place = tmp_path / "place"
    place.mkdir()
    capture = Capture(place, 10, 100, 0)
    capture.take(STDOUT, b"before")
    shutil.rmtree(place)
    capture.take(STDERR, b"oops")
    capture.take(STDOUT, b"x" * 500)
    capture.show(0.0, paused=True)
    capture.close()
    assert (capture.stdout_bytes, capture.stderr_bytes, capture.disk.low) == (506, 4, False)


# ---- the capture itself


def test_what_fits_is_kept_whole(tmp_path: Path):
    capture = Capture(tmp_path, 10, 10, 0)
    capture.take(STDOUT, b"0123456789")
    capture.take(STDOUT, b"abcdefghij")
    capture.close()
    assert (tmp_path / OUTPUT).read_bytes() == b"0123456789abcdefghij"
    assert (capture.truncated, capture.stdout_bytes, capture.stderr_bytes) == (False, 20, 0)


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_one_byte_too_many_is_left_out_however_it_comes(tmp_path: Path, size: int):
    capture = Capture(tmp_path, 10, 10, 0)
    text = b"0123456789Xabcdefghij"
    for start in range(0, len(text), size):
        capture.take(STDOUT, text[start : start + size])
    assert combined(tmp_path, 1_000).total_bytes == min(21, 10)  # nothing is shown of the end before it is time
    capture.show(0.0, paused=True)
    assert combined(tmp_path, 1_000).text == "0123456789\n[... 1 bytes left out ...]\nabcdefghij"
    assert combined(tmp_path, 1_000).total_bytes == 21
    capture.close()
    assert (tmp_path / OUTPUT).read_bytes() == b"0123456789\n[... 1 bytes left out ...]\nabcdefghij"
    assert capture.truncated


def test_what_comes_slowly_is_put_on_pages_and_each_byte_once(tmp_path: Path):
    """The newest bytes are always there to be read, and the disk holds two pages at most."""
    capture = Capture(tmp_path, 10, 100, 0)
    written = b""
    for n in range(400):
        line = b"%d\n" % n
        written += line
        capture.take(STDOUT, line)
        capture.show(0.0, paused=True)
        shown = combined(tmp_path, 100_000)
        assert shown.text.encode().endswith(written[-100:])
        assert shown.total_bytes == len(written)
        assert shown.truncated == ("left out" in shown.text)
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 10 + 2 * (100 + 5)
    capture.close()
    assert os.listdir(tmp_path) == [OUTPUT]
    missing = len(written) - 110
    assert (tmp_path / OUTPUT).read_bytes() == written[:10] + b"\n[... %d bytes left out ...]\n" % missing + written[
        -100:
    ]


def test_stderr_that_comes_late_takes_nothing_from_stdout(tmp_path: Path):
    capture = Capture(tmp_path, 4, 4, 0)
    capture.take(STDOUT, b"aaaabbbbcc")
    capture.take(STDERR, b"EE")
    capture.take(STDOUT, b"dd")
    capture.close()
    assert (tmp_path / STDOUT).read_bytes() == b"aaaa\n[... 4 bytes left out ...]\nccdd"
    assert (tmp_path / STDERR).read_bytes() == b"EE"
    assert (tmp_path / OUTPUT).read_bytes() == b"aaaa\n[... 6 bytes left out ...]\nEEdd"
    assert (capture.stdout_bytes, capture.stderr_bytes) == (12, 2)


def test_on_a_disk_that_is_nearly_full_a_little_of_both_ends_is_still_kept(tmp_path: Path):
    capture = Capture(tmp_path, MIB, MIB, disk_floor_bytes=1 << 62)
    capture.take(STDOUT, b"first " * 5_000)
    for _ in range(100):
        capture.take(STDOUT, b"x" * 65_536)
    capture.take(STDOUT, b" last")
    capture.show(0.0, paused=True)
    capture.close()
    kept = (tmp_path / OUTPUT).read_bytes()
    assert kept.startswith(b"first first")
    assert kept.endswith(b"x last")
    assert len(kept) < 2 * ALWAYS_BYTES + 100
    assert (capture.disk.low, capture.truncated, os.listdir(tmp_path)) == (True, True, [OUTPUT])
