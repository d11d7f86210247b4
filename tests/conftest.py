"""What every test shares. Marks are declared in pyproject.toml."""

from __future__ import annotations

import os
import tempfile

#: What Holon keeps for its user (templates, skills) belongs into the home of whoever runs it, not of whoever tests it.
_user = tempfile.TemporaryDirectory(prefix="holon-user-")
os.environ["HOME"] = _user.name
