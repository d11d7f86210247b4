"""The envelope: its kinds, origins, bodies and labels, and that nothing else passes for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import InvalidShape, dumps, from_plain, loads, to_plain
from holon.core.messages import (
    AdmissionContext,
    BriefAttachment,
    BriefBody,
    DeliverySurface,
    JsonBody,
    MessageBody,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    Priority,
    TextBody,
)
from tests.core.samples import ORIGINS, envelope, full

#: Unions, as `from_plain` takes them at run time.
ORIGIN: Any = MessageOrigin
BODY: Any = MessageBody

NUMBER = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _plain(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(envelope())
    return plain | changes


@pytest.mark.spec("RT-003")
def test_an_envelope_with_every_optional_field_comes_back_equal():
    complete = full(MessageEnvelope)
    assert all(getattr(complete, name) for name in MessageEnvelope.__struct_fields__)
    assert loads(dumps(complete), MessageEnvelope) == complete


@pytest.mark.spec("RT-003")
def test_an_envelope_without_any_optional_field_still_loads():
    bare = envelope()
    assert set(to_plain(bare)) == {
        "id", "agent_id", "created_at", "kind", "origin", "trust", "authority_class", "priority", "body",
    }  # fmt: skip
    assert loads(dumps(bare), MessageEnvelope) == bare


@pytest.mark.parametrize(
    "field", ["id", "agent_id", "created_at", "kind", "origin", "trust", "authority_class", "priority", "body"]
)
def test_an_envelope_without_a_required_field_is_refused(field: str):
    plain = _plain()
    del plain[field]
    with pytest.raises(InvalidShape, match=field):
        from_plain(plain, MessageEnvelope)


@pytest.mark.spec("RT-004")
@pytest.mark.parametrize(
    "kind",
    [
        "operator_prompt", "channel_event", "webhook_event", "callback_event", "timer_tick", "system_tick",
        "task_result", "task_status", "control", "brief_ack", "brief_result", "internal_followup",
    ],
)  # fmt: skip
def test_each_kind_is_accepted(kind: str):
    assert from_plain(_plain(kind=kind), MessageEnvelope).kind == kind


@pytest.mark.spec("RT-004")
@pytest.mark.parametrize("kind", ["prompt", "OPERATOR_PROMPT", "", None, 3])
def test_any_other_kind_is_rejected(kind: object):
    with pytest.raises(InvalidShape, match="kind"):
        from_plain(_plain(kind=kind), MessageEnvelope)
    assert len(MessageKind) == 12


@pytest.mark.spec("RT-005")
@pytest.mark.parametrize(
    ("mandatory", "optional"),
    [
        ({"kind": "operator"}, {"actor_id": "ada"}),
        ({"kind": "channel", "channel_id": "c"}, {"sender_id": "s"}),
        ({"kind": "webhook", "source": "github"}, {"event_type": "push"}),
        ({"kind": "callback", "descriptor_id": "d"}, {"source": "ci"}),
        ({"kind": "timer", "timer_id": "t"}, {}),
        ({"kind": "system", "subsystem": "x"}, {}),
        ({"kind": "task", "task_id": "t"}, {}),
    ],
)
def test_an_origin_is_one_of_seven_shapes_and_needs_its_mandatory_fields(
    mandatory: dict[str, str], optional: dict[str, str]
):
    for shape in (mandatory, mandatory | optional):
        assert to_plain(from_plain(shape, ORIGIN)) == shape
    for field in set(mandatory) - {"kind"}:
        with pytest.raises(InvalidShape, match=field):
            from_plain({key: value for key, value in mandatory.items() if key != field}, ORIGIN)
    with pytest.raises(InvalidShape, match="extra"):
        from_plain(mandatory | {"extra": "x"}, ORIGIN)


@pytest.mark.spec("RT-005")
@pytest.mark.parametrize("shape", [{"kind": "email", "address": "a@b"}, {}, {"channel_id": "c"}])
def test_any_other_origin_is_refused(shape: dict[str, str]):
    with pytest.raises(InvalidShape):
        from_plain(shape, ORIGIN)
    assert len(ORIGINS) == 7


@pytest.mark.spec("RT-007")
@pytest.mark.parametrize("origin", ORIGINS)
def test_only_the_operator_is_the_owner_even_where_a_person_wrote_on_a_channel(origin: str):
    assert envelope(origin=ORIGINS[origin]).from_owner is (origin == "operator")


@pytest.mark.spec("RT-013")
@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("trust", {"trusted_operator", "trusted_system", "trusted_integration", "untrusted_external"}),
        (
            "authority_class",
            {"operator_instruction", "runtime_instruction", "integration_signal", "external_evidence"},
        ),
    ],
)
def test_trust_and_authority_have_four_values_each_and_no_others(field: str, allowed: set[str]):
    for value in allowed:
        assert getattr(from_plain(_plain(**{field: value}), MessageEnvelope), field) == value
    for value in ("trusted", "root", "", "Trusted_Operator"):
        with pytest.raises(InvalidShape, match=field):
            from_plain(_plain(**{field: value}), MessageEnvelope)


@pytest.mark.spec("RT-021")
def test_the_delivery_surface_is_one_of_ten():
    allowed = {
        "cli_prompt", "run_once", "http_public_enqueue", "http_webhook", "http_callback_enqueue", "http_callback_wake",
        "http_control_prompt", "timer_scheduler", "runtime_system", "task_rejoin",
    }  # fmt: skip
    assert set(DeliverySurface) == allowed
    for value in allowed:
        assert from_plain(_plain(delivery_surface=value), MessageEnvelope).delivery_surface == value
    with pytest.raises(InvalidShape, match="delivery_surface"):
        from_plain(_plain(delivery_surface="carrier_pigeon"), MessageEnvelope)


def test_the_admission_context_is_one_of_five():
    assert set(AdmissionContext) == {
        "public_unauthenticated", "control_authenticated", "external_trigger_capability", "local_process",
        "runtime_owned",
    }  # fmt: skip
    with pytest.raises(InvalidShape, match="admission_context"):
        from_plain(_plain(admission_context="root"), MessageEnvelope)


def test_priorities_have_lanes_in_the_order_in_which_they_are_served():
    assert [priority.value for priority in sorted(Priority, key=lambda priority: priority.lane)] == [
        "interject", "next", "normal", "background",
    ]  # fmt: skip
    with pytest.raises(InvalidShape, match="priority"):
        from_plain(_plain(priority="urgent"), MessageEnvelope)


@pytest.mark.spec("RT-041")
@pytest.mark.parametrize(
    "shape",
    [
        {"type": "text", "text": "hello"},
        {"type": "json", "value": {"a": [1, None]}},
        {"type": "json", "value": None},
        {"type": "brief", "text": "done"},
        {"type": "brief", "title": "News", "text": "done", "attachments": [{"kind": "log", "name": "build"}]},
    ],
)
def test_a_body_has_one_of_three_forms(shape: dict[str, Any]):
    assert to_plain(from_plain(shape, BODY)) == shape


@pytest.mark.spec("RT-041")
@pytest.mark.parametrize(
    "shape", [{"type": "html", "text": "x"}, {"type": "text"}, {"type": "brief", "title": "x"}, {"text": "x"}, "hello"]
)
def test_any_other_body_is_refused(shape: Any):
    with pytest.raises(InvalidShape):
        from_plain(shape, BODY)


@pytest.mark.spec("RT-042")
@pytest.mark.parametrize("kind", ["file", "log", "diff", "image", "json"])
@pytest.mark.parametrize("extra", [{}, {"uri": "file:///x"}, {"value": {"lines": [1]}}, {"uri": "u", "value": "v"}])
def test_an_attachment_comes_back_with_and_without_its_uri_and_value(kind: str, extra: dict[str, Any]):
    attachment = from_plain({"kind": kind, "name": "n"} | extra, BriefAttachment)
    body = BriefBody(title="News", text="done", attachments=[attachment])
    again = loads(dumps(envelope(body=body)), MessageEnvelope)
    assert again.body == body


@given(JSON)
def test_a_json_body_stays_a_json_value(value: Any):
    body = loads(dumps(envelope(body=JsonBody(value=value))), MessageEnvelope).body
    assert isinstance(body, JsonBody)
    assert body.value == value


@pytest.mark.parametrize(
    ("body", "text", "contentful"),
    [
        (TextBody(text="hello"), "hello", True),
        (TextBody(text=" \n\t"), " \n\t", False),
        (BriefBody(title="News", text="done"), "News\n\ndone", True),
        (BriefBody(text=""), "", False),
        (JsonBody(value={"ok": True}), '{"ok":true}', True),
        (JsonBody(value=None), "null", True),
    ],
)
def test_what_a_model_reads_of_a_body_and_whether_there_is_anything_in_it(
    body: MessageBody, text: str, contentful: bool
):
    message = msgspec.structs.replace(envelope(), body=body)
    assert (message.text, message.contentful) == (text, contentful)
