"""Random trees and edits of them, and git as the judge of what a diff means."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hypothesis import strategies as st

from tests.workspaces.trees import Tree, plant

#: Lines that look like parts of patches, lines that are alike, and characters that some call line ends.
WORDS = [
    "",
    "a",
    "b",
    "    return x",
    "}",
    " leading",
    "trailing ",
    "\ttab",
    "- dash",
    "-- sql comment",
    "--- a/file",
    "+++ b/file",
    "++",
    "@@ -1,2 +1,2 @@",
    "@@",
    "\\ No newline at end of file",
    "*** End Patch",
    "*** End of File",
    "diff --git a/x b/x",
    "```",
    "naïve “quotes” — 漢字",
    "form\x0cfeed",
    "para\u2028graph",
    "next\x85line",
]
NAMES = ["f.txt", "f 2.txt", "f-ä.py", 'f"q".txt', "f\ttab", "f'", "fb", "f\\back", "F.txt"]
FOLDERS = ["", "d/", "d/dd/", "a/", "b/"]

names = st.builds(str.__add__, st.sampled_from(FOLDERS), st.sampled_from(NAMES))
plain_names = names.filter(lambda name: "\t" not in name)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    ends = draw(st.sampled_from([["\n"], ["\n"], ["\r\n"], ["\n", "\r\n"]]))
    lines = draw(st.lists(st.sampled_from(WORDS), max_size=25))
    text = "".join(line + draw(st.sampled_from(ends)) for line in lines)
    if lines and draw(st.integers(0, 3)) == 0:
        text = text.removesuffix("\n")
    return text.encode()


@st.composite
def edited(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few lines changed, added, removed or repeated."""
    lines = content.decode().split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        word = draw(st.sampled_from(WORDS)) + ("\r" if b"\r\n" in content else "")
        match draw(st.sampled_from(["insert", "remove", "replace", "repeat"])):
            case "insert":
                lines.insert(at, word)
            case "remove":
                del lines[at : at + draw(st.integers(1, 4))]
            case "replace":
                lines[at : at + 1] = [word]
            case _:
                lines[at:at] = lines[:at][-3:]
    return "\n".join(lines).encode()


@st.composite
def changes(draw: st.DrawFn, names: st.SearchStrategy[str] = names) -> tuple[Tree, Tree]:
    """A tree, and the same tree after files were added, changed, removed and moved."""
    old: Tree = draw(st.dictionaries(names, contents(), min_size=1, max_size=5))
    new: Tree = {}
    for name, content in old.items():
        match draw(st.sampled_from(["keep", "edit", "edit", "edit", "remove", "move", "move and edit"])):
            case "keep":
                new[name] = content
            case "edit":
                new[name] = draw(edited(content))
            case "move":
                new[draw(names)] = content
            case "move and edit":
                new[draw(names)] = draw(edited(content))
    new |= draw(st.dictionaries(names, contents(), max_size=2))
    return old, new


class Git:
    """A repository that turns two trees into a diff, and applies a diff to a tree as git would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": str(folder / "repository"),
            "GIT_WORK_TREE": str(self.work),
        }
        self._git("init", "-q")

    def diff(self, old: Tree, new: Tree, *options: str) -> str:
        before, after = self._tree(old), self._tree(new)
        return self._git("diff-tree", "-r", "-p", *options, before, after).decode()

    def apply(self, diff: str, folder: Path) -> bool:
        environment = {key: value for key, value in self.environment.items() if not key.startswith("GIT_")}
        ran = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            cwd=folder,
            input=diff.encode(),
            env=environment | {"GIT_CEILING_DIRECTORIES": str(folder.parent)},
            capture_output=True,
        )
        return ran.returncode == 0

    def _tree(self, tree: Tree) -> str:
        plant(self.work, tree)
        self._git("add", "-A")
        return self._git("write-tree").decode().strip()

    def _git(self, *arguments: str) -> bytes:
        settings = ["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]
        return subprocess.run(
            ["git", *settings, *arguments], cwd=self.folder, env=self.environment, capture_output=True, check=True
        ).stdout
