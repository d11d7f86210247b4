"""Conversation: the blocks that a model writes and reads, the same for every provider."""

from __future__ import annotations

from typing import Any

from holon.core.codec import Record


class _Block(Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class TextBlock(_Block, frozen=True, kw_only=True, tag="text"):
    text: str


class ToolUseBlock(_Block, frozen=True, kw_only=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class ThinkingBlock(_Block, frozen=True, kw_only=True, tag="thinking"):
    text: str
    signature: str | None = None


class RedactedThinkingBlock(_Block, frozen=True, kw_only=True, tag="redacted_thinking"):
    data: str


ModelBlock = TextBlock | ToolUseBlock | ThinkingBlock | RedactedThinkingBlock


class ToolResultBlock(Record, frozen=True, kw_only=True):
    tool_use_id: str
    content: str
    is_error: bool = False


class _Turn(Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="role"):
    pass


class UserText(_Turn, frozen=True, kw_only=True, tag="user"):
    text: str


class AssistantBlocks(_Turn, frozen=True, kw_only=True, tag="assistant"):
    blocks: list[ModelBlock]


class ToolResults(_Turn, frozen=True, kw_only=True, tag="tool_results"):
    results: list[ToolResultBlock]


ConversationItem = UserText | AssistantBlocks | ToolResults


def text_of(blocks: list[ModelBlock]) -> str:
    """The words that the model said, without its thinking and its tool calls."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def tool_uses(blocks: list[ModelBlock]) -> list[ToolUseBlock]:
    return [block for block in blocks if isinstance(block, ToolUseBlock)]
