"""What a model reads of an error: the fields that the text names, and never more than it can hold."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import dumps
from holon.tools.envelope import ToolError, receipt

#: The longest that the parts of a receipt can be together, escapes and all.
MOST_CHARS = 70_000


@pytest.mark.spec("RT-246", "RT-247")
def test_a_receipt_has_the_fields_of_the_error_that_it_has() -> None:
    whole = ToolError(
        kind="invalid_tool_input",
        message="wrong",
        details={"field": "cmd", "given": 5},
        recovery_hint="send a text",
        retryable=True,
    )
    assert json.loads(receipt("ExecCommand", whole)) == {
        "ok": False,
        "tool_name": "ExecCommand",
        "kind": "invalid_tool_input",
        "message": "wrong",
        "hint": "send a text",
        "field": "cmd",
        "retryable": True,
        "details": {"field": "cmd", "given": 5},
    }
    least = json.loads(receipt("ExecCommand", ToolError(kind="broken", message="it broke")))
    assert least == {
        "ok": False,
        "tool_name": "ExecCommand",
        "kind": "broken",
        "message": "it broke",
        "retryable": False,
    }


@pytest.mark.spec("RT-248")
def test_large_details_are_shown_by_their_beginning_and_their_digest() -> None:
    details = {"output": "x" * 5_000}
    shown = json.loads(receipt("Any", ToolError(kind="k", message="m", details=details)))["details"]
    text = dumps(details)
    assert shown == {
        "omitted": True,
        "reason": "details are too large for the conversation; the transcript has them whole",
        "char_count": len(text),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "preview": text[:500],
    }


@pytest.mark.spec("RT-247")
@given(
    name=st.text(),
    message=st.text(),
    hint=st.none() | st.text(),
    details=st.none() | st.dictionaries(st.sampled_from(["field", "a"]), st.text() | st.integers()),
    times=st.sampled_from([1, 5_000]),
)
def test_a_receipt_is_bounded_json_whatever_the_error_says(
    name: str, message: str, hint: str | None, details: dict[str, Any] | None, times: int
) -> None:
    error = ToolError(kind="k", message=message * times, details=details, recovery_hint=hint and hint * times)
    text = receipt(name * times, error)
    assert len(text) <= MOST_CHARS
    assert json.loads(text)["ok"] is False
