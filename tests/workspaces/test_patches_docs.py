"""docs/patches.md is true: its examples are run, in order, in the folder that it shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from holon.workspaces import commits, drafts, freeform, hunks, journal, patches, roots

PAGE = (Path(__file__).parents[2] / "docs" / "patches.md").read_text(encoding="utf-8")


def shown_files() -> dict[str, str]:
    (console,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return dict(re.findall(r"^\$ cat (\S+)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE))


def test_the_examples_print_what_the_page_says(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in shown_files().items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    blocks = re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 8
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/patches.md", None, 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=output.append)
    assert "".join(output) == ""
    assert runner.summarize(verbose=False).attempted > 15


@pytest.mark.parametrize(
    "error",
    [
        hunks.InvalidPatch,
        patches.PatchRejected,
        patches.PatchAlreadyApplied,
        roots.RootViolation,
        commits.TargetChanged,
        commits.PatchFailed,
        journal.JournalBusy,
    ],
)
def test_every_error_is_on_the_page(error):
    assert f"| `{error.code}` |" in PAGE


def test_the_limits_on_the_page_are_those_in_force():
    mib = 1024**2
    total = drafts.MAX_TOTAL_BYTES // mib
    for row in (
        f"| a patch | {patches.MAX_PATCH_CHARS:,} characters, {patches.MAX_PATCH_LINES:,} lines, "
        f"{patches.MAX_FILES} files, {patches.MAX_HUNKS:,} hunks |",
        f"| a hunk | {freeform.MAX_ANCHORS} `@@` lines before it |",
        f"| a file | {drafts.MAX_FILE_BYTES // mib} MiB, {drafts.MAX_LINES:,} lines, "
        f"{drafts.MAX_DEPTH - 1} folders deep |",
        f"| all files of a patch | {total} MiB before it and {total} MiB after it, "
        f"{drafts.MAX_FOLDERS} folders for new ones |",
    ):
        assert row in PAGE
