"""The page on models is true: its examples are configurations, and it names every provider and every option."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holon.providers.catalog import BUILT_IN, OPTIONS, configured
from holon.providers.contract import FailureKind
from holon.providers.models import ModelTable

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
EXAMPLES: list[dict[str, Any]] = [
    json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
]


def test_every_example_is_a_configuration():
    assert [set(example) for example in EXAMPLES] == [{"providers"}, {"models"}]
    providers, models = EXAMPLES
    entries = {entry.name: entry for entry in configured(providers["providers"], {})}
    assert providers["providers"].keys() <= entries.keys()
    assert entries["acme"].problem is not None
    assert ModelTable(models["models"]).card("acme/large").context_window_tokens == 64_000


@pytest.mark.parametrize("known", BUILT_IN, ids=lambda known: known.name)
def test_every_built_in_provider_has_its_line(known):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{known.name}` |")]
    for word in (known.transport, *known.key_env, *known.url_env):
        assert f"`{word}`" in line


@pytest.mark.parametrize("transport", OPTIONS)
def test_every_option_is_named_with_its_default(transport):
    for field in msgspec.structs.fields(OPTIONS[transport]):
        named = re.findall(rf"^\| `{field.name}` \| (.*?) \|", PAGE, flags=re.MULTILINE)
        assert named, field.name
        default = field.default
        if isinstance(default, (int, str)):
            assert str(getattr(default, "value", default)).lower() in " ".join(named).replace("`", "")
    assert transport in PAGE


def test_every_kind_of_failure_is_named():
    assert [kind for kind in FailureKind if kind is not FailureKind.UNKNOWN and f"`{kind}`" not in PAGE] == []


def test_an_option_that_the_page_shows_exists():
    shown = set(re.findall(r"^\| `([a-z_]+)` \| (?:[a-z0-9`]|at |not )", PAGE, flags=re.MULTILINE))
    known = {field.name for type_ in OPTIONS.values() for field in msgspec.structs.fields(type_)}
    assert shown - known <= {each.name for each in BUILT_IN} | {"scripted"}
