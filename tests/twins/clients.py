"""The official SDKs, pointed at a twin: no retries of their own, and a timeout that a test can wait for.

They are `Any` here: most tests send what the SDKs' types would not allow.
"""

from typing import Any

import anthropic
import openai

from twins import Twin

CLAUDE = "claude-sonnet-4-6"
GPT = "gpt-5"

WEATHER: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}


def anthropic_of(twin: Twin, key: str = "twin-test", **options: Any) -> Any:
    quick = anthropic.DefaultAsyncHttpxClient(verify=False)  # loading the certificates takes longer than a test
    options = {"timeout": 10, "http_client": quick, **options}
    return anthropic.AsyncAnthropic(base_url=twin.anthropic_url, api_key=key, max_retries=0, **options)


def openai_of(twin: Twin, key: str = "twin-test", **options: Any) -> Any:
    quick = openai.DefaultAsyncHttpxClient(verify=False)  # loading the certificates takes longer than a test
    options = {"base_url": twin.openai_url, "timeout": 10, "http_client": quick, **options}
    return openai.AsyncOpenAI(api_key=key, max_retries=0, **options)


def codex_of(twin: Twin, **options: Any) -> Any:
    return openai_of(twin, base_url=twin.codex_url, **options)


def said(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def words(count: int, start: str = "w") -> str:
    """A text of about so many tokens, of which no beginning is the beginning of another with a different `start`."""
    return start + " apple" * (count - 1)
