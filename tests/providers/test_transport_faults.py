"""How each wire fails: what a fault at the service becomes, on the way to retry, fallback and the operator."""

import logging
import socket
import traceback
from typing import Any

import pytest

from holon.core.codec import dumps, to_plain
from holon.core.conversation import TextBlock
from holon.providers.attempts import Candidate, RetryPolicy, Usable, run_round
from holon.providers.contract import AttemptOutcome, FailureKind, ProviderFailure, RoundFailed
from holon.providers.failures import artifact_of
from tests.providers.wires import (
    ANTHROPIC,
    ANTHROPIC_STREAM,
    CHAT,
    CHAT_STREAM,
    CODEX,
    COMPATIBLE,
    KEY,
    RESPONSES,
    WIRES,
    Wire,
    billed,
)
from twins import Answer, Chunk, Fault, FaultKind, Quirk, Rule, Script, Twin
from twins import StopReason as Stop

every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.id)
QUICK = RetryPolicy(base_ms=0, retry_after_cap_ms=50)


async def failing(wire: Wire, fault: Fault, **options: Any) -> ProviderFailure:
    """What an attempt over the wire raises when the service has this fault."""
    async with Twin.start() as twin, wire.open(twin, **options) as provider:
        twin.fail(fault)
        with pytest.raises(ProviderFailure) as failed:
            await provider.respond(wire.asking("Tell me a long story of some words, please."))
    return failed.value


def flags(failure: ProviderFailure) -> set[str]:
    assert failure.diagnostics is not None
    return {name for name, value in failure.diagnostics["reqwest"].items() if value is True}


STATUSES = {
    400: FailureKind.CONTRACT_ERROR,
    401: FailureKind.AUTH_ERROR,
    403: FailureKind.AUTH_ERROR,
    404: FailureKind.CONTRACT_ERROR,
    413: FailureKind.CONTRACT_ERROR,
    429: FailureKind.RATE_LIMITED,
    500: FailureKind.SERVER_ERROR,
    529: FailureKind.SERVER_ERROR,
}


@pytest.mark.spec("RT-173", "RT-174")
@every_wire
async def test_a_status_is_classified_by_its_number(wire):
    async with Twin.start() as twin, wire.open(twin) as provider:
        kinds = {}
        for status in STATUSES:
            twin.fail(Fault(status=status))
            with pytest.raises(ProviderFailure) as failed:
                await provider.respond(wire.asking("hello"))
            kinds[status] = failed.value.kind
            assert failed.value.http_status == status
            assert failed.value.diagnostics is not None
            assert failed.value.diagnostics["stage"] == "response"
            assert failed.value.diagnostics["status"] == failed.value.diagnostics["reqwest"]["status"] == status
            assert flags(failed.value) == set()
        assert len(twin.calls) == len(STATUSES)  # the SDK retries nothing by itself
    assert kinds == STATUSES


@every_wire
async def test_the_service_says_how_long_to_wait(wire):
    failure = await failing(wire, Fault(status=429, retry_after=1.5))
    assert failure.retry_after_ms == 1_500


@every_wire
async def test_a_prompt_that_is_too_long_is_known_by_the_services_own_sign(wire):
    failure = await failing(wire, Fault(kind=FaultKind.CONTEXT_LENGTH))
    assert failure.kind is FailureKind.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.spec("RT-186")
@every_wire
async def test_a_service_that_falls_silent_is_a_timeout(wire):
    quick = {"read_timeout_ms": 80, "stream_idle_timeout_ms": 80}
    failure = await failing(wire, Fault(kind=FaultKind.STALL), **quick)
    assert failure.kind is FailureKind.TIMEOUT
    assert failure.diagnostics is not None
    assert failure.diagnostics["stage"] == "request"
    assert flags(failure) == {"is_timeout", "is_request"}


@pytest.mark.spec("RT-186")
@pytest.mark.parametrize("wire", [w for w in WIRES if w.streams], ids=lambda w: w.id)
async def test_a_stream_that_falls_silent_in_its_middle_is_a_timeout_of_the_body(wire):
    silent = Script(rules=[Rule(answers=[Answer(chunks=["One ", Chunk(text="two", wait_ms=60_000)])])])
    async with Twin.start(silent) as twin, wire.open(twin, stream_idle_timeout_ms=100) as provider:
        with pytest.raises(ProviderFailure) as failed:
            await provider.respond(wire.asking("hello"))
    assert failed.value.kind is FailureKind.TIMEOUT
    assert failed.value.diagnostics is not None
    assert failed.value.diagnostics["stage"] == "body"
    assert flags(failed.value) == {"is_timeout", "is_body"}


@pytest.mark.spec("RT-173", "RT-186")
@every_wire
async def test_a_connection_that_ends_before_the_answer_or_inside_it_is_told_apart(wire):
    dropped = await failing(wire, Fault(kind=FaultKind.DROP))
    cut = await failing(wire, Fault(kind=FaultKind.CUT))
    assert (dropped.kind, cut.kind) == (FailureKind.CONNECTION, FailureKind.CONNECTION)
    assert flags(dropped) == {"is_request"}
    assert flags(cut) == {"is_body"}
    assert dropped.diagnostics is not None
    assert cut.diagnostics is not None
    assert (dropped.diagnostics["stage"], cut.diagnostics["stage"]) == ("request", "body")


@pytest.mark.spec("RT-173", "RT-186")
@every_wire
async def test_a_service_that_is_not_there_is_a_failure_to_connect(wire):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        async with Twin.start() as twin:
            twin.port = taken.getsockname()[1]
            async with wire.open(twin) as provider:
                with pytest.raises(ProviderFailure) as failed:
                    await provider.respond(wire.asking("hello"))
    assert failed.value.kind is FailureKind.CONNECTION
    assert flags(failed.value) == {"is_connect"}


@pytest.mark.spec("RT-174", "RT-186")
@every_wire
@pytest.mark.parametrize("kind", [FaultKind.MALFORMED, FaultKind.UNKNOWN_SHAPE])
async def test_an_answer_that_cannot_be_understood_is_an_invalid_response(wire, kind):
    failure = await failing(wire, Fault(kind=kind))
    assert failure.kind is FailureKind.INVALID_RESPONSE
    unfinished = wire.streams and kind is FaultKind.UNKNOWN_SHAPE
    assert flags(failure) == ({"is_body"} if unfinished else {"is_decode"})


@every_wire
async def test_a_model_that_fails_after_it_began_is_a_failure_of_the_server(wire):
    failure = await failing(wire, Fault(kind=FaultKind.FAILED))
    assert failure.kind is FailureKind.SERVER_ERROR


@pytest.mark.spec("RT-168")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", FailureKind.SERVER_ERROR),
        ("rate_limit_exceeded", FailureKind.RATE_LIMITED),
        ("context_length_exceeded", FailureKind.CONTEXT_LENGTH_EXCEEDED),
        ("invalid_prompt", FailureKind.CONTRACT_ERROR),
        ("insufficient_quota", FailureKind.CONTRACT_ERROR),
        ("something_new", FailureKind.UNKNOWN),
    ],
)
@pytest.mark.parametrize("wire", [CODEX, RESPONSES], ids=lambda w: w.id)
async def test_a_failed_response_is_classified_by_its_own_code(wire, code, kind):
    failure = await failing(wire, Fault(kind=FaultKind.FAILED, code=code))
    assert failure.kind is kind
    assert failure.message.startswith(code)
    assert failure.diagnostics is not None
    assert (failure.diagnostics["code"], failure.diagnostics["response_status"]) == (code, "failed")


@pytest.mark.spec("RT-168")
async def test_an_incomplete_codex_response_is_an_answer_that_says_why_it_ends():
    script = Script(rules=[Rule(answers=[Answer(text="and then", stop=Stop.MAX_TOKENS)])])
    async with Twin.start(script) as twin, CODEX.open(twin) as provider:
        answer = await provider.respond(CODEX.asking("go"))
    assert answer.blocks == [TextBlock(text="and then")]
    assert answer.stop_reason == "max_output_tokens"


@pytest.mark.spec("RT-185")
async def test_a_stream_that_breaks_off_has_been_paid_for_and_says_so():
    async with Twin.start() as twin, ANTHROPIC_STREAM.open(twin) as provider:
        twin.fail(Fault(kind=FaultKind.CUT))
        request = ANTHROPIC_STREAM.asking("Tell me a long story of some words, please.")
        with pytest.raises(RoundFailed) as failed:
            await run_round(request, [Usable(ANTHROPIC_STREAM.ref, provider)], policy=RetryPolicy(max_retries=0))
        (asked,) = twin.calls
    (attempt,) = failed.value.timeline.attempts
    assert attempt.token_usage is not None
    assert attempt.token_usage.input_tokens == billed(asked).input


async def test_errors_without_a_type_are_known_by_their_status():
    async with Twin.start(Script(quirks=[Quirk.PLAIN_ERRORS])) as twin, COMPATIBLE.open(twin) as provider:
        twin.fail(Fault(status=503))
        with pytest.raises(ProviderFailure) as failed:
            await provider.respond(COMPATIBLE.asking("hello"))
    assert failed.value.kind is FailureKind.SERVER_ERROR
    assert failed.value.message == "HTTP 503, 503: Our servers are currently overloaded."


@pytest.mark.spec("RT-173", "RT-175", "RT-180", "RT-181", "RT-182")
async def test_a_service_that_stays_down_is_retried_and_then_another_answers():
    async with Twin.start() as down, Twin.start() as up:
        async with ANTHROPIC.open(down) as first, CHAT.open(up) as second:
            down.fail(Fault(status=529, times=9))
            outcome = await run_round(
                ANTHROPIC.asking("hello"),
                [Usable(ANTHROPIC.ref, first), Usable(CHAT.ref, second)],
                policy=QUICK,
            )
        asked = [call.model for call in (*down.calls, *up.calls)]
    assert outcome.response.blocks == [TextBlock(text="hello")]
    assert asked == [ANTHROPIC.model] * 3 + [CHAT.model]  # each candidate is asked for its own model
    told = [(a.model_ref, a.attempt, a.outcome, a.advanced_to_fallback) for a in outcome.timeline.attempts]
    assert told == [
        (ANTHROPIC.ref, 1, AttemptOutcome.RETRYING, False),
        (ANTHROPIC.ref, 2, AttemptOutcome.RETRYING, False),
        (ANTHROPIC.ref, 3, AttemptOutcome.RETRIES_EXHAUSTED, True),
        (CHAT.ref, 1, AttemptOutcome.SUCCEEDED, False),
    ]
    assert outcome.timeline.winning_model_ref == CHAT.ref
    assert outcome.timeline.attempts[-1].token_usage == outcome.response.usage


@pytest.mark.spec("RT-174", "RT-176")
async def test_a_refused_key_is_not_tried_again_and_another_service_answers():
    unknown = "sk-not-of-the-twin-0001"
    async with Twin.start() as twin, RESPONSES.open(twin, key=unknown) as first, ANTHROPIC.open(twin) as second:
        candidates: list[Candidate] = [Usable(RESPONSES.ref, first), Usable(ANTHROPIC.ref, second)]
        outcome = await run_round(RESPONSES.asking("hello"), candidates, policy=QUICK)
    refused, answered = outcome.timeline.attempts
    assert (refused.failure_kind, refused.outcome, refused.disposition) == (
        FailureKind.AUTH_ERROR,
        AttemptOutcome.FAIL_FAST_ABORTED,
        "fail_fast",
    )
    assert answered.outcome is AttemptOutcome.SUCCEEDED


@pytest.mark.spec("RT-186")
async def test_the_diagnostics_of_a_failure_stand_in_its_attempt_and_the_operators_summary_stays_short():
    async with Twin.start() as twin, CHAT_STREAM.open(twin) as provider:
        twin.fail(Fault(kind=FaultKind.CUT))
        with pytest.raises(RoundFailed) as failed:
            await run_round(
                CHAT_STREAM.asking("hello you all out there"),
                [Usable(CHAT_STREAM.ref, provider)],
                policy=RetryPolicy(max_retries=0),
            )
        url = f"{twin.openai_url}/chat/completions"
    (attempt,) = failed.value.timeline.attempts
    diagnostics = attempt.transport_diagnostics
    assert diagnostics is not None
    chain = diagnostics.pop("source_chain")
    assert diagnostics == {
        "stage": "body",
        "provider": CHAT_STREAM.id,
        "model_ref": CHAT_STREAM.ref,
        "url": url,
        "reqwest": {
            "is_timeout": False,
            "is_connect": False,
            "is_request": False,
            "is_body": True,
            "is_decode": False,
            "is_redirect": False,
        },
    }
    assert any("RemoteProtocolError" in line for line in chain)
    assert len(artifact_of(failed.value).summary) < 400


FAULTS = [
    Fault(status=401, message=f"Incorrect API key provided: {KEY}."),
    Fault(status=500, message=f"request with Authorization: Bearer {KEY} failed"),
    Fault(kind=FaultKind.FAILED, message=f"the key {KEY} is odd"),
    Fault(kind=FaultKind.CUT),
    Fault(kind=FaultKind.MALFORMED),
]


@every_wire
async def test_the_key_is_in_no_message_diagnosis_trace_or_log(wire, caplog):
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    async with Twin.start() as twin, wire.open(twin) as provider:
        told.append(repr(provider))
        told.append(repr(wire.entry(twin)))
        for fault in FAULTS:
            twin.fail(fault)
            with pytest.raises(RoundFailed) as failed:
                await run_round(
                    wire.asking("hello you all"), [Usable(wire.ref, provider)], policy=RetryPolicy(max_retries=0)
                )
            told += [
                str(failed.value),
                dumps(to_plain(failed.value.timeline)),
                dumps(to_plain(artifact_of(failed.value))),
                "".join(traceback.format_exception(failed.value)),
                repr(failed.value.last.__dict__),
            ]
        assert all(call.request is not None for call in twin.calls)
    told += [record.getMessage() for record in caplog.records]
    assert [text for text in told if KEY in text] == []
    assert any("[secret]" in text for text in told)


@pytest.mark.parametrize("wire", [ANTHROPIC, RESPONSES], ids=lambda w: w.id)
async def test_a_key_that_no_header_can_hold_does_not_show_in_the_failure(wire):
    key = "twin-with\nnewline-inside"
    async with Twin.start() as twin, wire.open(twin, key=key) as provider:
        with pytest.raises(ProviderFailure) as failed:
            await provider.respond(wire.asking("hello"))
    assert failed.value.kind is FailureKind.CONTRACT_ERROR
    told = str(failed.value) + dumps(failed.value.diagnostics)
    assert "newline-inside" not in told
