"""Settings: defaults, the file, the environment, the caller, in this order; and errors that name the key."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from holon.core.errors import InvalidSettings
from holon.core.limits import Limits
from holon.core.retention import RetentionPolicy
from holon.runtime.settings import Settings, describe, load_settings, read_file, set_value, unset_value
from holon.runtime.status import fingerprint
from holon.server import tokens
from holon.store.leases import HomeLock


def write(home: Path, content: Any) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.json").write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.spec("RT-056")
def test_the_defaults_are_local_and_need_no_key(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings(
        home=tmp_path,
        default_agent_id="main",
        http_host="127.0.0.1",
        http_port=7878,
        socket_path=tmp_path / "run" / "holon.sock",
        advertise_url=None,
        control_token=None,
        control_auth_mode="auto",
        model_default="scripted/echo",
        model_fallbacks=[],
        limits=Limits(),
        retention=RetentionPolicy(),
        event_heartbeat_ms=15_000,
    )


def test_the_home_is_what_the_caller_says_else_the_variable_else_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert load_settings(tmp_path / "said", {"HOLON_HOME": "/elsewhere"}).home == tmp_path / "said"
    assert load_settings(None, {"HOLON_HOME": str(tmp_path / "var")}).home == tmp_path / "var"
    assert load_settings(None, {"HOLON_HOME": "~/x"}).home == tmp_path / "user" / "x"
    assert load_settings(None, {}).home == tmp_path / "user" / ".holon"
    monkeypatch.chdir(tmp_path)
    assert load_settings(Path("relative"), {}).home == tmp_path / "relative"


def test_everything_of_a_home_lies_in_it(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {})
    assert {
        settings.database_path.relative_to(tmp_path),
        settings.lock_path.relative_to(tmp_path),
        settings.agents_dir.relative_to(tmp_path),
        settings.secret_path.relative_to(tmp_path),
    } == {Path("state/holon.sqlite3"), Path("run/holon.lock"), Path("agents"), Path("state/secret.key")}


@pytest.mark.spec("RT-056")
def test_the_environment_wins_over_the_file_and_the_caller_over_both(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "agent.default": "from-file",
            "http.addr": "0.0.0.0:80",
            "model.default": "scripted/file",
            "model.fallbacks": ["a/b", "c/d"],
            "limits.self_turns": 7,
            "limits.queue_length": 5,
            "retention.events_days": 3,
        },
    )
    settings = load_settings(tmp_path, {})
    assert (settings.default_agent_id, settings.http_host, settings.http_port) == ("from-file", "0.0.0.0", 80)
    assert (settings.model_default, settings.model_fallbacks) == ("scripted/file", ["a/b", "c/d"])
    assert (settings.limits.self_turns, settings.limits.queue_length) == (7, 5)
    assert settings.retention.events_days == 3
    environ = {
        "HOLON_AGENT_ID": "from-env",
        "HOLON_HTTP_ADDR": "127.0.0.1:0",
        "HOLON_MODEL": "scripted/env",
        "HOLON_MODEL_FALLBACKS": " e/f , g/h,",
        "HOLON_LIMITS_SELF_TURNS": "1_000",
        "HOLON_RETENTION_ENABLED": "false",
        "HOLON_CALLBACK_BASE_URL": "https://agents.example.org",
        "HOLON_CONTROL_AUTH_MODE": "required",
        "HOLON_CONTROL_TOKEN": "secret",
        "HOLON_SOCKET_PATH": "/tmp/x.sock",
        "HOLON_EVENT_HEARTBEAT_MS": "50",
    }
    settings = load_settings(tmp_path, environ)
    assert (settings.default_agent_id, settings.http_host, settings.http_port) == ("from-env", "127.0.0.1", 0)
    assert (settings.model_default, settings.model_fallbacks) == ("scripted/env", ["e/f", "g/h"])
    assert (settings.limits.self_turns, settings.limits.queue_length) == (1_000, 5)
    assert (settings.retention.enabled, settings.retention.events_days) == (False, 3)
    assert (settings.advertise_url, settings.control_auth_mode) == ("https://agents.example.org", "required")
    assert (settings.control_token, settings.socket_path) == ("secret", Path("/tmp/x.sock"))
    assert settings.event_heartbeat_ms == 50
    said = load_settings(tmp_path, environ, default_agent_id="said", model_default=None)
    assert (said.default_agent_id, said.model_default) == ("said", "scripted/env")


def test_an_empty_variable_is_no_variable(tmp_path: Path) -> None:
    write(tmp_path, {"model.default": "scripted/file"})
    settings = load_settings(tmp_path, {"HOLON_MODEL": "", "HOLON_CONTROL_TOKEN": "", "HOLON_HOME": ""})
    assert (settings.model_default, settings.control_token) == ("scripted/file", None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{broken", "cannot be read"),
        ("[1]", "must hold an object"),
        ({"model.defualt": "x"}, "there is no setting 'model.defualt'"),
        ({"limits.nope": 1}, "there is no setting 'limits.nope'"),
        ({"http.addr": "nowhere"}, "http.addr = 'nowhere' is not valid"),
        ({"http.addr": "127.0.0.1:99999"}, "http.addr"),
        ({"http.auth": "maybe"}, "choose auto, required or disabled"),
        ({"http.heartbeat_ms": 0}, "at least 1"),
        ({"execution.memory_mb": 16}, "at least 64"),
        ({"execution.processes": 2}, "at least 8"),
        ({"http.heartbeat_ms": "soon"}, "http.heartbeat_ms"),
        ({"model.fallbacks": 5}, "model.fallbacks"),
        ({"limits.self_turns": "many"}, "limits.self_turns = 'many' is not a number"),
        ({"limits.self_turns": True}, "self_turns"),
        ({"limits.concurrent_turns": 0}, "limits.concurrent_turns"),
        ({"limits.rounds_per_turn": -1}, "limits.rounds_per_turn"),
        ({"limits.self_turns": -1}, "limits.self_turns"),
        ({"retention.events_days": 0}, "events_days"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_key(tmp_path: Path, content: Any, said: str) -> None:
    write(tmp_path, content)
    with pytest.raises(InvalidSettings) as refused:
        load_settings(tmp_path, {})
    assert said in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"HOLON_HTTP_ADDR": "7878"}, "http.addr"),
        ({"HOLON_CONTROL_AUTH_MODE": "off"}, "http.auth"),
        ({"HOLON_LIMITS_QUEUE_LENGTH": "big"}, "limits.queue_length"),
        ({"HOLON_LIMITS_CONCURRENT_TURNS": "0"}, "limits.concurrent_turns"),
        ({"HOLON_RETENTION_EVENTS_DAYS": "-3"}, "events_days"),
    ],
)
def test_a_variable_that_is_wrong_is_refused_with_the_key(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        load_settings(tmp_path, environ)
    assert said in str(refused.value)


def test_an_agent_may_be_kept_from_every_turn_of_its_own(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {"HOLON_LIMITS_SELF_TURNS": "0"}).limits.self_turns == 0


def test_money_may_be_written_with_a_point(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {"HOLON_LIMITS_DOLLARS_PER_TURN": "0.25"}).limits.dollars_per_turn == 0.25
    set_value(tmp_path, "limits.dollars_per_turn", "1.5")
    assert load_settings(tmp_path, {}).limits.dollars_per_turn == 1.5
    for text in ("-1", "nan"):
        with pytest.raises(InvalidSettings, match=r"limits\.dollars_per_turn"):
            load_settings(tmp_path, {"HOLON_LIMITS_DOLLARS_PER_TURN": text})


def test_every_setting_is_described_and_can_be_set_by_its_variable(tmp_path: Path) -> None:
    lines = describe()
    assert len({line.key for line in lines}) == len(lines) == len({line.env for line in lines})
    assert all(line.help and line.env.startswith("HOLON_") for line in lines)
    assert {f"limits.{name}" for name in Limits.__struct_fields__} <= {line.key for line in lines}
    assert {f"retention.{name}" for name in RetentionPolicy.__struct_fields__} <= {line.key for line in lines}
    assert "HOLON_CONTROL_TOKEN" not in {line.env for line in lines}, "secrets do not belong in a file"


def test_a_key_is_written_whole_and_taken_away_again(tmp_path: Path) -> None:
    home = tmp_path / "new"
    set_value(home, "model.default", "scripted/demo")
    set_value(home, "limits.self_turns", "9")
    set_value(home, "model.fallbacks", "a/b, c/d")
    set_value(home, "http.heartbeat_ms", "100")
    assert read_file(home) == {
        "http.heartbeat_ms": 100,
        "limits.self_turns": 9,
        "model.default": "scripted/demo",
        "model.fallbacks": ["a/b", "c/d"],
    }
    settings = load_settings(home, {})
    assert (settings.model_default, settings.limits.self_turns) == ("scripted/demo", 9)
    assert unset_value(home, "model.default") is True
    assert unset_value(home, "model.default") is False
    assert load_settings(home, {}).model_default == "scripted/echo"
    assert [file.name for file in home.iterdir()] == ["config.json"], "no half-written file is left"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("nope", "1"),
        ("http.auth", "maybe"),
        ("limits.self_turns", "x"),
        ("limits.concurrent_turns", "0"),
        ("http.addr", "x"),
        ("retention.events_days", "0"),
    ],
)
def test_what_is_not_valid_is_not_written(tmp_path: Path, key: str, text: str) -> None:
    set_value(tmp_path, "model.default", "scripted/demo")
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(InvalidSettings):
        set_value(tmp_path, key, text)
    assert (tmp_path / "config.json").read_text() == before


def test_the_token_shows_in_no_words_about_the_settings(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {"HOLON_CONTROL_TOKEN": "very-secret"})
    assert "very-secret" not in repr(settings)
    assert "very-secret" not in str(settings)
    without = load_settings(tmp_path, {})
    assert fingerprint(settings) == fingerprint(without)
    assert fingerprint(load_settings(tmp_path, {"HOLON_MODEL": "a/b"})) != fingerprint(without)


def test_the_output_of_commands_may_be_kept_without_a_bound_but_not_for_no_time(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {"HOLON_RETENTION_OUTPUT_BYTES": "0"}).retention.output_bytes == 0
    with pytest.raises(InvalidSettings, match=r"retention\.output_days"):
        load_settings(tmp_path, {"HOLON_RETENTION_OUTPUT_DAYS": "0"})


def test_limits_on_children_are_settings_like_the_others(tmp_path: Path) -> None:
    set_value(tmp_path, "limits.live_children", "3")
    limits = load_settings(tmp_path, {"HOLON_LIMITS_CHILD_DEPTH": "2"}).limits
    assert (limits.live_children, limits.child_depth, limits.home_children) == (3, 2, 256)


@pytest.mark.parametrize("how", ["setting", "token", "lock"])
def test_a_home_is_made_for_its_owner_alone_and_one_that_is_there_stays_as_open_as_it_is(
    tmp_path: Path, how: str
) -> None:
    def begin(home: Path) -> None:
        match how:
            case "setting":
                set_value(home, "model.default", "scripted/echo")
            case "token":
                tokens.issue(home, "laptop")
            case _:
                HomeLock(home / "run" / "holon.lock").acquire("test")

    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    before = os.umask(0o022)
    try:
        begin(tmp_path / "folder" / "home")
        begin(shared)
    finally:
        os.umask(before)

    modes = {path: stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("folder", "folder/home", "shared")}
    assert modes == {"folder": 0o755, "folder/home": 0o700, "shared": 0o755}


def test_an_empty_list_may_be_set_and_an_empty_text_may_not(tmp_path: Path) -> None:
    set_value(tmp_path, "model.fallbacks", "")
    with pytest.raises(InvalidSettings, match="may not be empty"):
        set_value(tmp_path, "agent.default", " ")
    assert read_file(tmp_path) == {"model.fallbacks": []}
