"""The environment of an agent's commands: what a program needs to run, and none of the runtime's secrets.

On the host everything passes but what looks or is known to be secret, because toolchains live in variables that nobody
can list. In the sandbox only what is listed passes. The agent's trigger URL never does: it is a secret like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from holon.core.errors import AgentError
from holon.core.values import Value


class InvalidEnvironment(AgentError):
    """A variable that a command cannot be given."""

    code = "invalid_tool_input"


class Surroundings(Value, frozen=True, kw_only=True):
    """Whose command it is, and what may surround it."""

    agent_id: str
    agent_home: Path
    #: The runtime's own environment.
    inherited: Mapping[str, str]
    #: Only what is listed passes.
    sandboxed: bool
    #: Values that appear nowhere: keys of providers, the control token, trigger URLs.
    secrets: Iterable[str] = ()
    #: Names that an operator lets through whatever they look like.
    passed_through: frozenset[str] = frozenset()


def command_environment(around: Surroundings, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of one command; `extra` is what the call asks for."""
    hidden = [secret for secret in around.secrets if len(secret) >= _SHORTEST_SECRET]
    passed = {name: value for name, value in around.inherited.items() if _passes(name, value, around)}
    asked = _checked(extra or {})
    kept = {name: value for name, value in {**passed, **asked}.items() if not _holds_secret(value, hidden)}
    return {**_DEFAULTS, **kept, **_identity(around)}


def looks_secret(name: str, value: str) -> bool:
    """By its name, or by the shape of its value."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


_SHORTEST_SECRET = 4
_DEFAULTS = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}
#: In the sandbox. HOME and TMPDIR are the sandbox's own.
_LISTED = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|PATH|TERM|COLORTERM|NO_COLOR|TZ|USER|LOGNAME|SHELL|CI|COLUMNS|LINES")
#: The runtime's own settings are between it and its operator; those of git would move every git command elsewhere.
_OURS = re.compile(r"HOLON_\w*|GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ASKPASS|SSH\w*|CONFIG\w*)|\w*_ASKPASS")
_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:API_?KEYS?|ACCESS_?KEYS?|PRIVATE_?KEYS?|SIGNING_?KEYS?|ENCRYPTION_?KEYS?|KEYS?|TOKENS?|PAT|"
    r"SECRETS?|PASSW(?:OR)?D|PASS|PASSPHRASE|PWD_HASH|CREDENTIALS?|CREDS|COOKIES?|SESSION_ID|DSN|"
    r"CONNECTION_STRING|WEBHOOK(?:_URL)?|NETRC|PGPASSFILE|KUBECONFIG)(?:$|_)"
    r"|_AUTH$|TOKEN$|SECRET$|PASSWORD$|APIKEY$|^AWS_(?!(?:DEFAULT_)?REGION$)|^(?:AZURE|GOOGLE|GCP|VAULT)_"
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."
    r"|://[^/\s:@]+:[^/\s@]+@"  # a URL with a password in it
    r"|/callbacks/(?:wake|enqueue)/"  # a trigger URL
)


def _passes(name: str, value: str, around: Surroundings) -> bool:
    if _OURS.fullmatch(name):
        return False
    if name in around.passed_through:
        return True
    if around.sandboxed and not _LISTED.fullmatch(name):
        return False
    return not looks_secret(name, value)


def _holds_secret(value: str, hidden: list[str]) -> bool:
    return any(secret in value for secret in hidden)


def _checked(extra: Mapping[str, str]) -> dict[str, str]:
    """What a call asks for is passed as it is: the agent wrote it, so it keeps nothing from it."""
    for name, value in extra.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise InvalidEnvironment(
                f"{name[:100]!r} cannot be set in an environment",
                hint="a name has letters, digits and '_', and a value has no NUL character",
                field="env",
            )
    return dict(extra)


def _identity(around: Surroundings) -> dict[str, str]:
    """Last, so that nothing can pretend to be another agent."""
    return {
        "HOLON_RUNTIME": "1",
        "HOLON_AGENT_ID": around.agent_id,
        "HOLON_AGENT_HOME": str(around.agent_home),
    }
