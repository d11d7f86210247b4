"""Linting: what is wrong with a skill, for its author. Stricter than reading: what only warns there may fail here.

Nothing of the skill is executed: Python files are parsed, not run.
"""

from __future__ import annotations

import ast
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from holon.core.tokens import count
from holon.core.values import Value
from holon.skills.catalog import allowed_references
from holon.skills.format import ENTRYPOINT, FrontMatter, check_body, check_fields, read_skill
from holon.skills.plain_files import read_plain

MAX_FILE_BYTES = 4 * 1024 * 1024
#: Two short paragraphs.
INSTRUCTION_TOKENS = 150
_LINK = re.compile(r"!?\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_INLINE_CODE = re.compile(r"`[^`\n]*`")


class Finding(Value, frozen=True):
    #: The file, from the skill's folder.
    path: str
    message: str
    #: Whether the skill should not be given away like this.
    fails: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def lint_skill(folder: Path) -> list[Finding]:
    """All findings, in a fixed order; none means that the skill is sound."""
    try:
        data = read_plain(folder / ENTRYPOINT, MAX_FILE_BYTES)
    except OSError as error:
        return [Finding(ENTRYPOINT, f"cannot be read ({error.strerror})")]
    if data is None:
        return [Finding(ENTRYPOINT, f"has more than {MAX_FILE_BYTES} bytes: move details into references/")]
    if b"\0" in data:
        return [Finding(ENTRYPOINT, "is binary")]
    text = data.decode("utf-8", "replace")
    read = read_skill(text, folder.name)
    findings = [Finding(ENTRYPOINT, problem) for problem in check_fields(read.front, folder.name)]
    findings += [Finding(ENTRYPOINT, problem) for problem in check_body(read.body)]
    findings += _lint_instructions(read.front)
    findings += [Finding(ENTRYPOINT, warning, _is_broken(warning)) for warning in read.warnings]
    if "\ufffd" in text:
        findings.append(Finding(ENTRYPOINT, "is no UTF-8 text"))
    findings += _lint_markdown(folder, ENTRYPOINT, read.body)
    listed, refused = allowed_references(read.front, folder)
    findings += [Finding(ENTRYPOINT, warning) for warning in refused]
    findings += _lint_references(folder, listed, read.body)
    for path in _files(folder):
        findings += _lint_file(folder, path)
    return list(dict.fromkeys(findings))


def _is_broken(warning: str) -> bool:
    return any(sign in warning for sign in ("front matter", "missing", "is not a text", "it is cut at"))


def _lint_instructions(front: FrontMatter) -> Iterator[Finding]:
    """What stands in every prompt, whether the skill is used or not: a paragraph or two, in plain characters."""
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in front.description):
        yield Finding(ENTRYPOINT, "description has control characters: leave them out")
    if (tokens := count(front.description)) > INSTRUCTION_TOKENS:
        yield Finding(
            ENTRYPOINT,
            f"description has {tokens} tokens, which every prompt pays for: a paragraph or two, up to about"
            f" {INSTRUCTION_TOKENS}, is enough; the rest belongs into the body",
            fails=False,
        )


def _lint_references(folder: Path, listed: tuple[str, ...], body: str) -> Iterator[Finding]:
    """Listed is on disk, on disk is listed, and the body tells when to load each."""
    root = folder.resolve()
    for path in listed:
        target = folder / path
        if not target.is_file():
            yield Finding(path, "is listed as a reference, but is not on disk")
        elif not target.resolve().is_relative_to(root):
            yield Finding(path, "is a link that leaves the skill")
        elif Path(path).name not in body:
            yield Finding(path, f"is not mentioned in {ENTRYPOINT}: say there when to load it", fails=False)
    on_disk = {str(path) for path in _files(folder) if path.parts[0] == "references"}
    for path in sorted(on_disk - set(listed)):
        yield Finding(path, "is under references/, but not in the list: it cannot be loaded")


def _lint_file(folder: Path, path: Path) -> Iterator[Finding]:
    full = folder / path
    name = str(path)
    if full.is_symlink() and not _stays(full, folder):
        yield Finding(name, "is a link that leaves the skill")
        return
    if path.name == ENTRYPOINT and len(path.parts) > 1:
        yield Finding(name, "is a skill inside a skill: it will not be found; move it to a folder of its own")
    if path.suffix not in (".md", ".py"):
        return
    try:
        data = read_plain(full, MAX_FILE_BYTES)
        text = data.decode("utf-8") if data is not None else None
    except (OSError, UnicodeDecodeError) as error:
        yield Finding(name, f"cannot be read as text ({type(error).__name__})")
        return
    if text is None:
        yield Finding(name, f"has more than {MAX_FILE_BYTES} bytes")
    elif path.suffix == ".md" and len(path.parts) > 1:
        yield from _lint_markdown(folder, name, text)
    elif path.suffix == ".py":
        yield from _lint_python(name, text)


def _lint_python(name: str, text: str) -> Iterator[Finding]:
    try:
        ast.parse(text, filename=name)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        yield Finding(name, f"is not valid Python{line}: {getattr(error, 'msg', error)}")


def _lint_markdown(folder: Path, name: str, text: str) -> Iterator[Finding]:
    """Fences that are closed, comments that end, links that lead somewhere inside the skill."""
    prose: list[str] = []
    fence, opened = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        found = _FENCE.match(line)
        if found and not fence:
            fence, opened = found[1], number
        elif found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
            fence = ""
        elif not fence:
            prose.append(_INLINE_CODE.sub("", line))
    if fence:
        yield Finding(name, f"a code block that begins at line {opened} is never closed")
    plain = "\n".join(prose)
    if plain.count("<!--") != plain.count("-->"):
        yield Finding(name, "a comment (<!--) is never closed")
    base = (folder / name).parent
    for target in dict.fromkeys(_LINK.findall(plain)):
        path = unquote(target.partition("#")[0])
        if not path or re.match(r"[a-zA-Z][\w+.-]*:|/|\{", path):
            continue
        if not _stays(base / path, folder):
            yield Finding(name, f"links to {target}, which is not in the skill")


def _stays(path: Path, folder: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except (OSError, RuntimeError):
        return False


def _files(folder: Path) -> Iterator[Path]:
    """Files of the skill, from its folder, sorted; hidden ones are left out. Links to folders are not followed."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            if not name.startswith("."):
                yield (Path(parent) / name).relative_to(folder)
