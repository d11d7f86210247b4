"""What a model is shown of an output: beginning and end, never more than the budget."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.tasks import ToolArtifactRef
from holon.tasks.folder import OUTPUT, STDERR, STDOUT, pages_of
from holon.tasks.outcomes import notes_on
from holon.tasks.outputs import Artifacts, artifacts, budget_chars, combined, excerpt, is_lost, preview
from holon.tasks.protocol import CommandStatus, Outcome


def test_without_a_wish_eight_thousand_tokens_are_shown():
    assert budget_chars(None) == 32_000


def test_a_larger_budget_is_honoured_up_to_the_cap():
    assert [budget_chars(tokens) for tokens in (10, 20_000, 64_000, 64_001, 10**9)] == [
        40,
        80_000,
        256_000,
        256_000,
        256_000,
    ]


def test_default_and_cap_can_be_set():
    assert budget_chars(None, default_tokens=100, max_tokens=500) == 400
    assert budget_chars(1_000, default_tokens=100, max_tokens=500) == 2_000


def test_what_fits_is_shown_whole(tmp_path: Path):
    (tmp_path / OUTPUT).write_text("ünï\n" * 10)
    found = excerpt(tmp_path / OUTPUT, 40)
    assert (found.text, found.truncated, found.total_bytes) == ("ünï\n" * 10, False, 60)


def test_what_does_not_fit_shows_its_beginning_and_its_end(tmp_path: Path):
    (tmp_path / OUTPUT).write_text("".join(f"line {n}\n" for n in range(100_000)))
    found = excerpt(tmp_path / OUTPUT, 1_000)
    head, _, tail = found.text.partition("\n[... ")
    assert head.startswith("line 0\nline 1\n")
    assert tail.endswith("line 99998\nline 99999\n")
    assert "bytes left out of this preview ...]\n" in tail
    assert 900 < len(found.text) <= 1_000
    assert found.truncated


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([b"a", b"\xc3\xbc", b"\xf0\x9f\x8c\x8d", b"\xff", b"\n", b"\0"]), max_size=400),
    st.integers(0, 300),
)
def test_a_preview_never_exceeds_its_budget_and_is_always_text(pieces: list[bytes], budget: int):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / OUTPUT
        path.write_bytes(b"".join(pieces))
        found = excerpt(path, budget)
    assert len(found.text) <= budget
    assert found.text.encode().decode() == found.text
    assert found.total_bytes == sum(map(len, pieces))
    assert found.truncated == (len(b"".join(pieces).decode("utf-8", "replace")) > budget)


def test_an_output_that_is_not_there_is_empty(tmp_path: Path):
    assert excerpt(tmp_path / OUTPUT, 100).text == ""


def test_two_streams_share_one_budget_and_the_shorter_one_leaves_its_rest(tmp_path: Path):
    (tmp_path / OUTPUT).touch()
    for out, err in ((5_000, 10), (10, 5_000), (5_000, 5_000), (300, 400)):
        (tmp_path / STDOUT).write_text("o" * out)
        (tmp_path / STDERR).write_text("e" * err)
        found = preview(tmp_path, 1_000)
        assert len(found.stdout) + len(found.stderr) <= 1_000
        assert (len(found.stdout) == out, len(found.stderr) == err) == (out <= 500, err <= 500)
        assert len(found.stdout) + len(found.stderr) >= min(900, out + err)
        assert found.truncated == (out + err > 1_000)


def test_lines_of_a_terminal_end_with_one_character(tmp_path: Path):
    (tmp_path / OUTPUT).write_bytes(b"one\r\ntwo\r\n")
    assert preview(tmp_path, 100, tty=True).stdout == "one\ntwo\n"
    assert preview(tmp_path, 100).stdout == "one\r\ntwo\r\n"


@pytest.mark.spec("RT-295")
def test_artifacts_are_paths_and_say_which_is_which(tmp_path: Path):
    output, stdout, stderr = (ToolArtifactRef(path=str(tmp_path / name)) for name in (OUTPUT, STDOUT, STDERR))
    (tmp_path / OUTPUT).touch()
    assert artifacts(tmp_path) == Artifacts(artifacts=[output], output_artifact=0, stdout_artifact=0)
    (tmp_path / STDOUT).touch()
    (tmp_path / STDERR).touch()
    assert artifacts(tmp_path) == Artifacts(
        artifacts=[output, stdout, stderr], output_artifact=0, stdout_artifact=1, stderr_artifact=2
    )


def test_an_older_page_without_a_newer_one_is_read_as_it_is(tmp_path: Path):
    """A runner that was killed while it turned a page leaves that."""
    (tmp_path / OUTPUT).write_bytes(b"head\n")
    older, _ = pages_of(tmp_path / OUTPUT)
    older.write_bytes(b"5\nolder page\n")
    assert combined(tmp_path, 1_000).text == "head\nolder page\n"


@pytest.mark.spec("RT-295")
def test_artifacts_that_are_gone_are_not_named(tmp_path: Path):
    assert artifacts(tmp_path / "gone") == Artifacts(artifacts=[])
    stdout, stderr = (ToolArtifactRef(path=str(tmp_path / name)) for name in (STDOUT, STDERR))
    (tmp_path / STDOUT).touch()
    (tmp_path / STDERR).touch()
    assert artifacts(tmp_path) == Artifacts(artifacts=[stdout, stderr], stdout_artifact=0, stderr_artifact=1)


@pytest.mark.parametrize(
    ("kept", "status", "lost"),
    [
        (None, CommandStatus(Outcome.EXITED, 0), False),
        (None, CommandStatus(Outcome.EXITED, 0, stdout_bytes=1), True),
        (b"abc", CommandStatus(Outcome.EXITED, 0, stdout_bytes=2, stderr_bytes=1), False),
        (b"ab", CommandStatus(Outcome.EXITED, 0, stdout_bytes=2, stderr_bytes=1), True),
        (b"ab", CommandStatus(Outcome.EXITED, 0, stdout_bytes=2, stderr_bytes=1, truncated=True), False),
    ],
)
def test_output_is_lost_if_less_is_there_than_was_kept(
    tmp_path: Path, kept: bytes | None, status: CommandStatus, lost: bool
):
    if kept is not None:
        (tmp_path / OUTPUT).write_bytes(kept)
    assert is_lost(tmp_path, status) is lost
    assert ["lost" in note for note in notes_on(status, tmp_path)] == ([True] if lost else [])
    assert combined(tmp_path, 100, status=status).truncated is (lost or status.truncated)
    assert preview(tmp_path, 100, status=status).truncated is (lost or status.truncated)
