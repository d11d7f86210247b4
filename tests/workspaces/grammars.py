"""A recogniser for the part of Lark that our grammars use, so that they are tested and not only shown to providers.

Rules become one set of possible ends after another: slow, but without any choice that could be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

Ends = frozenset[int]
#: A kind, and what that kind needs.
Tree = tuple[str, Any]

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(/(?:[^/\\]|\\.)+/)|([A-Za-z_]+)|([|()?*+]))')
_COMMON = {"LF": r"\n", "INT": r"[0-9]+"}


class Grammar:
    def __init__(self, text: str) -> None:
        self.rules: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("%import common."):
                name = line.removeprefix("%import common.").strip()
                self.rules[name] = f"/{_COMMON[name]}/"
            elif line.strip():
                name, _, body = line.partition(":")
                assert name.strip().isidentifier(), line
                self.rules[name.strip()] = body.strip()
        self.trees = {name: _Reader(body).alternatives() for name, body in self.rules.items()}
        used = {leaf for tree in self.trees.values() for leaf in _names(tree)}
        assert used == self.rules.keys() - {"start"}, "a rule is missing, or is used nowhere"

    def accepts(self, text: str) -> bool:
        @cache
        def ends(name: str, at: int) -> Ends:
            return self._ends(self.trees[name], text, at, ends)

        return len(text) in ends("start", 0)

    def _ends(self, tree: Tree, text: str, at: int, rule: Callable[[str, int], Ends]) -> Ends:
        kind, value = tree
        match kind:
            case "literal":
                return frozenset({at + len(value)} if text.startswith(value, at) else ())
            case "pattern":
                # What one of our terminals takes never depends on what follows: it stops at a line's end.
                found = re.compile(value).match(text, at)
                return frozenset({found.end()} if found else ())
            case "rule":
                return rule(value, at)
            case "either":
                return _joined(self._ends(part, text, at, rule) for part in value)
            case "all":
                here: Ends = frozenset({at})
                for part in value:
                    here = _joined(self._ends(part, text, start, rule) for start in here)
                return here
            case _:
                return self._repeated(value[0], value[1], text, at, rule)

    def _repeated(self, part: Tree, sign: str, text: str, at: int, rule: Callable[[str, int], Ends]) -> Ends:
        reached: set[int] = set() if sign == "+" else {at}
        edge: Ends = frozenset({at})
        while edge:
            edge = _joined(self._ends(part, text, start, rule) for start in edge) - reached
            reached |= edge
            if sign == "?":
                break
        return frozenset(reached)


def _joined(ends: Iterable[Ends]) -> Ends:
    return frozenset(end for some in ends for end in some)


def _names(tree: Tree) -> set[str]:
    kind, value = tree
    if kind == "rule":
        return {value}
    if kind in ("either", "all"):
        return {name for part in value for name in _names(part)}
    return _names(value[0]) if kind == "repeated" else set()


class _Reader:
    def __init__(self, body: str) -> None:
        self.tokens = [match for match in _TOKEN.finditer(body) if match.group().strip()]
        self.at = 0

    def alternatives(self) -> Tree:
        choices = [self._sequence()]
        while self._sign() == "|":
            self.at += 1
            choices.append(self._sequence())
        return ("either", choices)

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.tokens) and self._sign() not in ("|", ")"):
            part = self._part()
            if self._sign() in ("?", "*", "+"):
                part = ("repeated", (part, self._sign()))
                self.at += 1
            parts.append(part)
        return ("all", parts)

    def _part(self) -> Tree:
        literal, pattern, name, sign = self.tokens[self.at].groups()
        self.at += 1
        if literal:
            return ("literal", literal[1:-1].replace("\\\\", "\\").replace('\\"', '"'))
        if pattern:
            return ("pattern", pattern[1:-1])
        if name:
            return ("rule", name)
        assert sign == "(", sign
        inner = self.alternatives()
        self.at += 1
        return inner

    def _sign(self) -> str | None:
        return self.tokens[self.at].group(4) if self.at < len(self.tokens) else None
