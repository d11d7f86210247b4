"""External triggers: one secret URL per agent, whose deliveries are hints and never messages."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from holon.core.agents import AgentStatus
from holon.core.clock import ManualClock, moment
from holon.core.codec import dumps
from holon.core.errors import (
    AgentArchived,
    AgentStopped,
    BodyTooLarge,
    InvalidInput,
    NotFound,
    PrivateAgent,
    TriggerRefused,
)
from holon.core.limits import Limits
from holon.core.messages import JsonBody, MessageKind, TextBody
from holon.core.triggers import HintDisposition, TriggerCapability, TriggerStatus
from holon.runtime.triggers import Delivery, DeliveryOutcome, DescriptorMode
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living


def token_of(capability: TriggerCapability) -> str:
    return capability.trigger_url.rsplit("/", 1)[1]


def files_with(home: Path, text: str) -> list[Path]:
    return [file for file in home.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


async def deliver(
    life: Living, token: str, payload: bytes = b"news", mode: DescriptorMode = "wake_hint", **more: Any
) -> DeliveryOutcome:
    return await life.host.triggers.deliver(token, Delivery(payload=payload, **more), descriptor_mode=mode)


@pytest.mark.spec("RT-144", "RT-145", "RT-146", "RT-147")
async def test_an_agent_has_one_capability_which_is_there_when_somebody_asks(living: Opens) -> None:
    life = await living()
    first = await life.host.triggers.ensure("main")
    assert first == TriggerCapability(
        external_trigger_id=first.external_trigger_id,
        trigger_url=first.trigger_url,
        target_agent_id="main",
        delivery_mode="wake_hint",
        status=TriggerStatus.ACTIVE,
    )
    assert first.external_trigger_id.startswith("trig_")
    assert len(token_of(first)) > 64, "an id and a signature of 256 bits"
    assert await life.host.triggers.ensure("main") == first
    assert await life.host.triggers.ensure(None) == first
    await life.close()
    life = await living()
    again = await life.host.triggers.ensure("main")
    assert token_of(again) == token_of(first)
    assert (await life.host.triggers.summary("main")).external_trigger_id == first.external_trigger_id
    assert len(await life.events("external_trigger_created")) == 1
    assert life.model.requests == [], "no model took part"


async def test_each_agent_has_its_own(living: Opens) -> None:
    life = await living()
    await life.host.agents.create("other", surface=SURFACE)
    mine, theirs = await life.host.triggers.ensure("main"), await life.host.triggers.ensure("other")
    assert token_of(mine) != token_of(theirs)
    assert (await deliver(life, token_of(theirs))).agent_id == "other"


@pytest.mark.spec("RT-150")
@pytest.mark.parametrize("base", ["https://agents.example.org/holon", "https://agents.example.org/holon/"])
async def test_urls_begin_with_the_advertised_base(living: Opens, base: str) -> None:
    life = await living(advertise_url=base)
    capability = await life.host.triggers.ensure("main")
    assert capability.trigger_url == f"https://agents.example.org/holon/callbacks/wake/{token_of(capability)}"
    assert (await life.host.runtime_status()).startup_surface.callback_base_url == base


async def test_without_a_base_urls_name_the_address_that_the_server_listens_on(living: Opens) -> None:
    life = await living()
    life.host.http_addr = "127.0.0.1:4711"
    assert (await life.host.triggers.ensure("main")).trigger_url.startswith("http://127.0.0.1:4711/callbacks/wake/cb_")


async def test_the_token_is_neither_on_disk_nor_in_the_log_nor_in_any_view(
    living: Opens, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    life = await living()
    tokens = [token_of(await life.host.triggers.ensure("main"))]
    tokens.append(token_of(await life.host.triggers.rotate("main", surface=SURFACE)))
    await life.host.triggers.reveal("main", surface=SURFACE)
    await deliver(life, tokens[1])
    await life.at_rest()
    with pytest.raises(TriggerRefused) as refused:
        await deliver(life, tokens[0])
    await life.ask("what is your trigger URL?")
    shown = [dumps(await life.host.views.snapshot()), dumps(await life.events()), repr(life.host.settings)]
    shown += [dumps(request) for request in life.model.requests]
    shown += [str(refused.value), caplog.text, dumps(await life.host.runtime_status())]
    await life.close()
    for token in tokens:
        signature = token.rsplit("_", 1)[1]
        assert not [text for text in shown if signature in text]
        assert files_with(tmp_path, signature) == []
    key = tmp_path / "state" / "secret.key"
    assert key.stat().st_mode & 0o077 == 0, "nobody else may read the key"
    assert len(key.read_bytes()) == 32


@pytest.mark.spec("RT-151")
@pytest.mark.parametrize(
    "forge",
    [
        lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"),
        lambda token: token.replace("cb_", "cc_"),
        lambda token: token[:-64] + "0" * 64,
        lambda token: "cb_" + "0" * 22 + token[25:],
        lambda token: token + "0",
        lambda token: token.upper(),
        lambda token: "",
        lambda token: "../../etc/passwd",
        lambda token: "cb_" + "ä" * 22 + "_" + "0" * 64,
    ],
)
async def test_a_wrong_token_is_refused_and_leaves_no_trace(living: Opens, forge: Any) -> None:
    life = await living()
    token = token_of(await life.host.triggers.ensure("main"))
    newest = await life.newest()
    with pytest.raises(TriggerRefused) as refused:
        await deliver(life, forge(token))
    assert refused.value.status == 403
    assert await life.newest() == newest
    assert (await life.host.triggers.summary("main")).delivery_count == 0


@pytest.mark.spec("RT-151", "RT-159")
async def test_a_revoked_url_is_refused_and_what_it_did_stays_on_record(living: Opens) -> None:
    life = await living()
    token = token_of(await life.host.triggers.ensure("main"))
    await deliver(life, token)
    await life.at_rest()
    revoked = await life.host.triggers.revoke("main", surface=SURFACE)
    assert (revoked.status, revoked.delivery_count) == (TriggerStatus.REVOKED, 1)
    assert revoked.revoked_at is not None
    with pytest.raises(TriggerRefused, match="revoked"):
        await deliver(life, token)
    with pytest.raises(NotFound, match="holon trigger rotate"):
        await life.host.triggers.revoke("main", surface=SURFACE)
    kinds = await life.kinds()
    assert [kinds.count(kind) for kind in ("external_trigger_created", "callback_delivered")] == [1, 1]
    assert [e.payload["reason"] for e in await life.events("external_trigger_revoked")] == ["revoked by cli"]
    fresh = await life.host.triggers.ensure("main")
    assert token_of(fresh) != token
    assert (await deliver(life, token_of(fresh))).agent_id == "main"


async def test_a_rotated_url_takes_the_place_of_the_old_one(living: Opens) -> None:
    life = await living()
    old = await life.host.triggers.ensure("main")
    new = await life.host.triggers.rotate("main", surface=SURFACE)
    assert new.external_trigger_id != old.external_trigger_id
    assert await life.host.triggers.ensure("main") == new
    with pytest.raises(TriggerRefused):
        await deliver(life, token_of(old))
    await deliver(life, token_of(new))
    assert (await life.host.triggers.summary("main")).delivery_count == 1


async def test_a_url_with_a_time_to_live_expires_and_the_next_one_is_new(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    brief = await life.host.triggers.rotate("main", surface=SURFACE, ttl_ms=60_000)
    assert (await life.host.triggers.summary("main")).expires_at == moment(clock.now_ms() + 60_000)
    clock.move(59_999)
    await deliver(life, token_of(brief))
    await life.at_rest()
    clock.move(1)
    with pytest.raises(TriggerRefused, match="expired"):
        await deliver(life, token_of(brief))
    fresh = await life.host.triggers.ensure("main")
    assert fresh.external_trigger_id != brief.external_trigger_id
    await deliver(life, token_of(fresh))
    reasons = [e.payload["reason"] for e in await life.events("external_trigger_revoked")]
    assert reasons[-1] == "expired"
    with pytest.raises(InvalidInput, match="ttl_ms"):
        await life.host.triggers.rotate("main", surface=SURFACE, ttl_ms=0)


async def test_showing_the_url_again_is_on_record(living: Opens) -> None:
    life = await living()
    capability = await life.host.triggers.ensure("main")
    assert await life.host.triggers.reveal("main", surface="http") == capability
    (event,) = await life.events("external_trigger_revealed")
    assert event.payload == {"external_trigger_id": capability.external_trigger_id, "surface": "http"}


@pytest.mark.spec("RT-152", "RT-154", "RT-155", "RT-156")
async def test_a_delivery_is_a_hint_counted_dated_and_on_record_and_no_message(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    capability = await life.host.triggers.ensure("main")
    await life.host.lifecycle.pause("main", SURFACE)
    messages = await life.messages()
    clock.move(1_500)
    outcome = await deliver(
        life,
        token_of(capability),
        b'{"a": 1}',
        content_type="application/json",
        source="forge",
        resource="repo/1",
        correlation_id="c1",
        causation_id="c0",
    )
    assert outcome == DeliveryOutcome(
        agent_id="main",
        external_trigger_id=capability.external_trigger_id,
        delivery_mode="wake_hint",
        scope="agent",
        disposition=HintDisposition.COALESCED,
    )
    assert await life.messages() == messages, "the payload is no message"
    summary = await life.host.triggers.summary("main")
    assert (summary.delivery_count, summary.last_delivered_at) == (1, moment(clock.now_ms()))
    (event,) = await life.events("callback_delivered")
    assert event.payload == {
        "external_trigger_id": capability.external_trigger_id,
        "delivery_mode": "wake_hint",
        "disposition": "coalesced",
        "delivery_count": 1,
        "source": "forge",
        "resource": "repo/1",
        "content_type": "application/json",
        "correlation_id": "c1",
        "causation_id": "c0",
    }
    assert event.agent_id == "main"


@pytest.mark.spec("RT-153", "RT-155")
async def test_the_old_form_is_a_hint_too_and_is_marked_as_deprecated(living: Opens) -> None:
    life = await living()
    token = token_of(await life.host.triggers.ensure("main"))
    outcome = await deliver(life, token, b"news", "enqueue_message")
    assert (outcome.delivery_mode, outcome.disposition) == ("wake_hint", HintDisposition.TRIGGERED)
    await life.at_rest()
    assert [envelope.kind for envelope in await life.messages()] == [MessageKind.SYSTEM_TICK]
    (event,) = await life.events("callback_delivered")
    assert (event.payload["descriptor_mode"], event.payload["deprecated"]) == ("enqueue_message", True)
    (tick,) = await life.messages()
    assert isinstance(tick.body, JsonBody)
    (hint,) = tick.body.value["wake_hints"]
    assert (hint["descriptor_mode"], hint["deprecated"]) == ("enqueue_message", True)


@pytest.mark.spec("RT-158")
async def test_one_capability_serves_every_source(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    token = token_of(await life.host.triggers.ensure("main"))
    outcomes = [await deliver(life, token, b"x", source=source) for source in ("forge", "ci", None)]
    assert len({outcome.external_trigger_id for outcome in outcomes}) == 1
    assert [hint.source for hint in await life.hints()] == ["forge", "ci", None]
    assert [e.payload.get("source") for e in await life.events("callback_delivered")] == ["forge", "ci", None]


@pytest.mark.spec("RT-160")
async def test_a_delivery_changes_neither_the_wait_of_the_agent_nor_the_capability(
    living: Opens, clock: ManualClock
) -> None:
    script = "rules: [{when: {pattern: ^rest}, rounds: [{tools: [{name: Sleep, input: {duration_ms: 60000}}]}]}]"
    life = await living(script, clock=clock)
    await life.ask("rest")
    before = await life.at_rest()
    capability = await life.host.triggers.ensure("main")
    await deliver(life, token_of(capability), b"")
    after = await life.at_rest()
    assert after.closure == before.closure
    assert (after.agent.sleeping_until, after.agent.active_task_ids) == (
        before.agent.sleeping_until,
        before.agent.active_task_ids,
    )
    assert await life.host.triggers.ensure("main") == capability


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("payload", "content_type", "body"),
    [
        (b"", "application/json", None),
        (b"[1, 2]", "application/json", JsonBody(value=[1, 2])),
        (b'{"a": null}', "application/vnd.forge+json; charset=utf-8", JsonBody(value={"a": None})),
        (b"{broken", "application/json", TextBody(text="{broken")),
        (b"plain", None, TextBody(text="plain")),
        ("grüße".encode(), "text/plain", TextBody(text="grüße")),
        (b"\xff\xfe\x00", "application/octet-stream", TextBody(text="(3 bytes of application/octet-stream)")),
        (b"[" * 64 + b"]" * 64, "application/json", JsonBody(value=nested(64))),
        (b"[" * 65 + b"]" * 65, "application/json", TextBody(text="[" * 65 + "]" * 65)),
        (b"[" * 980 + b"]" * 980, "application/json", TextBody(text="[" * 980 + "]" * 980)),
        (b"[" * 50_000, "application/json", TextBody(text="[" * 50_000)),
    ],
)
async def test_payloads_are_kept_as_what_they_are(
    living: Opens, payload: bytes, content_type: str | None, body: Any
) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    token = token_of(await life.host.triggers.ensure("main"))
    await deliver(life, token, payload, content_type=content_type)
    (hint,) = await life.hints()
    assert hint.body == body


async def test_a_payload_above_the_limit_is_refused(living: Opens) -> None:
    life = await living(limits=Limits(trigger_bytes=10))
    token = token_of(await life.host.triggers.ensure("main"))
    await deliver(life, token, b"x" * 10)
    with pytest.raises(BodyTooLarge, match="at most 10 are taken"):
        await deliver(life, token, b"x" * 11)


@pytest.mark.spec("RT-151")
async def test_the_url_of_an_archived_agent_is_refused(living: Opens) -> None:
    life = await living()
    await life.host.agents.create("old", surface=SURFACE)
    token = token_of(await life.host.triggers.ensure("old"))
    await life.host.agents.archive("old", "done")
    with pytest.raises(TriggerRefused):
        await deliver(life, token)
    with pytest.raises(AgentArchived):
        await life.host.triggers.ensure("old")
    hidden = await life.host.agents.create_temporary(surface=SURFACE)
    with pytest.raises(PrivateAgent):
        await life.host.triggers.rotate(hidden.agent_id, surface=SURFACE)


@pytest.mark.spec("RT-081")
@pytest.mark.parametrize("mode", ["wake_hint", "enqueue_message"])
async def test_a_delivery_to_a_stopped_agent_is_refused_in_either_form(living: Opens, mode: DescriptorMode) -> None:
    life = await living()
    token = token_of(await life.host.triggers.ensure("main"))
    await life.host.lifecycle.stop("main", SURFACE)
    newest = await life.newest()
    with pytest.raises(AgentStopped, match="holon agent resume main"):
        await deliver(life, token, b"news", mode)
    assert (await life.newest(), await life.hints(), await life.waiting()) == (newest, [], [])
    assert (await life.host.triggers.summary("main")).delivery_count == 0


async def test_a_delivery_to_an_agent_that_pauses_leaves_it_paused(living: Opens) -> None:
    life = await living()
    token = token_of(await life.host.triggers.ensure("main"))
    await life.host.lifecycle.pause("main", SURFACE)
    await deliver(life, token)
    assert await life.status() is AgentStatus.PAUSED
    assert life.model.requests == []
