"""docs/patches.md is true: its examples are run, in order, in the folder that it shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from holon.workspaces import commits, drafts, hunks, patches, roots

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
    ],
)
def test_every_error_is_on_the_page(error):
    assert f"| `{error.code}` |" in PAGE


def test_the_limits_on_the_page_are_those_in_force():
    limits = (drafts.MAX_FILE_BYTES // 1024**2, drafts.MAX_LINES, patches.MAX_PATCH_CHARS, patches.MAX_FILES)
    assert "{} MiB or {:,} lines,\npatches of more than {:,} characters, {} files".format(*limits) in PAGE
    assert f"or {patches.MAX_HUNKS:,} hunks" in PAGE
