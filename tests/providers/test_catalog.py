"""Built-in and configured providers: what makes one usable, and what the doctor says of each."""

from pathlib import Path
from typing import Any

import pytest

from holon.core.codec import to_plain
from holon.core.conversation import TextBlock
from holon.core.errors import InvalidSettings
from holon.core.models import CacheKind
from holon.providers.attempts import Rejected, Usable, run_round
from holon.providers.catalog import BUILT_IN, ProviderEntry, configured
from holon.providers.contract import FailureKind, PromptCapability, RoundFailed
from holon.providers.models import ModelTable
from holon.providers.options import AnthropicOptions, ChatOptions, ContextManagement, ResponsesOptions
from holon.providers.selection import Providers, caches
from tests.providers.wires import KEY, asking
from twins import Twin

HOME = Path("/nowhere")
KEYS = {
    "ANTHROPIC_API_KEY": KEY,
    "OPENAI_API_KEY": KEY,
    "OPENAI_CODEX_API_KEY": KEY,
    "OPENROUTER_API_KEY": KEY,
    "HOLON_OPENAI_CODEX_BASE_URL": "https://codex.example/backend",
}


def entries(own: dict[str, Any] | None = None, environ: dict[str, str] | None = None) -> dict[str, ProviderEntry]:
    return {entry.name: entry for entry in configured(own or {}, environ or {})}


def providers(own: dict[str, Any] | None = None, **environ: str) -> Providers:
    return Providers.from_configuration(HOME, own or {}, environ)


def rejection(model: str, own: dict[str, Any] | None = None, **environ: str) -> tuple[FailureKind, str]:
    (candidate,) = providers(own, **environ).candidates(model)
    assert isinstance(candidate, Rejected)
    return candidate.reason.kind, candidate.reason.message


@pytest.mark.spec("RT-172")
def test_built_in_are_only_services_that_a_transport_reaches_with_an_address_and_at_most_one_key():
    known = entries(environ=KEYS)
    assert {name: entry.transport for name, entry in known.items()} == {
        "anthropic": "anthropic_messages",
        "openai": "openai_responses",
        "openai-codex": "openai_codex_responses",
        "openrouter": "openai_chat_completions",
        "ollama": "openai_chat_completions",
        "vllm": "openai_chat_completions",
    }
    assert all(entry.problem is None for entry in known.values())
    assert all(not entry.secret_headers and not entry.options.headers for entry in known.values())
    assert next(each.base_url for each in BUILT_IN if each.name == "openai-codex") == ""  # by configuration only


@pytest.mark.parametrize(
    ("model", "environ", "message"),
    [
        ("anthropic/x", {}, "provider 'anthropic' has no key: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("openai/x", {"OPENAI_API_KEY": " "}, "provider 'openai' has no key: set OPENAI_API_KEY"),
        ("openrouter/a/x", {}, "provider 'openrouter' has no key: set OPENROUTER_API_KEY"),
        (
            "openai-codex/x",
            {"HOLON_OPENAI_CODEX_BASE_URL": "https://codex.example"},
            "provider 'openai-codex' has no key: set OPENAI_CODEX_API_KEY",
        ),
        ("openai/x", {"OPENAI_API_KEY": "sk\n1"}, "the key of provider 'openai' has characters that no key has"),
    ],
)
def test_a_missing_key_rejects_the_candidate_and_names_the_variable(model, environ, message):
    assert rejection(model, **environ) == (FailureKind.AUTH_ERROR, message)


@pytest.mark.parametrize(
    ("own", "environ", "message"),
    [
        (
            {},
            {"OPENAI_CODEX_API_KEY": KEY},
            "provider 'openai-codex' has no address: set HOLON_OPENAI_CODEX_BASE_URL or"
            " providers.openai-codex.base_url",
        ),
        (
            {"openai-codex": {"base_url": "codex.example"}},
            {"OPENAI_CODEX_API_KEY": KEY},
            "the address of provider 'openai-codex' is none: expected http:// or https:// and a host",
        ),
        (
            {"openai-codex": {"base_url": "https://codex.example:99999/v1"}},
            {"OPENAI_CODEX_API_KEY": KEY},
            "the address of provider 'openai-codex' is none: expected http:// or https:// and a host",
        ),
        (
            {"openai-codex": {"base_url": "https://ada:secret@codex.example/v1"}},
            {"OPENAI_CODEX_API_KEY": KEY},
            "the address of provider 'openai-codex' holds a password: use api_key_env or header_env",
        ),
    ],
)
def test_a_missing_address_rejects_the_candidate_and_says_where_to_give_it(own, environ, message):
    assert rejection("openai-codex/x", own, **environ) == (FailureKind.UNSUPPORTED_TRANSPORT, message)


def test_an_own_provider_needs_a_transport_an_address_and_says_where_its_key_is():
    own = {
        "acme": {
            "transport": "openai_chat_completions",
            "base_url": "https://llm.acme.example/v1",
            "api_key_env": "ACME_KEY",
            "options": {"stream": True, "max_tokens_field": "max_completion_tokens", "headers": {"X-Team": "red"}},
        },
        "local": {"transport": "anthropic_messages", "base_url": "http://127.0.0.1:9/"},
    }
    known = entries(own, {"ACME_KEY": "acme-key"})
    assert known["acme"].base_url == "https://llm.acme.example/v1"
    assert known["acme"].key is not None
    assert known["acme"].key.reveal() == "acme-key"
    assert known["acme"].options == ChatOptions(
        stream=True, max_tokens_field="max_completion_tokens", headers={"X-Team": "red"}
    )
    assert (known["local"].key, known["local"].problem, known["local"].options) == (None, None, AnthropicOptions())
    assert rejection("acme/x", own) == (FailureKind.AUTH_ERROR, "provider 'acme' has no key: set ACME_KEY")


def test_an_own_entry_changes_of_a_built_in_one_what_it_names():
    known = entries(
        {"ollama": {"base_url": "http://gpu:11434/v1"}, "openai": {"api_key_env": None}},
        {"HOLON_OLLAMA_BASE_URL": "http://elsewhere/v1", "OPENAI_API_KEY": KEY},
    )
    assert (known["ollama"].base_url, known["ollama"].transport) == ("http://gpu:11434/v1", "openai_chat_completions")
    assert (known["openai"].key, known["openai"].problem) == (None, None)
    assert known["openai"].base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "https://api.anthropic.com"),
        ({"ANTHROPIC_BASE_URL": "https://a.example"}, "https://a.example"),
        (
            {"ANTHROPIC_BASE_URL": "https://a.example", "HOLON_ANTHROPIC_BASE_URL": "https://h.example"},
            "https://h.example",
        ),
    ],
)
def test_an_address_may_stand_in_the_environment(environ, url):
    assert entries(environ=environ)["anthropic"].base_url == url


def test_a_header_from_the_environment_is_a_secret_and_must_be_there():
    own = {"openai": {"options": {"header_env": {"X-Account": "ACCOUNT"}}}}
    known = entries(own, {**KEYS, "ACCOUNT": "acct-123456"})
    assert "acct-123456" not in repr(known["openai"])
    assert [secret.reveal() for secret in known["openai"].secrets] == [KEY, "acct-123456"]
    assert rejection("openai/x", own, **KEYS) == (
        FailureKind.AUTH_ERROR,
        "provider 'openai' has no value for the header X-Account: set ACCOUNT",
    )


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"acme": {"base_url": "http://x"}}, "providers.acme needs a transport"),
        ({"acme": {"transport": "openai_responses", "api_key": "sk-1"}}, "unknown field `api_key`"),
        ({"openai": {"options": {"streem": True}}}, "providers.openai.options: Object contains unknown field `streem`"),
        ({"anthropic": {"options": {"incremental": True}}}, "providers.anthropic.options"),
        ({"anthropic": {"options": {"thinking": "hard"}}}, "Invalid enum value 'hard'"),
        ({"a/b": {"transport": "openai_responses"}}, "providers.a/b: this name cannot be used"),
        ({"scripted": {"transport": "openai_responses"}}, "providers.scripted: this name cannot be used"),
        ({"acme": 1}, "providers.acme: Expected `object`, got `int`"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_place(own, message):
    with pytest.raises(InvalidSettings) as refused:
        configured(own, {})
    assert message in str(refused.value)


@pytest.mark.spec("RT-170", "RT-171")
async def test_an_unsupported_transport_is_refused_when_it_is_chosen_with_what_there_is_instead():
    own = {"acme": {"transport": "acme_grpc", "base_url": "https://acme.example", "options": {"anything": 1}}}
    chosen = providers(own)
    first, second = chosen.candidates("acme/large", ["scripted/echo"])
    assert isinstance(first, Rejected)
    assert isinstance(second, Usable)
    assert first.reason.message == (
        "provider 'acme' asks for the transport 'acme_grpc', which is not supported: choose one of"
        " anthropic_messages, openai_chat_completions, openai_codex_responses, openai_responses, scripted"
    )
    outcome = await run_round(asking("acme/large", "hello"), [first, second])
    assert outcome.response.blocks == [TextBlock(text="hello")]
    assert outcome.timeline.attempts[0].failure_kind is FailureKind.UNSUPPORTED_TRANSPORT


@pytest.mark.spec("RT-178")
def test_the_doctor_says_who_can_be_used_why_not_and_what_is_known_of_models():
    told = providers(None, ANTHROPIC_API_KEY=KEY).doctor(["anthropic/claude-opus-5", "openai/gpt-5", "scripted/echo"])
    lines = {line["provider"]: line for line in to_plain(told)}
    assert list(lines) == ["anthropic", "ollama", "openai", "openai-codex", "openrouter", "scripted", "vllm"]
    assert {name: line["available"] for name, line in lines.items()} == {
        "anthropic": True,
        "ollama": True,
        "openai": False,
        "openai-codex": False,
        "openrouter": False,
        "scripted": True,
        "vllm": True,
    }
    policy = {"max_retries": 2, "base_ms": 200, "cap_ms": 10_000, "retry_after_cap_ms": 60_000}
    assert lines["anthropic"] == {
        "provider": "anthropic",
        "transport": "anthropic_messages",
        "available": True,
        "problem": None,
        "retry_policy": policy,
        "models": [
            {
                "model_ref": "anthropic/claude-opus-5",
                "capabilities": ["full_request_only", "prompt_cache_blocks"],
                "supports_prompt_caching": True,
            }
        ],
    }
    assert lines["openai"]["problem"] == "provider 'openai' has no key: set OPENAI_API_KEY"
    assert lines["openai"]["models"] == [
        {"model_ref": "openai/gpt-5", "capabilities": [], "supports_prompt_caching": False}
    ]
    assert KEY not in str(lines)


FULL, KEYED, BLOCKS, INCREMENTAL, MANAGED = (
    PromptCapability.FULL_REQUEST_ONLY,
    PromptCapability.PROMPT_CACHE_KEY,
    PromptCapability.PROMPT_CACHE_BLOCKS,
    PromptCapability.INCREMENTAL_RESPONSES,
    PromptCapability.CONTEXT_MANAGEMENT,
)


@pytest.mark.spec("RT-213")
@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("anthropic/claude-opus-5", {}, {FULL, BLOCKS}),
        ("anthropic/claude-opus-5", {"context_management": {}}, {FULL, BLOCKS, MANAGED}),
        ("openai/gpt-5", {}, {KEYED, INCREMENTAL}),
        ("openai/gpt-5", {"incremental": False}, {KEYED, FULL}),
        ("openai-codex/gpt-5-codex", {}, {FULL, KEYED}),
        ("openrouter/anthropic/claude-sonnet-4.5", {}, {FULL, BLOCKS}),
        ("openrouter/openai/gpt-5", {}, {FULL}),
        ("ollama/llama", {"prompt_cache_key": True}, {FULL, KEYED}),
        ("scripted/echo", None, {FULL}),
        ("nowhere/x", None, set()),
    ],
)
def test_a_transport_says_what_it_does_with_prompts(model, options, expected):
    own = {} if options is None else {model.partition("/")[0]: {"options": options}}
    assert Providers.from_configuration(HOME, own, KEYS).capabilities(model) == expected


def test_the_two_forms_of_options_are_the_same():
    assert entries({"anthropic": {"options": {"context_management": {"keep_tool_uses": 5}}}})[
        "anthropic"
    ].options == AnthropicOptions(context_management=ContextManagement(keep_tool_uses=5))
    assert isinstance(entries()["openai"].options, ResponsesOptions)


@pytest.mark.spec("CA-022", "CA-023", "CA-024", "CA-025")
@pytest.mark.parametrize(
    ("model", "cached"),
    [
        ("anthropic/claude-opus-5", True),
        ("anthropic/claude-unheard-of", False),
        ("openai/gpt-5", True),
        ("openai-codex/gpt-5-codex", True),
        ("openrouter/openai/gpt-5", False),
        ("openrouter/meta/llama", False),
        ("openrouter/anthropic/claude-sonnet-4.5", True),  # where the table says so (decision 47)
        ("ollama/llama", False),
        ("scripted/echo", False),
        ("nowhere/x", False),
    ],
)
def test_caching_is_declared_only_where_the_table_and_the_transport_agree(model, cached):
    assert Providers.from_configuration(HOME, {}, KEYS).supports_prompt_caching(model) is cached


@pytest.mark.spec("CA-024")
def test_marks_that_nobody_sets_and_a_cache_that_nobody_has_are_no_caching():
    assert not caches(CacheKind.EXPLICIT, frozenset({FULL, KEYED}))
    assert not caches(CacheKind.NONE, frozenset({FULL, BLOCKS}))
    assert not caches(CacheKind.AUTOMATIC, frozenset())
    assert caches(CacheKind.AUTOMATIC, frozenset({FULL}))


@pytest.mark.spec("CA-026")
def test_only_models_whose_prompts_are_cached_stand_in_for_one_whose_are():
    chosen = Providers.from_configuration(HOME, {}, KEYS)
    offered = ["openrouter/openai/gpt-5", "openai/gpt-5", "scripted/echo", "anthropic/claude-opus-5"]
    assert chosen.substitutes_with_caching(offered) == ["openai/gpt-5", "anthropic/claude-opus-5"]


@pytest.mark.spec("CA-020", "CA-021")
async def test_a_router_gets_marks_for_routes_whose_table_asks_for_them_and_no_others():
    async with Twin.start() as twin:
        own = {"openrouter": {"base_url": twin.compatible_url}}
        chosen = Providers.from_configuration(HOME, own, KEYS, models=ModelTable())
        for model in ("openrouter/anthropic/claude-sonnet-4.5", "openrouter/meta/llama"):
            await run_round(asking(model, "hello", marks=[0]), chosen.candidates(model))
        await chosen.close()
        marked, plain = (str(call.request) for call in twin.calls)
    assert marked.count("cache_control") == 2
    assert "cache_control" not in plain


async def test_configured_providers_answer_and_fall_back_in_one_round():
    async with Twin.start() as twin:
        own = {
            "anthropic": {"base_url": twin.anthropic_url},
            "openai": {"base_url": twin.openai_url},
            "mine": {
                "transport": "openai_chat_completions",
                "base_url": twin.compatible_url,
                "api_key_env": "MINE",
            },
        }
        chosen = Providers.from_configuration(HOME, own, {**KEYS, "ANTHROPIC_API_KEY": "sk-wrong", "MINE": KEY})
        await chosen.warm(["anthropic/claude-opus-5", "mine/any", "nowhere/x", "scripted/echo"])
        model, fallbacks = "anthropic/claude-opus-5", ["mine/any/model", "openai/gpt-5"]
        outcome = await run_round(asking(model, "hello"), chosen.candidates(model, fallbacks))
        await chosen.close()
        asked = [(call.path, call.status) for call in twin.calls]
    assert outcome.timeline.winning_model_ref == "mine/any/model"
    assert asked == [("/v1/messages", 401), ("/compatible/v1/chat/completions", 200)]
    assert twin.calls[-1].request["model"] == "any/model"


async def test_a_service_without_a_key_is_asked_without_one(monkeypatch):
    """The SDK would take a key of its maker from the environment, and send it to anyone."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"sk-real-{name}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: sk-real-gateway\nAuthorization: Bearer sk-real-ambient")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway: sk-real-gateway\nAuthorization: Bearer sk-real-ambient")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-real-anthropic")
    async with Twin.start() as twin:
        own = {
            "ollama": {"base_url": twin.compatible_url},
            "proxy": {"transport": "anthropic_messages", "base_url": twin.anthropic_url},
            "paid": {"transport": "anthropic_messages", "base_url": twin.anthropic_url, "api_key_env": "PAID"},
        }
        chosen = Providers.from_configuration(HOME, own, {"PAID": KEY})
        with pytest.raises(RoundFailed):  # the twin asks for a key
            await run_round(asking("ollama/llama", "hi"), chosen.candidates("ollama/llama", ["proxy/claude-opus-5"]))
        answered = await run_round(asking("paid/claude-opus-5", "hi"), chosen.candidates("paid/claude-opus-5"))
        await chosen.close()
        calls = twin.calls
    assert [call.status for call in calls] == [401, 401, 200]
    assert "sk-real" not in str([call.headers for call in calls])
    assert calls[0].error == "Incorrect API key provided: ***."  # it names the first letters of a longer one
    assert answered.response.blocks == [TextBlock(text="hi")]
