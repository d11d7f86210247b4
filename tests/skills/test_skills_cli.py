"""`holon skills` against a running Holon: what is installed is listed, shown, counted and taken away again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.server.harness import running, short_home
from tests.skills.shelves import put_skill


def test_a_skill_is_installed_listed_shown_counted_and_taken_away(tmp_path: Path) -> None:
    source = put_skill(tmp_path / "from", "deploy", "Roll out an app.", references={"references/a.md": "x"})
    with short_home() as folder, running(folder / ".holon"):

        def holon(*arguments: str, fails: bool = False) -> str:
            environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
            ran = subprocess.run(
                [sys.executable, "-m", "holon", "skills", *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert (ran.returncode != 0) is fails, ran
            return ran.stderr if fails else ran.stdout

        place = folder / ".holon/agents/main/skills/deploy"
        assert holon("install", str(source)) == f"installed deploy in {place}\n"
        assert "Roll out an app." in holon("list")
        assert f"installed from {source}" in holon("show", "deploy")
        assert "never loaded: deploy" in holon("stats")
        assert json.loads(holon("stats", "--json"))["never_used"] == ["deploy"]
        assert "already a skill 'deploy'" in holon("install", str(source), fails=True)
        assert "deploy is sound" in holon("lint", "deploy")
        put_skill(place.parent, "misnamed", extra="name: another\n")
        assert "misnamed is sound" not in holon("lint", "misnamed", fails=True)
        assert "see 'holon skills list'" in holon("lint", "nothing", fails=True)
        assert holon("uninstall", "deploy") == "deploy is gone\n"
        assert "has no skill 'deploy'" in holon("show", "deploy", fails=True)
        assert not place.exists()
