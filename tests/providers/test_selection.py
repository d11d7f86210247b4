"""From model names to candidates, and what the doctor says of providers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import to_plain
from holon.core.conversation import TextBlock, UserText
from holon.core.errors import InvalidInput
from holon.core.prompts import PromptFrame
from holon.providers.attempts import Rejected, Usable, run_round
from holon.providers.contract import FailureKind, Provider, ProviderFailure, ProviderRequest, RoundFailed
from holon.providers.scripted import ScriptedProvider
from holon.providers.selection import ModelRef, ProviderEntry, Providers

RETRY_POLICY = {"max_retries": 2, "base_ms": 200, "cap_ms": 10_000, "retry_after_cap_ms": 60_000}


def request(model: str) -> ProviderRequest:
    return ProviderRequest(
        agent_id="main",
        turn_id="turn_1",
        round=1,
        model=model,
        frame=PromptFrame(),
        conversation=[UserText(text="hello")],
    )


def scripted(_entry: ProviderEntry) -> Provider:
    return ScriptedProvider()


def with_an_unsupported_provider() -> Providers:
    """Two configured providers, of which one asks for a transport that this build does not speak."""
    entries = [ProviderEntry("acme", "acme_grpc"), ProviderEntry("scripted", "scripted")]
    return Providers(entries, {"scripted": scripted})


@given(st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True), st.from_regex(r"[!-~]{1,40}", fullmatch=True))
def test_a_model_ref_is_split_at_its_first_slash_and_written_back_as_it_was(provider, model):
    ref = ModelRef.parse(f"{provider}/{model}")
    assert ref == ModelRef(provider, model)
    assert str(ref) == f"{provider}/{model}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scripted/echo", ModelRef("scripted", "echo")),
        ("scripted//srv/demo.yaml", ModelRef("scripted", "/srv/demo.yaml")),
        ("openrouter/meta/llama", ModelRef("openrouter", "meta/llama")),
    ],
)
def test_a_models_name_may_have_slashes(text, expected):
    assert ModelRef.parse(text) == expected


@pytest.mark.parametrize("text", ["", "echo", "/echo", "scripted/", " scripted/echo", "scripted/echo\n", "a b/c"])
def test_what_names_no_model_is_refused_with_an_example(text):
    with pytest.raises(InvalidInput, match="expected provider/model: for example scripted/echo"):
        ModelRef.parse(text)


@pytest.mark.spec("RT-170", "RT-171")
async def test_a_candidate_with_an_unsupported_transport_is_rejected_at_selection_and_the_next_one_answers():
    rejected, usable = with_an_unsupported_provider().candidates("acme/large", ["scripted/echo"])
    assert isinstance(rejected, Rejected)
    assert isinstance(usable, Usable)
    assert rejected.reason.kind is FailureKind.UNSUPPORTED_TRANSPORT

    outcome = await run_round(request("acme/large"), [rejected, usable])
    assert outcome.response.blocks == [TextBlock(text="hello")]
    first, second = outcome.timeline.attempts
    assert (first.model_ref, first.failure_kind, first.advanced_to_fallback, first.started_at) == (
        "acme/large",
        FailureKind.UNSUPPORTED_TRANSPORT,
        True,
        None,
    )
    assert first.transport_diagnostics == {
        "stage": "candidate_selection",
        "provider": "acme",
        "model_ref": "acme/large",
        "source_chain": [
            "provider 'acme' asks for the transport 'acme_grpc', which is not supported: choose one of scripted"
        ],
    }
    assert second.model_ref == outcome.timeline.winning_model_ref == "scripted/echo"


@pytest.mark.spec("RT-170")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nowhere/x", "there is no provider 'nowhere': configured are scripted"),
        ("gibberish", "'gibberish' does not name a model: expected provider/model: for example scripted/echo"),
    ],
)
async def test_a_model_that_nobody_serves_fails_closed_with_a_diagnosis(model, message):
    with pytest.raises(RoundFailed) as failed:
        await run_round(request(model), Providers.builtin().candidates(model))
    assert (failed.value.last.kind, failed.value.last.message) == (FailureKind.UNSUPPORTED_TRANSPORT, message)


def test_candidates_are_the_model_and_then_its_fallbacks_each_once():
    refs = ["scripted/a", "scripted/b", "nowhere/x"]
    found = Providers.builtin().candidates("scripted/a", ["scripted/b", "scripted/a", "nowhere/x", "scripted/b"])
    assert [each.model_ref for each in found] == refs


def test_a_provider_is_made_on_first_use_and_only_once():
    made: list[str] = []

    def factory(entry: ProviderEntry) -> Provider:
        made.append(entry.name)
        return ScriptedProvider()

    providers = Providers([ProviderEntry("used", "wire"), ProviderEntry("unused", "wire")], {"wire": factory})
    assert made == []
    first, second = providers.candidates("used/a", ["used/b"])
    assert isinstance(first, Usable)
    assert isinstance(second, Usable)
    assert first.provider is second.provider
    assert made == ["used"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            ProviderFailure(FailureKind.AUTH_ERROR, "set ACME_API_KEY"),
            FailureKind.AUTH_ERROR,
            "set ACME_API_KEY",
        ),
        (
            ModuleNotFoundError("No module named 'acme'"),
            FailureKind.UNSUPPORTED_TRANSPORT,
            "provider 'acme' needs a package that is not installed: No module named 'acme'",
        ),
        (ZeroDivisionError("oops"), FailureKind.UNKNOWN, "ZeroDivisionError: oops"),
    ],
)
def test_a_provider_that_cannot_be_made_is_rejected_and_tried_again_at_the_next_selection(error, kind, message):
    errors = [error]

    def factory(_entry: ProviderEntry) -> Provider:
        if errors:
            raise errors.pop()
        return ScriptedProvider()

    providers = Providers([ProviderEntry("acme", "wire")], {"wire": factory})
    (candidate,) = providers.candidates("acme/x")
    assert isinstance(candidate, Rejected)
    assert (candidate.reason.kind, candidate.reason.message) == (kind, message)
    assert candidate.reason.__cause__ is (None if candidate.reason is error else error)
    assert isinstance(providers.candidates("acme/x")[0], Usable)


def test_the_doctor_says_who_is_available_why_not_and_how_often_is_retried():
    assert to_plain(with_an_unsupported_provider().doctor()) == [
        {
            "provider": "acme",
            "transport": "acme_grpc",
            "available": False,
            "problem": (
                "provider 'acme' asks for the transport 'acme_grpc', which is not supported: choose one of scripted"
            ),
            "retry_policy": RETRY_POLICY,
            "models": [],
        },
        {
            "provider": "scripted",
            "transport": "scripted",
            "available": True,
            "problem": None,
            "retry_policy": RETRY_POLICY,
            "models": [],
        },
    ]
