"""Settings: defaults, then `config.json` in the home, then `HOLON_*` variables, then what the caller says.

Every setting has one line in `SETTINGS`: `holon config schema` prints it, and the reader below works from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holon.context.padding import PaddingMode
from holon.core.errors import InvalidSettings
from holon.core.limits import Limits
from holon.core.policy import BackendChoice
from holon.core.retention import RetentionPolicy
from holon.core.skills import ActivationBudget
from holon.workspaces.policies import PolicyOptions

AUTH_MODES = ("auto", "required", "disabled")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    home: Path
    default_agent_id: str = "main"
    http_host: str = "127.0.0.1"
    http_port: int = 7878
    socket_path: Path
    advertise_url: str | None = None
    control_token: str | None = None
    control_auth_mode: str = "auto"
    model_default: str = "scripted/echo"
    model_fallbacks: list[str] = msgspec.field(default_factory=list)
    limits: Limits = Limits()
    retention: RetentionPolicy = RetentionPolicy()
    event_heartbeat_ms: int = 15_000
    padding: PaddingMode = PaddingMode.AUTO
    #: How many skills a session may load, and how long their index may be; and whose own skills the default agent sees.
    skills: ActivationBudget = ActivationBudget()
    user_home: Path | None = None
    #: How commands are confined, and how much of what they print a model sees (tokens: default, most).
    backend: BackendChoice = BackendChoice.HOST_LOCAL
    network: bool = False
    memory_mb: int = 4_096
    processes: int = 512
    time_limit_s: int | None = None
    readable: list[str] = msgspec.field(default_factory=list)
    workspace_roots: list[str] = msgspec.field(default_factory=list)
    default_tool_output_tokens: int = 8_000
    max_tool_output_tokens: int = 64_000
    #: The operator's own entries in the model table, and the providers that they configured.
    models: dict[str, Any] = msgspec.field(default_factory=dict)
    providers: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def execution(self) -> PolicyOptions:
        """What holds for commands beside the backend that they run on."""
        return PolicyOptions(
            network=self.network,
            memory_bytes=self.memory_mb << 20,
            process_count=self.processes,
            time_limit_s=self.time_limit_s,
            readable=tuple(Path(path).expanduser() for path in self.readable),
            workspace_roots=tuple(Path(path).expanduser() for path in self.workspace_roots) or None,
        )

    @property
    def database_path(self) -> Path:
        return self.home / "state" / "holon.sqlite3"

    @property
    def lock_path(self) -> Path:
        return self.home / "run" / "holon.lock"

    @property
    def agents_dir(self) -> Path:
        return self.home / "agents"

    @property
    def secret_path(self) -> Path:
        """The key that trigger URLs are signed with. It never leaves the home."""
        return self.home / "state" / "secret.key"

    def __repr__(self) -> str:
        return f"Settings(home={str(self.home)!r}, model_default={self.model_default!r})"  # never the token


class SettingLine(NamedTuple):
    """One setting: its key in `config.json`, its field, its variable, and what it is for."""

    key: str
    field: str
    kind: str
    env: str
    help: str


SETTINGS: tuple[SettingLine, ...] = (
    SettingLine(
        "agent.default", "default_agent_id", "text", "HOLON_AGENT_ID", "the agent that is meant when none is named"
    ),
    SettingLine(
        "http.addr",
        "http_addr",
        "host:port",
        "HOLON_HTTP_ADDR",
        "where the TCP listener binds; port 0 takes a free one",
    ),
    SettingLine("http.socket", "socket_path", "path", "HOLON_SOCKET_PATH", "the local socket, for this user only"),
    SettingLine(
        "http.advertise",
        "advertise_url",
        "text",
        "HOLON_CALLBACK_BASE_URL",
        "the base of trigger URLs, as outsiders reach it",
    ),
    SettingLine(
        "http.auth",
        "control_auth_mode",
        "auto|required|disabled",
        "HOLON_CONTROL_AUTH_MODE",
        "whether TCP callers need a token",
    ),
    SettingLine(
        "http.heartbeat_ms",
        "event_heartbeat_ms",
        "number",
        "HOLON_EVENT_HEARTBEAT_MS",
        "how often a silent event stream says that it lives",
    ),
    SettingLine(
        "model.default", "model_default", "text", "HOLON_MODEL", "the model of agents that have none of their own"
    ),
    SettingLine(
        "model.fallbacks", "model_fallbacks", "list", "HOLON_MODEL_FALLBACKS", "models to try next, separated by commas"
    ),
    SettingLine(
        "context.padding",
        "padding",
        "auto|always|never",
        "HOLON_CONTEXT_PADDING",
        "whether a short prompt is filled up to a provider's cache floor: auto does it where it pays",
    ),
    SettingLine(
        "execution.backend",
        "backend",
        "host_local|sandboxed|auto",
        "HOLON_EXECUTION_BACKEND",
        "how commands are confined: host_local is not, sandboxed needs bubblewrap, auto takes what is there",
    ),
    SettingLine(
        "execution.network",
        "network",
        "true|false",
        "HOLON_EXECUTION_NETWORK",
        "whether sandboxed commands share the machine's network",
    ),
    SettingLine(
        "execution.memory_mb",
        "memory_mb",
        "number",
        "HOLON_EXECUTION_MEMORY_MB",
        "memory for all sandboxed commands of an agent together, where control groups can be made, else for each",
    ),
    SettingLine(
        "execution.processes",
        "processes",
        "number",
        "HOLON_EXECUTION_PROCESSES",
        "processes and threads of all sandboxed commands of an agent together",
    ),
    SettingLine(
        "execution.time_limit_s",
        "time_limit_s",
        "number",
        "HOLON_EXECUTION_TIME_LIMIT_S",
        "after how many seconds a command is ended, also as a task; without it never",
    ),
    SettingLine(
        "execution.readable",
        "readable",
        "list",
        "HOLON_EXECUTION_READABLE",
        "folders that sandboxed commands may read beside the system, such as compilers, separated by commas",
    ),
    SettingLine(
        "execution.workspace_roots",
        "workspace_roots",
        "list",
        "HOLON_EXECUTION_WORKSPACE_ROOTS",
        "below these folders agents may attach workspaces by themselves; without any only unconfined ones may",
    ),
    SettingLine(
        "runtime.default_tool_output_tokens",
        "default_tool_output_tokens",
        "number",
        "HOLON_DEFAULT_TOOL_OUTPUT_TOKENS",
        "how much of a command's output a model sees if it does not ask for more",
    ),
    SettingLine(
        "runtime.max_tool_output_tokens",
        "max_tool_output_tokens",
        "number",
        "HOLON_MAX_TOOL_OUTPUT_TOKENS",
        "how much of a command's output a model may ask for",
    ),
    SettingLine("models", "models", "object", "HOLON_MODELS", "own entries in the model table, by model reference"),
    SettingLine("providers", "providers", "object", "HOLON_PROVIDERS", "own providers: transport, base_url, key"),
)

#: With less no command can start: what starts it is held to the same.
_LEAST = {"execution.memory_mb": 64, "execution.processes": 8}

_TOKEN_ENV = "HOLON_CONTROL_TOKEN"


def load_settings(home: Path | None = None, environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """The effective settings of one home."""
    home = Path(home or environ.get("HOLON_HOME") or "~/.holon").expanduser().absolute()
    values: dict[str, Any] = {"home": home, "socket_path": home / "run" / "holon.sock"}
    file = read_file(home)
    for line in SETTINGS:
        text = environ.get(line.env) or file.get(line.key)
        if text is not None:
            values.update(_parsed(line, text))
    values["limits"] = _struct(Limits, file, "limits", environ)
    values["retention"] = _struct(RetentionPolicy, file, "retention", environ)
    values["skills"] = _struct(ActivationBudget, file, "skills", environ)
    if environ.get("HOME"):
        values["user_home"] = Path(environ["HOME"])
    values["control_token"] = environ.get(_TOKEN_ENV) or None
    values.update({key: value for key, value in overrides.items() if value is not None})
    return Settings(**values)


def read_file(home: Path) -> dict[str, Any]:
    """`config.json` as it is, checked for unknown keys."""
    path = home / "config.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidSettings(f"{path} cannot be read ({error})", hint="mend it, or move it aside") from error
    if not isinstance(found, dict):
        raise InvalidSettings(f"{path} must hold an object", hint='for example {"model.default": "scripted/echo"}')
    for key in found:
        _line(key)
    return found


def describe() -> list[SettingLine]:
    """All keys that `config.json` may have."""
    lines = list(SETTINGS)
    for prefix, struct in (("limits", Limits), ("retention", RetentionPolicy), ("skills", ActivationBudget)):
        for field in msgspec.structs.fields(struct):
            env = f"HOLON_{prefix}_{field.name}".upper()
            lines.append(SettingLine(f"{prefix}.{field.name}", field.name, "number", env, f"default {field.default}"))
    return lines


def set_value(home: Path, key: str, text: str) -> None:
    """Writes one key, if the settings are valid with it."""
    if not text.strip() and _line(key).kind != "list":
        raise InvalidSettings(f"{key} may not be empty", hint=f"'holon config unset {key}' brings its default back")
    found = read_file(home)
    value: Any = text
    if _line(key).kind in ("number", "list") or key.split(".")[0] in ("limits", "retention", "skills"):
        value = (
            [part.strip() for part in text.split(",") if part.strip()]
            if _line(key).kind == "list"
            else _scalar(key, text)
        )
    _check_models(key, value)
    _write(home, {**found, key: value})


def unset_value(home: Path, key: str) -> bool:
    found = read_file(home)
    present = found.pop(_line(key).key, None) is not None
    if present:
        _write(home, found)
    return present


def _write(home: Path, values: dict[str, Any]) -> None:
    for line in SETTINGS:
        if line.key in values:
            _parsed(line, values[line.key])
    _struct(Limits, values, "limits", {})
    _struct(RetentionPolicy, values, "retention", {})
    _struct(ActivationBudget, values, "skills", {})
    from holon.store.homes import make_home  # only who writes needs it

    make_home(home)
    path = home / "config.json"
    beside = path.with_suffix(".json.new")
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _check_models(key: str, value: Any) -> None:
    """What names no model is refused here: every turn would fail of it later."""
    if key in ("model.default", "model.fallbacks"):
        from holon.providers.selection import ModelRef  # only who writes needs it

        for ref in [value] if isinstance(value, str) else value:
            ModelRef.parse(ref)


def _line(key: str) -> SettingLine:
    for line in describe():
        if line.key == key:
            return line
    raise InvalidSettings(f"there is no setting {key!r}", hint="'holon config schema' lists them all")


def _parsed(line: SettingLine, value: Any) -> dict[str, Any]:
    try:
        match line.kind:
            case "number":
                number, least = int(value), _LEAST.get(line.key, 1)
                if number < least:
                    raise ValueError(f"it must be at least {least}")
                return {line.field: number}
            case "list":
                return {
                    line.field: [part.strip() for part in value.split(",") if part.strip()]
                    if isinstance(value, str)
                    else list(value)
                }
            case "path":
                return {line.field: Path(value).expanduser().absolute()}
            case "host:port":
                host, _, port = str(value).rpartition(":")
                if not host or not 0 <= int(port) <= 65_535:
                    raise ValueError("write it as 127.0.0.1:7878")
                return {"http_host": host, "http_port": int(port)}
            case "auto|required|disabled":
                if value not in AUTH_MODES:
                    raise ValueError("choose auto, required or disabled")
                return {line.field: value}
            case "auto|always|never":
                return {line.field: PaddingMode(value)}
            case "host_local|sandboxed|auto":
                return {line.field: BackendChoice(value)}
            case "true|false":
                if str(value).lower() not in ("true", "false"):
                    raise ValueError("choose true or false")
                return {line.field: str(value).lower() == "true"}
            case "object":
                parsed = json.loads(value) if isinstance(value, str) else value
                if not isinstance(parsed, dict):
                    raise ValueError("write a JSON object")
                return {line.field: parsed}
            case _:
                return {line.field: str(value)}
    except (TypeError, ValueError) as error:
        raise InvalidSettings(f"{line.key} = {value!r} is not valid ({error})", hint=f"it is {line.help}") from error


def _struct(type_: Any, file: Mapping[str, Any], prefix: str, environ: Mapping[str, str]) -> Any:
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(type_):
        key = f"{prefix}.{field.name}"
        text = environ.get(f"HOLON_{prefix}_{field.name}".upper(), file.get(key))
        if text is not None:
            given[field.name] = _scalar(key, text)
            least = _least(field.name)
            if not given[field.name] >= least:
                raise InvalidSettings(f"{key} must be at least {least}", hint="leave it out for the default")
    try:
        return msgspec.convert(given, type_)
    except msgspec.ValidationError as error:
        raise InvalidSettings(f"{prefix}: {error}", hint="'holon config schema' shows the defaults") from error


def _scalar(key: str, text: Any) -> Any:
    if isinstance(text, (bool, int, float)):
        return text
    if str(text).lower() in ("true", "false"):
        return str(text).lower() == "true"
    try:
        number = float(str(text).replace("_", ""))
    except ValueError as error:
        raise InvalidSettings(f"{key} = {text!r} is not a number", hint="write digits only") from error
    return int(number) if number.is_integer() else number


def _least(name: str) -> int:
    """The smallest value that makes sense: no turns of its own, or no money, is a wish; no rounds is a mistake."""
    return 0 if name.startswith(("self_turn", "dollars_", "max_bytes", "output_bytes", "enabled")) else 1
