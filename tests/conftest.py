"""What every test shares. Marks are declared in pyproject.toml."""

from __future__ import annotations

import os
import signal
import tempfile

#: What Holon keeps for its user (templates, skills) belongs into the home of whoever runs it, not of whoever tests it.
_user = tempfile.TemporaryDirectory(prefix="holon-user-")
os.environ["HOME"] = _user.name

# A shell that starts the tests in its background lets them, and whatever they start, ignore the keyboard.
signal.signal(signal.SIGINT, signal.default_int_handler)
