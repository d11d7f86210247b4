"""Commands get what they need to run, and none of the runtime's secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.workspaces.environment import InvalidEnvironment, Surroundings, command_environment, looks_secret

SECRET = "v3ry-s3cret-value"
TRIGGER = "http://127.0.0.1:7878/callbacks/wake/abcdefghijklmnopqrstuvwx"
HARMLESS = {
    "PATH": "/opt/tools/bin:/usr/bin",
    "HOME": "/home/somebody",
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "C",
    "TERM": "xterm-256color",
    "TZ": "Europe/Berlin",
}
TOOLCHAIN = {
    "JAVA_HOME": "/opt/java",
    "VIRTUAL_ENV": "/home/somebody/.venv",
    "GOPATH": "/home/somebody/go",
    "PKG_CONFIG_PATH": "/opt/lib/pkgconfig",
    "KEYBOARD": "de",
    "MONKEY": "yes",
    "PWD": "/work",
    "SSH_AUTH_SOCK": "/tmp/agent.sock",
    "AWS_REGION": "eu-central-1",
    "AUTHOR": "somebody",
    "COMPASS": "north",
}
SECRETS = {
    "ANTHROPIC_API_KEY": "x" * 20,
    "OPENAI_API_KEY": "x" * 20,
    "GITHUB_TOKEN": "x" * 20,
    "github_token": "x" * 20,
    "NPM_TOKEN": "x" * 20,
    "DB_PASSWORD": "hunter2",
    "PGPASSWORD": "hunter2",
    "MYSQL_PWD_HASH": "hunter2",
    "AWS_ACCESS_KEY_ID": "x" * 20,
    "AWS_SECRET_ACCESS_KEY": "x" * 20,
    "AWS_SESSION_TOKEN": "x" * 20,
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/somebody/key.json",
    "SENTRY_DSN": "https://sentry.example/1",
    "CLIENT_SECRET": "x",
    "SIGNING_KEY": "x",
    "GPG_PASSPHRASE": "x",
    "SLACK_WEBHOOK_URL": "https://hooks.example/x",
    "SSH_ASKPASS": "/usr/bin/askpass",
    "DATABASE_URL": "postgres://somebody:hunter2@db.example/shop",
    "HTTPS_PROXY": "http://somebody:hunter2@proxy.example:3128",
    "HARMLESS_NAME": "sk-" + "a1b2" * 6,
    "ANOTHER_NAME": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "YET_ANOTHER": "AKIAIOSFODNN7EXAMPLE",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abc",
    "HOLON_CONTROL_TOKEN": "x",
    "HOLON_HOME": "/home/somebody/.holon",
    "HOLON_EXTERNAL_TRIGGER_URL": TRIGGER,
    "WAKE": TRIGGER,
    "GIT_DIR": "/elsewhere/.git",
    "GIT_CONFIG_COUNT": "1",
    "KNOWN": f"prefix-{SECRET}-suffix",
}
OWN = {"HOLON_RUNTIME": "1", "HOLON_AGENT_ID": "main", "HOLON_AGENT_HOME": "/home/somebody/.holon/agents/main"}


def around(inherited: dict[str, str], *, sandboxed: bool = False, passed: frozenset[str] = frozenset()) -> Surroundings:
    return Surroundings(
        agent_id="main",
        agent_home=Path("/home/somebody/.holon/agents/main"),
        inherited=inherited,
        sandboxed=sandboxed,
        secrets=(SECRET, TRIGGER, "", "abc"),
        passed_through=passed,
    )


def test_on_the_host_everything_passes_but_secrets() -> None:
    made = command_environment(around(HARMLESS | TOOLCHAIN | SECRETS))
    assert made == HARMLESS | TOOLCHAIN | OWN


def test_in_the_sandbox_only_what_is_listed_passes() -> None:
    made = command_environment(around(HARMLESS | TOOLCHAIN | SECRETS, sandboxed=True))
    assert made == {name: value for name, value in HARMLESS.items() if name != "HOME"} | OWN


@pytest.mark.parametrize("sandboxed", [False, True])
def test_an_operator_can_let_a_name_through_but_never_a_known_secret(sandboxed: bool) -> None:
    names = frozenset({"GITHUB_TOKEN", "KNOWN", "HOLON_CONTROL_TOKEN"})
    made = command_environment(around(SECRETS, sandboxed=sandboxed, passed=names))
    assert {name for name in made if name in SECRETS} == {"GITHUB_TOKEN"}


@pytest.mark.parametrize("sandboxed", [False, True])
def test_a_command_without_anything_inherited_still_finds_programs(sandboxed: bool) -> None:
    made = command_environment(around({}, sandboxed=sandboxed))
    assert made == {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"} | OWN


def test_what_a_call_asks_for_is_set_but_no_call_can_pretend_to_be_another_agent() -> None:
    asked = {"PATH": "/mine", "API_KEY": "the agent's own", "HOLON_AGENT_ID": "other", "LEAK": SECRET, "URL": TRIGGER}
    made = command_environment(around(HARMLESS, sandboxed=True), asked)
    assert made == {
        "PATH": "/mine",
        "API_KEY": "the agent's own",
        **{name: HARMLESS[name] for name in ("LANG", "LC_ALL", "TERM", "TZ")},
        **OWN,
    }


@pytest.mark.parametrize("extra", [{"A=B": "x"}, {"": "x"}, {"1A": "x"}, {"A": "x\0y"}, {"A B": "x"}, {"Ä": "x"}])
def test_what_is_no_variable_is_refused_by_name(extra: dict[str, str]) -> None:
    with pytest.raises(InvalidEnvironment, match="letters, digits"):
        command_environment(around({}), extra)


def test_a_real_command_sees_exactly_this() -> None:
    made = command_environment(around(dict(os.environ) | SECRETS))
    printed = subprocess.run(
        [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"],
        env=made,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert SECRET not in printed
    assert '"HOLON_AGENT_ID": "main"' in printed
    assert not [name for name in SECRETS if f'"{name}"' in printed and name not in os.environ]


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,12}", fullmatch=True), st.text(max_size=40)), st.booleans())
def test_no_environment_whatever_brings_a_known_secret_along(inherited: dict[str, str], sandboxed: bool) -> None:
    spoilt = {name: f"{value}{SECRET}{value}" for name, value in inherited.items()}
    made = command_environment(around(spoilt, sandboxed=sandboxed, passed=frozenset(spoilt)))
    assert not [value for value in made.values() if SECRET in value]


@pytest.mark.parametrize("name", sorted(TOOLCHAIN))
def test_names_that_only_resemble_secrets_are_none(name: str) -> None:
    assert not looks_secret(name, TOOLCHAIN[name])
