"""Guidance: AGENTS.md from its two stable roots, and CLAUDE.md where a workspace has nothing else.

Read from the agent's home and from the workspace's anchor, never from a shell's current directory. What is huge is cut
with an announcement; what is binary, unreadable, or a link out of its root is left out with a reason.
"""

from __future__ import annotations

from pathlib import Path

from holon.context.sections import Place, Section
from holon.core.codec import Record
from holon.core.guidance import GuidanceKind, GuidanceScope, GuidanceSource
from holon.core.prompts import Stability

MAX_BYTES = 64 * 1024


class Guidance(Record, frozen=True, kw_only=True):
    source: GuidanceSource
    text: str


_FILES = {
    GuidanceScope.AGENT: (("AGENTS.md", GuidanceKind.AGENTS_MD),),
    GuidanceScope.WORKSPACE: (
        ("AGENTS.md", GuidanceKind.AGENTS_MD),
        ("CLAUDE.md", GuidanceKind.CLAUDE_MD_FALLBACK),
    ),
}


def load_guidance(root: Path, scope: GuidanceScope) -> Guidance | None:
    """The guidance of one root, or `None` if it has none."""
    for name, kind in _FILES[scope]:
        path = root / name
        if path.is_symlink() or path.exists():
            return _read(root, path, scope, kind)
    return None


#: What an agent remembers in files that it and its owner edit, and under what the model reads it.
MEMORY_FILES = (
    ("memory/self.md", "memory_self", "What you remember"),
    ("memory/operator.md", "memory_operator", "What you know about your owner"),
)


def memory_sections(home: Path) -> list[Section]:
    """The agent's memory files. They change often: inside an epoch a change is a delta, never an edit of the prefix."""
    sections = []
    for name, section_id, title in MEMORY_FILES:
        path = home / name
        if not (path.is_symlink() or path.exists()):
            continue
        text = _read(home, path, GuidanceScope.AGENT, GuidanceKind.MEMORY).text.strip()
        if text:
            sections.append(
                Section(section_id, Place.MEMORY, Stability.AGENT_SCOPED, f"# {title} ({name})\n{text}", str(path))
            )
    return sections


def guidance_sections(agent: Guidance | None, workspace: Guidance | None) -> list[Section]:
    """Agent first, then workspace. One directory that is both is loaded once, under the agent's scope."""
    sections = []
    for guidance, section_id, place, title in (
        (agent, "agent_instructions", Place.AGENT_INSTRUCTIONS, "Instructions of this agent"),
        (workspace, "workspace_instructions", Place.WORKSPACE_INSTRUCTIONS, "Instructions of the workspace"),
    ):
        if guidance is not None and guidance.text.strip():
            text = f"# {title} ({Path(guidance.source.path).name})\n{guidance.text.strip()}"
            sections.append(Section(section_id, place, Stability.AGENT_SCOPED, text, guidance.source.path))
    return sections


def _read(root: Path, path: Path, scope: GuidanceScope, kind: GuidanceKind) -> Guidance:
    def left_out(problem: str, size: int = 0) -> Guidance:
        source = GuidanceSource(scope=scope, kind=kind, path=str(path), bytes=size, problem=problem)
        return Guidance(source=source, text="")

    try:
        resolved = path.resolve(strict=True)
        if not resolved.is_relative_to(root.resolve()):
            return left_out("it is a link out of its folder")
        if not resolved.is_file():
            return left_out("it is not a file")
        size = resolved.stat().st_size
        with open(resolved, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return left_out(f"it cannot be read ({error.strerror})")
    except RuntimeError:
        return left_out("it is a link that leads to itself")
    if b"\0" in data:
        return left_out("it is binary", size)
    truncated = len(data) > MAX_BYTES
    text = data[:MAX_BYTES].decode("utf-8", "ignore" if truncated else "replace")
    if truncated:
        text += f"\n[{path.name} is cut here: the first {MAX_BYTES} of {size} bytes; read the rest with a command]"
    source = GuidanceSource(scope=scope, kind=kind, path=str(path), bytes=size, truncated=truncated)
    return Guidance(source=source, text=text)
