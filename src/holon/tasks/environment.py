"""The environment of commands: what they get of the daemon's own, by name. Everything else stays with the daemon."""

from __future__ import annotations

from collections.abc import Mapping

#: What programs need to find each other, the user and the language; none of it is a secret.
PASSED_ON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "TERMINFO"}
)
PASSED_ON_PREFIXES = ("LC_",)


def command_environment(own: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The daemon's environment without what is the daemon's business, and `extra` on top."""
    return {
        **{name: value for name, value in own.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)},
        **extra,
    }
