"""Nesting: one measure of depth for everything that comes from outside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holon.core.errors import InvalidInput
from holon.core.messages import JsonBody, TextBody
from holon.core.nesting import NESTING, is_flat_enough
from holon.runtime import triggers
from holon.server import bodies


def lists(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("levels", "fits"), [(0, True), (1, True), (NESTING, True), (NESTING + 1, False), (900, False)]
)
def test_a_request_and_a_trigger_measure_alike(levels: int, fits: bool) -> None:
    raw = json.dumps(lists(levels)).encode()
    assert is_flat_enough(lists(levels)) is fits
    kept = triggers._body(triggers.Delivery(payload=raw, content_type="application/json"))
    assert isinstance(kept, JsonBody if fits else TextBody)
    if fits:
        assert bodies.decode(raw, Any) == lists(levels)
    else:
        with pytest.raises(InvalidInput, match="nested too deeply"):
            bodies.decode(raw, Any)
