"""Every record of the vocabulary, with every field set: it comes back equal from what is stored and sent."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

import holon.core
from holon.core.codec import Input, Record, dumps, from_plain, loads, to_plain
from holon.core.events import EventPayload
from tests.core.samples import full, smallest

MODULES = [importlib.import_module(f"holon.core.{module.name}") for module in pkgutil.iter_modules(holon.core.__path__)]
RECORDS: dict[str, Any] = {
    f"{value.__module__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, type)
    and issubclass(value, Record | Input)
    and value.__module__ == module.__name__
    and value not in (Record, Input, EventPayload)
    and not name.startswith("_")
}


def test_the_vocabulary_is_found():
    assert {"holon.core.messages.MessageEnvelope", "holon.core.agents.AgentState", "holon.core.limits.Limits"} <= set(
        RECORDS
    )


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_record_with_every_field_set_comes_back_equal(name: str):
    record = full(RECORDS[name])
    assert loads(dumps(record), RECORDS[name]) == record
    assert from_plain(to_plain(record), RECORDS[name]) == record


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_record_with_only_what_it_must_have_comes_back_equal(name: str):
    record = smallest(RECORDS[name])
    assert loads(dumps(record), RECORDS[name]) == record


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_everything_on_disk_and_on_the_wire_is_snake_case(name: str):
    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for inner in value.values() for key in keys(inner)}
        return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()

    assert all(key == key.lower() and "-" not in key for key in keys(to_plain(full(RECORDS[name]))))
