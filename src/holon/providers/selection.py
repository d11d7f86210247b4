"""Selection: from the models that an agent may use to the candidates of a round. It fails closed.

A model whose provider is unknown, or whose transport this build does not speak, becomes a candidate that is rejected
with a diagnosis: nothing is sent to it, and the next one is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.providers.attempts import DEFAULT_POLICY, Candidate, Rejected, RetryPolicy, Usable
from holon.providers.contract import FailureKind, Provider, ProviderFailure
from holon.providers.failures import failure_of

if TYPE_CHECKING:
    from holon.providers.scripts import Script


@dataclass(frozen=True, slots=True)
class ModelRef:
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


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """A configured provider: its name in model refs, and the transport contract that it speaks."""

    name: str
    transport: str


#: Makes the provider of an entry, on first use: a transport's client library is imported in here. It raises
#: `ProviderFailure` where the entry cannot be served, for example without a key.
TransportFactory = Callable[[ProviderEntry], Provider]


class ProviderDiagnosis(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the provider doctor."""

    provider: str
    transport: str
    available: bool
    #: Why it is not available, and what to do.
    problem: str | None
    retry_policy: RetryPolicy


class Providers:
    """The configured providers and the transports that exist. Holds no connection until a provider is used."""

    def __init__(
        self,
        entries: Iterable[ProviderEntry],
        transports: Mapping[str, TransportFactory],
        *,
        policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self.policy = policy
        self._entries = {entry.name: entry for entry in entries}
        self._transports = dict(transports)
        self._open: dict[str, Provider] = {}

    @classmethod
    def builtin(cls, *, home: Path | None = None, scripts: Mapping[str, Script | str] | None = None) -> Providers:
        """What is there without configuration: the scripted model."""

        def scripted(_entry: ProviderEntry) -> Provider:
            from holon.providers.scripted import ScriptedProvider

            return ScriptedProvider(scripts=scripts, home=home)

        return cls([ProviderEntry("scripted", "scripted")], {"scripted": scripted})

    def candidates(self, model: str, fallbacks: Iterable[str] = ()) -> list[Candidate]:
        """The model and its fallbacks in order, each once."""
        return [self._candidate(model_ref) for model_ref in dict.fromkeys((model, *fallbacks))]

    def doctor(self) -> list[ProviderDiagnosis]:
        """Whether each provider can be used, and the retry policy in force. Nothing is sent to any of them."""
        return [self._diagnosis(entry) for _, entry in sorted(self._entries.items())]

    def _candidate(self, model_ref: str) -> Candidate:
        try:
            return Usable(model_ref, self._provider(ModelRef.parse(model_ref).provider))
        except InvalidInput as error:
            return Rejected(model_ref, _rejection(str(error)))
        except ProviderFailure as failure:
            return Rejected(model_ref, failure)

    def _diagnosis(self, entry: ProviderEntry) -> ProviderDiagnosis:
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
        try:
            self._open[name] = factory(entry)
        except ProviderFailure:
            raise
        except ImportError as error:
            raise _rejection(f"provider {name!r} needs a package that is not installed: {error}") from error
        except Exception as error:  # the next candidate may still answer
            raise failure_of(error) from error
        return self._open[name]


def _rejection(message: str) -> ProviderFailure:
    return ProviderFailure(FailureKind.UNSUPPORTED_TRANSPORT, message)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
