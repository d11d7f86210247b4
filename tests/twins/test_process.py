"""A twin as a process of its own, steered over HTTP; and how its server treats clients that are not SDKs."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.twins.clients import GPT, openai_of, said
from twins import Twin

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[dict[str, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "twins", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            yield json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        assert await process.wait() == 0


async def test_a_twin_runs_as_a_process_and_is_steered_from_another(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("rules: [{when: {pattern: name}, answers: [{text: I am a twin.}]}]")
    async with (
        running("--script", str(script), "--still") as urls,
        httpx.AsyncClient(verify=False, base_url=urls["url"]) as door,
    ):
        client = openai.AsyncOpenAI(base_url=urls["openai_url"], api_key="twin-test", max_retries=0)
        spoken = await client.responses.create(model=GPT, input="What is your name?")
        fault = {"fault": {"status": 503, "times": 1}, "when": {"api": "chat"}}
        assert (await door.post("/_twin/fault", json=fault)).json() == {}
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model=GPT, messages=said("hi"))
        before = (await door.post("/_twin/clock", json={"move_ms": 0})).json()["now_ms"]
        after = (await door.post("/_twin/clock", json={"move_ms": 300_000})).json()["now_ms"]
        calls = (await door.get("/_twin/calls")).json()
        bill = (await door.get("/_twin/bill")).json()
        assert (await door.get("/_twin")).json() == urls
    assert spoken.output_text == "I am a twin."
    assert after - before == 300_000
    assert [(call["api"], call["outcome"], call["status"]) for call in calls] == [
        ("responses", "answered", 200),
        ("chat", "faulted", 503),
    ]
    assert calls[0]["request"] == {"model": GPT, "input": "What is your name?"}
    assert calls[0]["bill"] == bill
    assert bill["fresh"] > 0


async def test_a_script_that_is_not_there_ends_the_process_with_a_word():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "twins", "--script", "/nowhere/script.yaml"),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, words = await process.communicate()
    assert process.returncode == 2
    assert words.decode() == "no script at /nowhere/script.yaml: No such file or directory\n"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/_twin/fault", {"fault": {"stats": 500}}), ("/_twin/fault", {}), ("/_twin/clock", {"move_ms": "soon"})],
)
async def test_a_wrong_order_is_refused(path, body):
    async with Twin.start() as twin, httpx.AsyncClient(verify=False, base_url=twin.url) as door:
        answer = await door.post(path, json=body)
    assert answer.status_code == 400
    assert "docs/twins.md" in answer.json()["error"]["message"]


async def test_an_unknown_address_is_not_found():
    async with Twin.start() as twin, httpx.AsyncClient(verify=False, base_url=twin.url) as door:
        answers = [await door.get("/v1/messages"), await door.post("/v2/messages", json={})]
    assert [answer.status_code for answer in answers] == [404, 404]


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/responses", "/v1/chat/completions", "/backend-api/codex/responses"]
)
@pytest.mark.parametrize("body", [b"not json", b"[]", b'"text"', b"null", b'{"model": 5}', b"\xff"])
async def test_a_body_that_is_no_request_is_the_clients_fault(path, body):
    headers = {"authorization": "Bearer twin-test", "anthropic-version": "2023-06-01"}
    async with Twin.start() as twin, httpx.AsyncClient(verify=False, base_url=twin.url, headers=headers) as door:
        answer = await door.post(path, content=body)
        assert twin.calls[0].outcome == "refused"
    assert answer.status_code == 400
    assert answer.json().keys() & {"error", "detail"}


async def test_without_a_key_nothing_is_answered():
    async with Twin.start() as twin, httpx.AsyncClient(verify=False, base_url=twin.url) as door:
        statuses = [
            (await door.post(path, json={})).status_code
            for path in ("/v1/messages", "/v1/responses", "/v1/chat/completions", "/backend-api/codex/responses")
        ]
    assert statuses == [401] * 4


async def test_a_body_may_come_in_chunks_and_a_connection_is_used_again():
    async def chunks() -> AsyncIterator[bytes]:
        for piece in (b'{"model": "gpt-5", ', b'"input": "in two pieces"}'):
            yield piece

    headers = {"authorization": "Bearer twin-test"}
    limits = httpx.Limits(max_connections=1)
    async with (
        Twin.start() as twin,
        httpx.AsyncClient(verify=False, base_url=twin.url, headers=headers, limits=limits) as door,
    ):
        answers: list[Any] = [await door.post("/v1/responses", content=chunks()) for _ in range(2)]
    texts = [answer.json()["output"][0]["content"][0]["text"] for answer in answers]
    assert texts == ["in two pieces"] * 2


async def test_half_a_character_is_echoed_without_harm():
    body = r'{"model": "gpt-5", "stream": true, "input": "half \ud83d"}'  # the SDK would not send it
    headers = {"authorization": "Bearer twin-test"}
    async with Twin.start() as twin, httpx.AsyncClient(verify=False, base_url=twin.url, headers=headers) as door:
        answer = await door.post("/v1/responses", content=body)
    assert "event: response.completed" in answer.text.split("\n")


async def test_a_twin_that_ends_ends_its_stalled_calls():
    async with asyncio.timeout(10):
        async with Twin.start("rules: [{fault: {kind: stall}}]") as twin:
            asking = asyncio.create_task(openai_of(twin).responses.create(model=GPT, input="hi"))
            for _ in range(500):
                if twin.calls:
                    break
                await asyncio.sleep(0.01)
        with pytest.raises(openai.APIConnectionError):
            await asking
