"""The model table: read once from `models.toml`, with the operator's own entries in front of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import msgspec

from holon.core.errors import InvalidSettings
from holon.core.models import CacheRules, ModelCard, Prices

#: Models whose card is kept as it was found.
ASKED = 256


class ModelTable:
    """Finds a model's card by the longest match. An unknown model gets careful defaults, and says so."""

    def __init__(self, own: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._cards = dict(_shipped())
        for match, given in (own or {}).items():
            self._cards[match] = _own_card(match, given, self._cards.get(match))
        self._asked: dict[str, ModelCard] = {}

    def card(self, model_ref: str) -> ModelCard:
        if (known := self._asked.get(model_ref)) is None:
            if len(self._asked) >= ASKED:
                self._asked.clear()
            known = self._asked[model_ref] = self._find(model_ref)
        return known

    def _find(self, model_ref: str) -> ModelCard:
        matches = [match for match in self._cards if model_ref.startswith(match)]
        if not matches:
            return ModelCard(model_ref=model_ref, display_name=model_ref)
        return msgspec.structs.replace(self._cards[max(matches, key=len)], model_ref=model_ref)

    def cards(self) -> list[ModelCard]:
        """All entries, by reference."""
        return [card for _, card in sorted(self._cards.items())]


@lru_cache(maxsize=1)
def _shipped() -> dict[str, ModelCard]:
    data = tomllib.loads((resources.files("holon.providers") / "models.toml").read_text())
    rules: dict[str, dict[str, Any]] = data["cache"]
    cards: dict[str, ModelCard] = {}
    for entry in data["model"]:
        cache = dict(entry.pop("cache"))
        cache = {**rules.get(cache.pop("rules", ""), {}), **cache}
        match = entry.pop("match")
        cards[match] = msgspec.convert(
            {**entry, "model_ref": match, "cache": cache, "source": "built_in_catalog"}, ModelCard
        )
    return cards


def _own_card(match: str, given: Mapping[str, Any], known: ModelCard | None) -> ModelCard:
    """An operator's entry changes what it names and leaves the rest as it was."""
    base: dict[str, Any] = {"model_ref": match, "display_name": match}
    if known is not None:
        base = msgspec.to_builtins(known)
    for part, type_ in (("cache", CacheRules), ("prices", Prices)):
        allowed = {field.name for field in msgspec.structs.fields(type_)}
        _refuse_unknown(f"models.{match}.{part}", given.get(part, {}), allowed)
    _refuse_unknown(f"models.{match}", given, {field.name for field in msgspec.structs.fields(ModelCard)})
    merged = {
        **base,
        **given,
        "cache": {**base.get("cache", {}), **given.get("cache", {})},
        "prices": {**base.get("prices", {}), **given.get("prices", {})},
        "source": "config_override",
    }
    try:
        return msgspec.convert(merged, ModelCard)
    except msgspec.ValidationError as error:
        raise InvalidSettings(f"models.{match}: {error}", hint="see 'holon models --json' for the form") from error


def _refuse_unknown(where: str, given: Mapping[str, Any], allowed: set[str]) -> None:
    if unknown := sorted(set(given) - allowed):
        raise InvalidSettings(f"{where} has no field {unknown[0]!r}", hint="it may have: " + ", ".join(sorted(allowed)))
