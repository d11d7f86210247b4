"""The catalogue of providers: those that are built in, and what an operator's configuration adds or changes.

Built in are only services whose address and key fit a transport as it is. What needs a sign-in of its own, a chain of
credentials or a gateway that must be found is left to explicit configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from holon.core.codec import Input, InvalidShape, from_plain
from holon.core.errors import InvalidSettings
from holon.core.values import Value
from holon.providers.contract import FailureKind
from holon.providers.options import (
    AnthropicOptions,
    ChatOptions,
    CodexOptions,
    ResponsesOptions,
    TransportOptions,
)
from holon.providers.secrets import Secret

#: The transports that speak to a service, with what can be set for each.
OPTIONS: dict[str, type[TransportOptions]] = {
    "anthropic_messages": AnthropicOptions,
    "openai_responses": ResponsesOptions,
    "openai_codex_responses": CodexOptions,
    "openai_chat_completions": ChatOptions,
}


class Problem(Value, frozen=True):
    """Why an entry cannot be used, and what to do."""

    kind: FailureKind
    message: str


class ProviderEntry(Value, frozen=True):
    """A configured provider: its name in model refs, the transport contract that it speaks, and how it is reached."""

    name: str
    transport: str
    base_url: str = ""
    key: Secret | None = None
    #: Headers from the environment; those from the configuration stand in its options.
    secret_headers: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    options: TransportOptions = msgspec.field(default_factory=TransportOptions)
    #: Whether the service is that of the SDK's maker: only then does it get what the SDK's own variables say.
    native: bool = False
    problem: Problem | None = None

    @property
    def secrets(self) -> list[Secret]:
        return [*([self.key] if self.key else []), *self.secret_headers.values()]


class ProviderSettings(Input, frozen=True, kw_only=True):
    """One entry under `providers` in config.json. For a name that is built in, it changes what it names."""

    transport: str | None = None
    base_url: str | None = None
    #: The environment variable that holds the key. `null` for a service that takes requests without one.
    api_key_env: str | msgspec.UnsetType | None = msgspec.UNSET
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class BuiltIn(Value, frozen=True):
    name: str
    transport: str
    #: Where the service is, unless one of `url_env` says otherwise.
    base_url: str = ""
    url_env: tuple[str, ...] = ()
    #: Where its key may stand; the first that is set.
    key_env: tuple[str, ...] = ()
    key_needed: bool = True
    native: bool = False


BUILT_IN = (
    BuiltIn(
        "anthropic",
        "anthropic_messages",
        "https://api.anthropic.com",
        ("HOLON_ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL"),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        native=True,
    ),
    BuiltIn(
        "openai",
        "openai_responses",
        "https://api.openai.com/v1",
        ("HOLON_OPENAI_BASE_URL", "OPENAI_BASE_URL"),
        ("OPENAI_API_KEY",),
        native=True,
    ),
    BuiltIn(
        "openai-codex",
        "openai_codex_responses",
        url_env=("HOLON_OPENAI_CODEX_BASE_URL",),
        key_env=("OPENAI_CODEX_API_KEY",),
    ),
    BuiltIn(
        "openrouter",
        "openai_chat_completions",
        "https://openrouter.ai/api/v1",
        ("HOLON_OPENROUTER_BASE_URL",),
        ("OPENROUTER_API_KEY",),
    ),
    BuiltIn(
        "ollama",
        "openai_chat_completions",
        "http://127.0.0.1:11434/v1",
        ("HOLON_OLLAMA_BASE_URL",),
        key_needed=False,
    ),
    BuiltIn(
        "vllm",
        "openai_chat_completions",
        "http://127.0.0.1:8000/v1",
        ("HOLON_VLLM_BASE_URL",),
        ("VLLM_API_KEY",),
        key_needed=False,
    ),
)


def configured(own: Mapping[str, Any], environ: Mapping[str, str]) -> list[ProviderEntry]:
    """The built-in providers and the operator's own. Raises `InvalidSettings` for what is not a configuration."""
    known = {each.name: each for each in BUILT_IN}
    settings = {name: _settings(name, given) for name, given in own.items()}
    names = [*known, *(name for name in settings if name not in known)]
    return [_entry(known.get(name, BuiltIn(name, "")), settings.get(name), environ) for name in names]


def _settings(name: str, given: Any) -> ProviderSettings:
    if not name or "/" in name or name != name.strip() or name == "scripted":
        raise InvalidSettings(f"providers.{name}: this name cannot be used", hint="use a word without a slash")
    try:
        return from_plain(given, ProviderSettings)
    except InvalidShape as error:
        raise InvalidSettings(f"providers.{name}: {error}", hint="see docs/models.md for the form") from error


def _entry(known: BuiltIn, own: ProviderSettings | None, environ: Mapping[str, str]) -> ProviderEntry:
    own = own or ProviderSettings()
    transport = own.transport or known.transport
    if not transport:
        raise InvalidSettings(
            f"providers.{known.name} needs a transport", hint="choose one of " + ", ".join(sorted(OPTIONS))
        )
    options = _options(known.name, transport, own.options)
    base_url = own.base_url or _first(known.url_env, environ) or known.base_url
    key_env, key_needed = known.key_env, known.key_needed and bool(known.key_env)
    if own.api_key_env is not msgspec.UNSET:
        key_env, key_needed = ((own.api_key_env,), True) if own.api_key_env else ((), False)
    key = _first(key_env, environ)
    headers = {name: _first((env,), environ) for name, env in options.header_env.items()}
    return ProviderEntry(
        name=known.name,
        transport=transport,
        base_url=base_url,
        key=Secret(key) if key else None,
        secret_headers={name: Secret(value) for name, value in headers.items()},
        options=options,
        native=known.native and own.base_url is None,
        problem=(
            _address_problem(known, base_url)
            or _key_problem(known.name, key, key_env if key_needed else ())
            or _header_problem(known.name, headers, options.header_env)
        ),
    )


def _options(name: str, transport: str, given: dict[str, Any]) -> TransportOptions:
    """The options of a transport that is known. One that is not is refused when it is chosen, whatever its options."""
    type_ = OPTIONS.get(transport)
    if type_ is None:
        return TransportOptions()
    try:
        return from_plain(given, type_)
    except InvalidShape as error:
        raise InvalidSettings(
            f"providers.{name}.options: {error}", hint="see docs/models.md for the options"
        ) from error


def _address_problem(known: BuiltIn, base_url: str) -> Problem | None:
    kind, name = FailureKind.UNSUPPORTED_TRANSPORT, known.name
    if not base_url:
        where = f"set {known.url_env[0]} or " if known.url_env else "set "
        return Problem(kind, f"provider {name!r} has no address: {where}providers.{name}.base_url")
    if not _is_address(base_url):
        return Problem(kind, f"the address of provider {name!r} is none: expected http:// or https:// and a host")
    if "@" in urlsplit(base_url).netloc:
        return Problem(kind, f"the address of provider {name!r} holds a password: use api_key_env or header_env")
    return None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _key_problem(name: str, key: str, needed: tuple[str, ...]) -> Problem | None:
    if needed and not key:
        return Problem(FailureKind.AUTH_ERROR, f"provider {name!r} has no key: set {' or '.join(needed)}")
    if not _fits_a_header(key):
        return Problem(FailureKind.AUTH_ERROR, f"the key of provider {name!r} has characters that no key has")
    return None


def _header_problem(name: str, headers: Mapping[str, str], variables: Mapping[str, str]) -> Problem | None:
    for header, value in headers.items():
        if not value or not _fits_a_header(value):
            message = f"provider {name!r} has no value for the header {header}: set {variables[header]}"
            return Problem(FailureKind.AUTH_ERROR, message)
    return None


def _fits_a_header(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")
