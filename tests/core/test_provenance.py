"""The labels that the runtime derives: total tables, and a legacy reader that lifts nothing."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import to_plain
from holon.core.messages import AuthorityClass, MessageKind, MessageOrigin, TriggerKind, Trust
from holon.core.provenance import ALLOWED_ORIGINS, LABELS, TRIGGERS, kind_fits, labels_for, read_envelope
from tests.core.samples import ORIGINS, envelope

ORIGIN_TYPES = set(typing.get_args(MessageOrigin))


def test_every_origin_and_every_kind_stands_in_the_tables():
    assert set(LABELS) == ORIGIN_TYPES == {type(origin) for origin in ORIGINS.values()}
    assert set(TRIGGERS) == set(ALLOWED_ORIGINS) == set(MessageKind)
    assert {origin for allowed in ALLOWED_ORIGINS.values() for origin in allowed} == ORIGIN_TYPES


@pytest.mark.parametrize(
    ("origin", "trust"),
    [
        pytest.param("operator", "trusted_operator", marks=pytest.mark.spec("RT-009")),
        pytest.param("system", "trusted_system", marks=pytest.mark.spec("RT-010")),
        pytest.param("task", "trusted_system", marks=pytest.mark.spec("RT-010")),
        pytest.param("timer", "trusted_system", marks=pytest.mark.spec("RT-010")),
        pytest.param("callback", "trusted_integration", marks=pytest.mark.spec("RT-011")),
        pytest.param("webhook", "trusted_integration", marks=pytest.mark.spec("RT-011")),
        pytest.param("channel", "untrusted_external", marks=pytest.mark.spec("RT-012")),
    ],
)
def test_trust_follows_from_the_origin(origin: str, trust: str):
    assert labels_for(ORIGINS[origin])[0] == trust


@given(st.lists(st.sampled_from(sorted(ORIGINS)), min_size=1, max_size=4))
def test_what_several_say_together_has_the_least_authority_of_them(names: list[str]):
    order = list(AuthorityClass)
    apart = [labels_for(ORIGINS[name]) for name in names]
    first, *others = (ORIGINS[name] for name in names)
    together = labels_for(first, others)
    assert together in apart
    assert order.index(together[1]) == max(order.index(authority) for _, authority in apart)


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        ("operator", "operator_instruction"),
        ("system", "runtime_instruction"),
        ("timer", "runtime_instruction"),
        ("task", "runtime_instruction"),
        ("callback", "integration_signal"),
        ("webhook", "integration_signal"),
        ("channel", "external_evidence"),
    ],
)
def test_authority_follows_from_the_origin(origin: str, authority: str):
    assert labels_for(ORIGINS[origin])[1] == authority


@pytest.mark.spec("RT-025")
@pytest.mark.parametrize(
    ("kinds", "trigger"),
    [
        (["operator_prompt"], "operator_input"),
        (["channel_event", "webhook_event", "callback_event"], "external_event"),
        (["timer_tick"], "timer_fire"),
        (["system_tick", "control", "brief_ack", "brief_result"], "system_tick"),
        (["task_result", "task_status"], "task_result"),
        (["internal_followup"], "internal_followup"),
    ],
)
def test_every_kind_has_its_trigger(kinds: list[str], trigger: str):
    assert {TRIGGERS[MessageKind(kind)] for kind in kinds} == {TriggerKind(trigger)}


@pytest.mark.parametrize("kind", MessageKind)
def test_a_kind_fits_the_origins_that_may_send_it_and_no_others(kind: MessageKind):
    allowed = {
        "operator_prompt": {"operator"},
        "channel_event": {"channel"},
        "webhook_event": {"webhook"},
        "callback_event": {"callback"},
        "timer_tick": {"timer"},
        "system_tick": {"system"},
        "internal_followup": {"system"},
        "task_result": {"task"},
        "task_status": {"task"},
        "control": {"operator", "system"},
        "brief_ack": {"system"},
        "brief_result": {"system"},
    }
    assert {name for name, origin in ORIGINS.items() if kind_fits(kind, origin)} == allowed[kind]


def _old(origin: str, trust: str) -> dict[str, Any]:
    stored: dict[str, Any] = to_plain(envelope(origin=ORIGINS[origin])) | {"trust": trust}
    del stored["authority_class"]
    return stored


@pytest.mark.spec("RT-018")
@pytest.mark.parametrize("origin", ORIGINS)
def test_an_old_message_with_only_its_trust_gets_the_class_that_a_new_one_would(origin: str):
    trust, authority = labels_for(ORIGINS[origin])
    assert read_envelope(_old(origin, trust)).authority_class is authority


@given(st.sampled_from(sorted(ORIGINS)), st.sampled_from(Trust))
def test_an_old_label_never_lifts_a_message_above_its_origin_nor_an_origin_above_its_label(origin: str, trust: Trust):
    order = list(AuthorityClass)
    found = order.index(read_envelope(_old(origin, trust)).authority_class)
    by_label = {labels_for(other)[0]: labels_for(other)[1] for other in ORIGINS.values()}[trust]
    assert found == max(order.index(labels_for(ORIGINS[origin])[1]), order.index(by_label))


def test_a_class_that_is_stored_is_never_derived_again():
    stored = to_plain(envelope(origin=ORIGINS["operator"])) | {"authority_class": "external_evidence"}
    assert read_envelope(stored).authority_class is AuthorityClass.EXTERNAL_EVIDENCE
