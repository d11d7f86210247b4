"""The page on durability names every step that there is, and no other."""

import re
from pathlib import Path

from holon.core.transitions import Transition

PAGE = (Path(__file__).parents[2] / "docs" / "durability.md").read_text(encoding="utf-8")


def test_the_page_names_every_transition_and_no_other():
    table = PAGE.partition("| step |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([a-z_]+\.[a-z_]+)`", table)) == sorted(Transition)
