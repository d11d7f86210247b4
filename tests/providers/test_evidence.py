"""What errors say about a failed attempt: codes, waits and addresses, without a service behind them."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from holon.providers.contract import FailureKind, ProviderFailure
from holon.providers.evidence import Stage, Told, failure_from, retry_after_ms, shown_url
from holon.providers.secrets import Secret, redacted

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("body", "told", "kind"),
    [
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            Told("Overloaded", None, "overloaded_error"),
            FailureKind.SERVER_ERROR,
        ),
        (
            {"message": "no", "code": "invalid_api_key", "type": "invalid_request_error"},
            Told("no", "invalid_api_key", "invalid_request_error"),
            FailureKind.AUTH_ERROR,
        ),
        ({"error": {"message": "bad gateway", "code": 502}}, Told("bad gateway", "502"), FailureKind.SERVER_ERROR),
        ({"error": {"message": "slow down", "code": 429}}, Told("slow down", "429"), FailureKind.RATE_LIMITED),
        ({"error": "model not found"}, Told("model not found"), FailureKind.UNKNOWN),
        ({"detail": "Unauthorized"}, Told("Unauthorized"), FailureKind.UNKNOWN),
        ("<html>", Told("<html>"), FailureKind.UNKNOWN),
        (None, Told(""), FailureKind.UNKNOWN),
        (
            {"error": {"message": "too big", "type": "exceed_context_size_error", "code": 400}},
            Told("too big", "400", "exceed_context_size_error"),
            FailureKind.CONTEXT_LENGTH_EXCEEDED,
        ),
    ],
)
def test_an_error_is_read_in_any_of_the_forms_in_use(body, told, kind):
    assert Told.of(body) == told
    assert told.kind is kind


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    ],
)
def test_services_without_a_code_say_that_a_prompt_is_too_long_in_a_fixed_sentence(message):
    assert Told(message, None, "invalid_request_error").kind is FailureKind.CONTEXT_LENGTH_EXCEEDED


def test_other_words_decide_nothing():
    assert Told("timeout, rate limit, context length: whatever").kind is FailureKind.UNKNOWN


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2_000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "-3"}, 0),
        ({"retry-after-ms": "1250", "retry-after": "9"}, 1_250),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30_000),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
    ],
)
def test_the_wait_is_read_in_seconds_in_milliseconds_or_as_a_date(headers, expected):
    assert retry_after_ms(headers, NOW_MS) == expected


def test_any_date_that_the_standard_library_writes_is_read():
    later = datetime.fromtimestamp(NOW_MS / 1000, tz=UTC) + timedelta(seconds=90)
    assert retry_after_ms({"retry-after": format_datetime(later, usegmt=True)}, NOW_MS) == 90_000


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.example.com/v1/messages", "https://api.example.com/v1/messages"),
        ("https://ada:secret@api.example.com:8443/v1?key=secret#secret", "https://api.example.com:8443/v1"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret_in_it(url, shown):
    assert shown_url(url) == shown


def test_a_secret_prints_as_one_and_is_taken_out_of_whatever_holds_it():
    secret = Secret("sk-abcdef")
    assert f"{secret} {secret!r} {[secret]}" == "[secret] [secret] [[secret]]"
    found = {"a": ["x sk-abcdef y", ("sk-abcdef",)], "sk-abcdef": 1, "n": None}
    assert redacted(found, [secret]) == {"a": ["x [secret] y", ["[secret]"]], "[secret]": 1, "n": None}
    assert redacted("none of it", [Secret("no")]) == "none of it"  # a placeholder is no secret
    assert secret == Secret("sk-abcdef")
    assert len({secret, Secret("sk-abcdef"), Secret("other")}) == 2


def test_a_defect_of_a_transport_is_a_failure_like_any_other_and_keeps_no_exception():
    def defect() -> ProviderFailure:
        try:
            json.loads("{")
        except ValueError as error:
            return failure_from(error, stage=Stage.BODY, url="http://x/", secrets=[], now_ms=NOW_MS)
        raise AssertionError

    failure = defect()
    assert failure.kind is FailureKind.INVALID_RESPONSE
    assert (failure.__cause__, failure.__context__) == (None, None)
    odd = failure_from(ZeroDivisionError("oops"), stage=Stage.DECODE, url="http://x/", secrets=[], now_ms=NOW_MS)
    assert (odd.kind, odd.message) == (FailureKind.UNKNOWN, "the answer could not be read: ZeroDivisionError: oops")
