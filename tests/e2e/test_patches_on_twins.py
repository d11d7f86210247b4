"""Patches over the official SDKs: each service calls `ApplyPatch` in its own form, and a real file is changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holon.core.codec import dumps
from holon.providers.selection import Providers
from holon.runtime.host import Host
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.settings import load_settings
from holon.workspaces.grammar import GRAMMAR
from twins import Answer, Call, Rule, Script, ToolCall, Twin, When

FREEFORM = """\
*** Begin Patch
*** Update File: hello.py
@@
-print('helo')
+print('hello')
*** End Patch
"""
UNIFIED = "--- a/hello.py\n+++ b/hello.py\n@@ -1 +1 @@\n-print('helo')\n+print('hello')\n"
MENDED = "print('hello')\n"
#: Models that are offered the tool as free text, and models that are not.
FREE = ["openai/gpt-5", "openai-codex/gpt-5-codex", "chat/gpt-5"]
STRICT = ["anthropic/claude-haiku-4-5", "openai/gpt-4.1", "compatible/some/model"]


def script(patch: Any, repo: Path) -> Script:
    """Uses the repository, mends the file, and then says what the tool said."""
    use = Answer(tools=[ToolCall(name="UseWorkspace", input={"path": str(repo)}, id="call_use")])
    mend = Answer(tools=[ToolCall(name="ApplyPatch", input=patch, id="call_mend")])
    return Script(rules=[Rule(when=When(pattern="mend"), answers=[use, mend, Answer(text="{result}")])])


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "hello.py").write_text("print('helo')\n")
    return folder


async def ask(twin: Twin, home: Path, model: str, *texts: str) -> list[str]:
    """One life of a host on this home. Returns what the runs ended with."""
    own: Mapping[str, Any] = {
        "chat": {
            "transport": "openai_chat_completions",
            "base_url": twin.openai_url,
            "api_key_env": "OPENAI_API_KEY",
            "options": {"freeform_tools": True, "max_tokens_field": "max_completion_tokens"},
        },
        "compatible": {
            "transport": "openai_chat_completions",
            "base_url": twin.compatible_url,
            "api_key_env": "OPENAI_API_KEY",
        },
    }
    environ = {
        "ANTHROPIC_BASE_URL": twin.anthropic_url,
        "ANTHROPIC_API_KEY": "twin-test",
        "OPENAI_BASE_URL": twin.openai_url,
        "OPENAI_API_KEY": "twin-test",
        "HOLON_OPENAI_CODEX_BASE_URL": twin.codex_url,
        "OPENAI_CODEX_API_KEY": "twin-test",
    }
    settings = load_settings(home, {"HOLON_MODEL": model})
    async with await Host.open(settings, providers=Providers.from_configuration(home, own, environ)) as host:
        results = [await run_once(host, RunRequest(text=text, agent_id="main")) for text in texts]
        assert [result.failure_artifact for result in results] == [None] * len(results)
        assert not await host.store.read(lambda tx: tx.all("SELECT 1 FROM events WHERE kind = 'prompt_drift'"))
    return [result.final_text for result in results]


def conversation(call: Call) -> list[Any]:
    """The items of a request, in the order in which they were sent, tools first."""
    body = call.request
    return [dumps(body["tools"]), *map(dumps, body.get("input") or body["messages"])]


@pytest.mark.spec("RT-253")
@pytest.mark.parametrize("patch", [FREEFORM, UNIFIED], ids=["freeform", "unified"])
@pytest.mark.parametrize("model", FREE)
async def test_an_openai_model_sends_a_patch_as_text_and_goes_on_after_a_restart(
    model: str, patch: str, tmp_path: Path
) -> None:
    repo = project(tmp_path / "project")
    async with Twin.start(script(patch, repo)) as twin:
        (told,) = await ask(twin, tmp_path / "home", model, "mend it")
        assert '"changed_file_count":1' in told
        assert (repo / "hello.py").read_text() == MENDED
        await ask(twin, tmp_path / "home", model, "and now?")
        calls = [call for call in twin.calls if call.status == 200]
    assert len(calls) == 4
    (tool,) = (tool for tool in calls[0].request["tools"] if "ApplyPatch" in dumps(tool))
    assert tool["type"] == "custom"
    assert dumps(GRAMMAR) in dumps(tool)
    called, answered = (item for item in conversation(calls[3]) if "call_mend" in item)
    assert '"custom' in called
    assert dumps(patch) in called
    assert "changed_file_count" in answered
    if model != "chat/gpt-5":  # there the results of both kinds are messages of the tool's role
        assert '"custom_tool_call_output"' in answered
    for before, after in pairwise(calls):
        assert conversation(after)[: len(conversation(before))] == conversation(before)


@pytest.mark.spec("RT-253")
@pytest.mark.parametrize("patch", [FREEFORM, UNIFIED], ids=["freeform", "unified"])
@pytest.mark.parametrize("model", STRICT)
async def test_other_models_send_a_patch_as_json(model: str, patch: str, tmp_path: Path) -> None:
    repo = project(tmp_path / "project")
    async with Twin.start(script({"patch": patch}, repo)) as twin:
        (told,) = await ask(twin, tmp_path / "home", model, "mend it")
        calls = twin.calls
    assert '"changed_file_count":1' in told
    assert (repo / "hello.py").read_text() == MENDED
    (tool,) = (tool for tool in calls[0].request["tools"] if "ApplyPatch" in dumps(tool))
    tool = tool.get("function", tool)
    assert (tool.get("input_schema") or tool["parameters"]) == {
        "type": "object",
        "properties": {"patch": {"description": "A unified diff.", "minLength": 1, "type": "string"}},
        "required": ["patch"],
        "additionalProperties": False,
    }
