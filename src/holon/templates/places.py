"""Places: where templates stand. Small, because every start of the runtime reads it."""

from __future__ import annotations

import re
from pathlib import Path

#: What comes with Holon; `seeding` puts copies of it where people can see and change them.
BUILTIN = Path(__file__).parent / "builtin"
AGENTS_MD = "AGENTS.md"
_USER_FOLDER = ".agents/templates"
_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def user_folder(user_home: Path | None) -> Path | None:
    return user_home / _USER_FOLDER if user_home is not None else None


def is_template_id(text: str) -> bool:
    return re.fullmatch(_ID, text) is not None and ".." not in text
