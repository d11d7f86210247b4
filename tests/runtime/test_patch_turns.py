"""`ApplyPatch` through real turns, beside what others leave in a folder: odd names, and locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holon.workspaces import journal
from tests.runtime.conftest import Opens
from tests.runtime.test_hands import call, repository, script, told
from tests.workspaces.holding import held

MEND = "--- a/hello.py\n+++ b/hello.py\n@@ -1 +1 @@\n-print('helo')\n+print('hello')\n"


async def test_a_patch_beside_a_file_whose_name_is_no_text_is_answered(living: Opens, outside: Path) -> None:
    repo = repository(outside / "project")
    os.rename(os.fsencode(repo / "hello.py"), os.fsencode(repo) + b"/hell\xe9.py")
    life = await living(script(call("UseWorkspace", path=str(repo)), call("ApplyPatch", patch=MEND)))
    await life.ask("mend it")
    answer = await told(life)
    assert (answer["ok"], answer["kind"], answer["retryable"]) == (False, "patch_rejected", False)
    assert "perhaps hell\\xe9.py is meant, a name that is not UTF-8" in answer["message"]


async def test_a_folder_that_somebody_has_locked_is_patched_all_the_same(
    living: Opens, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "ROOT_PATIENCE_S", 0.05)
    repo = repository(outside / "project")
    life = await living(script(call("UseWorkspace", path=str(repo)), call("ApplyPatch", patch=MEND)))
    with held(repo):
        await life.ask("mend it")
    answer = await told(life)
    assert [it["kind"] for it in answer["diagnostics"]] == ["root_locked"]
    assert (repo / "hello.py").read_text() == "print('hello')\n"


async def test_a_patch_that_had_to_wait_too_long_can_be_sent_again(
    living: Opens, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_PATIENCE_S", 0.05)
    repo = repository(outside / "project")
    life = await living(script(call("UseWorkspace", path=str(repo)), call("ApplyPatch", patch=MEND)))
    lock = life.host.settings.home / "state" / "patches" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    with held(lock):
        await life.ask("mend it")
    answer = await told(life)
    assert (answer["ok"], answer["kind"], answer["retryable"]) == (False, "patch_busy", True)
    assert answer["hint"] == "send the same patch again"
    assert (repo / "hello.py").read_text() == "print('helo')\n"
