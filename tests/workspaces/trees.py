"""Folders as values: a tree is what its files contain, by relative path."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from holon.workspaces import patches
from holon.workspaces.roots import ExecutionRoot

Tree = dict[str, bytes]


def plant(folder: Path, tree: Tree) -> ExecutionRoot:
    """A fresh folder with these files."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return ExecutionRoot(folder)


def grown(folder: Path) -> Tree:
    """All files under the folder, links not followed; a link is shown by where it leads, a pipe by its name."""
    tree: Tree = {}
    for base, folders, files in os.walk(folder):
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(base, name)))]:
            path = Path(base, name)
            key = str(path.relative_to(folder))
            if path.is_symlink():
                tree[key] = b"-> " + os.fsencode(os.readlink(path))
            else:
                tree[key] = path.read_bytes() if path.is_file() else b"special"
    return tree


def patched(text: str, root: ExecutionRoot, journal: Path) -> patches.PatchResult:
    return patches.apply(patches.check(patches.parse(text), root), journal)
