"""Selection: from the models that an agent may use to the candidates of a round. It fails closed.

A model whose provider is unknown, or whose transport this build does not speak, becomes a candidate that is rejected
with a diagnosis: nothing is sent to it, and the next one is tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.core.models import CacheKind, ModelCard
from holon.core.values import Value
from holon.providers.attempts import DEFAULT_POLICY, Candidate, Rejected, RetryPolicy, Usable
from holon.providers.catalog import ProviderEntry as ProviderEntry
from holon.providers.catalog import configured
from holon.providers.contract import FailureKind, PromptCapability, Provider, ProviderFailure
from holon.providers.failures import failure_of
from holon.providers.models import ModelTable

if TYPE_CHECKING:
    from holon.providers.scripts import Script


class ModelRef(Value, frozen=True):
    """`provider/model`. Everything behind the first slash is the model's name, slashes included."""

    provider: str
    model: str

    @classmethod
    def parse(cls, text: str) -> ModelRef:
        provider, slash, model = text.partition("/")
        if not (provider and slash and model) or any(char.isspace() for char in provider) or text != text.strip():
            raise InvalidInput(
                f"{text!r} does not name a model: expected provider/model", hint="for example scripted/echo"
            )
        return cls(provider, model)

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


#: Makes the provider of an entry, on first use: a transport's client library is imported in here. It raises
#: `ProviderFailure` where the entry cannot be served, for example without a key.
TransportFactory = Callable[[ProviderEntry], Provider]


@runtime_checkable
class Transport(Protocol):
    """A provider that speaks to a service: it says what it does with prompts, and holds a connection."""

    def capabilities(self, card: ModelCard) -> frozenset[PromptCapability]: ...

    async def warm(self) -> None: ...

    async def close(self) -> None: ...


class ModelDiagnosis(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What the doctor says of one model."""

    model_ref: str
    capabilities: list[PromptCapability]
    supports_prompt_caching: bool


class ProviderDiagnosis(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the provider doctor."""

    provider: str
    transport: str
    available: bool
    #: Why it is not available, and what to do.
    problem: str | None
    retry_policy: RetryPolicy
    models: list[ModelDiagnosis]


class Providers:
    """The configured providers and the transports that exist. Holds no connection until a provider is used."""

    def __init__(
        self,
        entries: Iterable[ProviderEntry],
        transports: Mapping[str, TransportFactory],
        *,
        policy: RetryPolicy = DEFAULT_POLICY,
        models: ModelTable | None = None,
    ) -> None:
        self.policy = policy
        self.models = models or ModelTable()
        self._entries = {entry.name: entry for entry in entries}
        self._transports = dict(transports)
        self._open: dict[str, Provider] = {}
        #: Models that were asked for and can be used.
        self._usable: dict[str, Usable] = {}

    @classmethod
    def builtin(cls, *, home: Path | None = None, scripts: Mapping[str, Script | str] | None = None) -> Providers:
        """The scripted model alone: nothing here can reach a network."""
        return cls([ProviderEntry("scripted", "scripted")], {"scripted": _scripted(home, scripts)})

    @classmethod
    def from_configuration(
        cls,
        home: Path,
        own: Mapping[str, Any],
        environ: Mapping[str, str] = os.environ,
        *,
        models: ModelTable | None = None,
        policy: RetryPolicy = DEFAULT_POLICY,
        scripts: Mapping[str, Script | str] | None = None,
    ) -> Providers:
        """The scripted model, the built-in services and the operator's own (`providers` in config.json)."""
        table = models or ModelTable()
        transports = {"scripted": _scripted(home, scripts), **service_transports(table)}
        entries = [ProviderEntry("scripted", "scripted"), *configured(own, environ)]
        return cls(entries, transports, policy=policy, models=table)

    def candidates(self, model: str, fallbacks: Iterable[str] = ()) -> list[Candidate]:
        """The model and its fallbacks in order, each once."""
        return [self._candidate(model_ref) for model_ref in dict.fromkeys((model, *fallbacks))]

    def doctor(self, models: Iterable[str] = ()) -> list[ProviderDiagnosis]:
        """Whether each provider can be used, the retry policy in force, and what is known of the given models.

        Nothing is sent to any of them.
        """
        refs = list(dict.fromkeys(models))
        return [self._diagnosis(entry, refs) for _, entry in sorted(self._entries.items())]

    def capabilities(self, model_ref: str) -> frozenset[PromptCapability]:
        """What this model's transport does with prompts; nothing, for a model that cannot be used."""
        match self._candidate(model_ref):
            case Usable(provider=provider) if isinstance(provider, Transport):
                return provider.capabilities(self.models.card(model_ref))
            case Usable():
                return frozenset({PromptCapability.FULL_REQUEST_ONLY})
            case Rejected():
                return frozenset()

    def supports_prompt_caching(self, model_ref: str) -> bool:
        """Whether this model's prompts are cached: its table says how, and its transport does what that needs."""
        return caches(self.models.card(model_ref).cache.kind, self.capabilities(model_ref))

    def substitutes_with_caching(self, model_refs: Iterable[str]) -> list[str]:
        """Those that may stand in for a model whose prompts are cached."""
        return [model_ref for model_ref in model_refs if self.supports_prompt_caching(model_ref)]

    async def warm(self, model_refs: Iterable[str]) -> None:
        """Imports the SDKs of these models and makes their clients, so that the first turn does not wait for it."""
        for candidate in map(self._candidate, dict.fromkeys(model_refs)):
            if isinstance(candidate, Usable) and isinstance(candidate.provider, Transport):
                await candidate.provider.warm()

    async def close(self) -> None:
        """Closes the connections. A provider that is used again opens a new one."""
        for provider in self._open.values():
            if isinstance(provider, Transport):
                await provider.close()
        self._open.clear()
        self._usable.clear()

    def _candidate(self, model_ref: str) -> Candidate:
        if (known := self._usable.get(model_ref)) is not None:
            return known
        try:
            found = Usable(model_ref, self._provider(ModelRef.parse(model_ref).provider))
            self._usable[model_ref] = found
            return found
        except InvalidInput as error:
            return Rejected(model_ref, _rejection(str(error)))
        except ProviderFailure as failure:
            return Rejected(model_ref, failure)

    def _diagnosis(self, entry: ProviderEntry, models: list[str]) -> ProviderDiagnosis:
        problem = None
        try:
            self._provider(entry.name)
        except ProviderFailure as failure:
            problem = failure.message
        return ProviderDiagnosis(
            provider=entry.name,
            transport=entry.transport,
            available=problem is None,
            problem=problem,
            retry_policy=self.policy,
            models=[
                ModelDiagnosis(
                    model_ref=model_ref,
                    capabilities=sorted(self.capabilities(model_ref)),
                    supports_prompt_caching=self.supports_prompt_caching(model_ref),
                )
                for model_ref in models
                if model_ref.partition("/")[0] == entry.name
            ],
        )

    def _provider(self, name: str) -> Provider:
        """The provider of that name, made once. One that could not be made is tried again at the next call."""
        if name in self._open:
            return self._open[name]
        entry = self._entries.get(name)
        if entry is None:
            raise _rejection(f"there is no provider {name!r}: configured are {_listed(self._entries)}")
        factory = self._transports.get(entry.transport)
        if factory is None:
            raise _rejection(
                f"provider {name!r} asks for the transport {entry.transport!r}, which is not supported:"
                f" choose one of {_listed(self._transports)}"
            )
        if entry.problem is not None:
            raise ProviderFailure(entry.problem.kind, entry.problem.message)
        try:
            self._open[name] = factory(entry)
        except ProviderFailure:
            raise
        except ImportError as error:
            raise _rejection(f"provider {name!r} needs a package that is not installed: {error}") from error
        except Exception as error:  # the next candidate may still answer
            raise failure_of(error) from error
        return self._open[name]


def caches(kind: CacheKind, capabilities: frozenset[PromptCapability]) -> bool:
    """Explicit caches need a transport that sets marks; automatic ones need only a prefix that stays as it is."""
    match kind:
        case CacheKind.EXPLICIT:
            return PromptCapability.PROMPT_CACHE_BLOCKS in capabilities
        case CacheKind.AUTOMATIC:
            return bool(capabilities)
        case CacheKind.NONE:
            return False


def service_transports(models: ModelTable) -> dict[str, TransportFactory]:
    """The transports that speak to a service. Their SDKs are not imported here, only looked for."""

    def anthropic_messages(entry: ProviderEntry) -> Provider:
        from holon.providers.anthropic_messages import AnthropicMessages

        _needs("anthropic")
        return AnthropicMessages(entry)

    def openai_responses(entry: ProviderEntry) -> Provider:
        from holon.providers.openai_responses import OpenAIResponses

        _needs("openai")
        return OpenAIResponses(entry)

    def openai_codex_responses(entry: ProviderEntry) -> Provider:
        from holon.providers.openai_codex import OpenAICodex

        _needs("openai")
        return OpenAICodex(entry)

    def openai_chat_completions(entry: ProviderEntry) -> Provider:
        from holon.providers.openai_chat import OpenAIChat

        _needs("openai")
        return OpenAIChat(entry, models)

    factories = (anthropic_messages, openai_responses, openai_codex_responses, openai_chat_completions)
    return {factory.__name__: factory for factory in factories}


def _scripted(home: Path | None, scripts: Mapping[str, Script | str] | None) -> TransportFactory:
    def scripted(_entry: ProviderEntry) -> Provider:
        from holon.providers.scripted import ScriptedProvider

        return ScriptedProvider(scripts=scripts, home=home)

    return scripted


def _needs(package: str) -> None:
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}")


def _rejection(message: str) -> ProviderFailure:
    return ProviderFailure(FailureKind.UNSUPPORTED_TRANSPORT, message)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
