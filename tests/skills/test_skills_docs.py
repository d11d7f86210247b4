"""docs/skills.md is true: its commands are run in order in a fresh home, and print what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "skills.md"


def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", "".join(blocks), re.MULTILINE)
    assert len(steps) == 3
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "HOLON_HOME": str(tmp_path / ".holon")}

    for command, printed in steps:
        program, *arguments = shlex.split(command)
        assert program == "holon"
        ran = subprocess.run(
            [sys.executable, "-m", "holon", *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran
        expected = ".*".join(re.escape(part) for part in printed.strip().split("…"))
        assert re.fullmatch(expected, ran.stdout.strip(), re.DOTALL), (command, ran.stdout)
