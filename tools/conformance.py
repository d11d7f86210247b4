"""Which requirements the tests show.

    python tools/conformance.py [--json] [PREFIX ...]

Reads the requirements in docs/requirements/*.md and the ids that tests carry in `@pytest.mark.spec("RT-001")` or
`pytestmark = pytest.mark.spec("RT-001")`, and prints a table by group. With PREFIX (RT-0, LI, CA-02) it also prints
each requirement with that prefix that no test shows. An id that no requirement has, or that is not a plain string, is
an error. The files are parsed, not run: a mark in a comment or a docstring is none.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENT = re.compile(r"- ([A-Z]{2}-\d{3}) · (.*)")


@dataclass(frozen=True)
class Requirement:
    id: str
    group: str
    text: str


@dataclass
class Report:
    asked: dict[str, Requirement]
    shown: dict[str, list[str]] = field(default_factory=dict)  # id -> places of the marks, "tests/x.py:12"
    errors: list[str] = field(default_factory=list)

    def missing(self, prefixes: tuple[str, ...]) -> list[Requirement]:
        return [r for r in self.asked.values() if r.id.startswith(prefixes) and r.id not in self.shown]

    def groups(self) -> list[tuple[str, int, int]]:
        """Each group with the number of its requirements that are shown, and of all."""
        members: dict[str, list[str]] = {}
        for requirement in self.asked.values():
            members.setdefault(requirement.group, []).append(requirement.id)
        return [(group, sum(i in self.shown for i in ids), len(ids)) for group, ids in members.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", nargs="*", help="also list what is missing under this prefix")
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    parser.add_argument("--requirements", type=Path, default=ROOT / "docs" / "requirements")
    args = parser.parse_args()

    report = build_report(args.requirements, args.tests)
    prefixes = tuple(args.prefix)
    print(as_json(report, prefixes or ("",)) if args.json else as_table(report, prefixes))
    for error in report.errors:
        print(f"error: {error}", file=sys.stderr)
    return 1 if report.errors else 0


def build_report(requirements: Path, tests: Path) -> Report:
    report = Report(read_requirements(requirements))
    for file in sorted(tests.rglob("*.py")):
        name = file.relative_to(tests.parent).as_posix()
        for mark in spec_marks(ast.parse(file.read_bytes(), filename=str(file))):
            place = f"{name}:{mark.lineno}"
            for argument in mark.args:
                match argument:
                    case ast.Constant(value=str(rid)) if rid in report.asked:
                        report.shown.setdefault(rid, []).append(place)
                    case ast.Constant(value=str(rid)):
                        report.errors.append(f"{place}: no requirement has the id {rid!r}")
                    case _:
                        report.errors.append(f"{place}: write the id as a plain string, not {ast.unparse(argument)}")
    return report


def read_requirements(folder: Path) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for file in sorted(folder.glob("*.md")):
        group = file.stem
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("## "):
                group = f"{file.stem}: {line[3:].strip()}"
            elif match := REQUIREMENT.fullmatch(line):
                found[match[1]] = Requirement(match[1], group, match[2])
    return found


def spec_marks(tree: ast.Module) -> Iterator[ast.Call]:
    """The `pytest.mark.spec(...)` calls that pytest would see: on tests, on classes, and in `pytestmark`."""
    for expression in mark_places(tree):
        match expression:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr="spec")
            ):
                yield expression


def mark_places(scope: ast.Module | ast.ClassDef) -> Iterator[ast.expr]:
    """Every expression in a module or class that pytest reads as a mark."""
    for node in scope.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                yield from node.decorator_list
            case ast.ClassDef():
                yield from node.decorator_list
                yield from mark_places(node)
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=ast.List(elts=marks) | ast.Tuple(elts=marks)):
                yield from marks
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=mark):
                yield mark


def as_table(report: Report, prefixes: tuple[str, ...]) -> str:
    rows = [*report.groups(), ("shown by a test", len(report.shown), len(report.asked))]
    lines = [f"{shown:4d} / {total:3d}  {group}" for group, shown, total in rows]
    if prefixes:
        lines += [f"- {r.id} · {r.text}" for r in report.missing(prefixes)]
    return "\n".join(lines)


def as_json(report: Report, prefixes: tuple[str, ...]) -> str:
    document = {
        "shown": len(report.shown),
        "total": len(report.asked),
        "groups": [{"group": group, "shown": shown, "total": total} for group, shown, total in report.groups()],
        "places": dict(sorted(report.shown.items())),
        "missing": {r.id: r.text for r in report.missing(prefixes)},
        "errors": report.errors,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
