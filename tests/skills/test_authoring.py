"""An author's tools: scaffold, lint, and the test whether a skill will be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from holon.core.errors import Conflict, InvalidInput
from holon.skills.catalog import Catalog, CatalogReader, Places
from holon.skills.coverage import cover, example_prompts
from holon.skills.linting import lint_skill
from holon.skills.scaffold import scaffold
from holon.skills.variation import variants
from tests.skills.shelves import put_skill


def catalog(home: Path) -> Catalog:
    return CatalogReader().read(Places(home))


@pytest.mark.spec("RF-007", "RF-018")
def test_a_new_skill_passes_its_own_lint_and_is_found(tmp_path: Path) -> None:
    folder = scaffold("release-notes", "Write the notes of a release.", tmp_path / "skills")

    assert lint_skill(folder) == []
    assert "load_skill_instructions" in (folder / "SKILL.md").read_text()
    result = cover(catalog(tmp_path).find("release-notes"), catalog(tmp_path), example_prompts(folder))
    assert result.first == 1.0
    with pytest.raises(Conflict):
        scaffold("release-notes", "again", tmp_path / "skills")
    with pytest.raises(InvalidInput):
        scaffold("Release Notes", "no name", tmp_path / "skills")


FAULTS = {
    "a listed reference is gone": ({}, "references: [references/a.md]\n", "body", "is listed as a reference, but"),
    "an unlisted reference": (
        {"references/a.md": "a", "references/b.md": "b"},
        "references: [references/a.md]\n",
        "a.md",
        "references/b.md: is under references/, but not in the list",
    ),
    "an unclosed fence": ({"references/a.md": "```\ncode"}, "", "a.md", "references/a.md: a code block"),
    "an unclosed comment": ({}, "", "text <!-- and no end", "is never closed"),
    "a broken link": ({}, "", "see [this](references/none.md)", "links to references/none.md"),
    "a link out": ({}, "", "see [this](../../secret.md)", "links to ../../secret.md"),
    "python that does not parse": ({"references/a.py": "def (:"}, "", "a.py", "references/a.py: is not valid Python"),
    "a script that does not parse": ({"scripts/s.py": "x ="}, "", "body", "scripts/s.py: is not valid Python"),
    "a skill inside": ({"inner/SKILL.md": "---\nname: inner\ndescription: d\n---\nb"}, "", "body", "inside a skill"),
    "too many lines": ({}, "", "x\n" * 600, "lines: the limit is 500"),
    "a listed path that leaves": ({}, "references: [../x.md]\n", "body", "no plain path inside"),
}


@pytest.mark.spec("RF-018", "RF-019", "RF-020", "RF-021")
@pytest.mark.parametrize(("files", "extra", "body", "message"), FAULTS.values(), ids=FAULTS)
def test_lint_names_a_fault_and_its_file(
    tmp_path: Path, files: dict[str, str], extra: str, body: str, message: str
) -> None:
    folder = put_skill(tmp_path, "x", body=body, references=files, extra=extra)

    failing = [str(finding) for finding in lint_skill(folder) if finding.fails]

    assert any(message in finding for finding in failing), failing


def test_lint_is_content_with_a_sound_skill_and_runs_nothing(tmp_path: Path) -> None:
    folder = put_skill(
        tmp_path,
        "x",
        body="See [a](references/a.md), [web](https://example.org), `[no](link)` and\n```\n[code](nowhere)\n```",
        references={"references/a.md": "# A\n[back](../SKILL.md)", "scripts/s.py": "raise SystemExit('ran')"},
    )

    assert lint_skill(folder) == []


def test_coverage_names_the_rival_and_the_missing_words(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    put_skill(root, "parcels", "Moves parcels.", "Do it.")
    put_skill(root, "deploy-app", "Deploy an application to the cluster.", "Do it.")
    for number in range(20):
        put_skill(root, f"other-{number}", f"Handles topic number {number}.")
    found = catalog(tmp_path)

    bad = cover(found.find("parcels"), found, ["deploy the application to the staging cluster"])
    good = cover(found.find("deploy-app"), found, ["deploy the application to the staging cluster"])

    assert (bad.catalog_size, good.passes(0.8), bad.passes(0.8)) == (22, True, False)
    assert next(iter(bad.rivals)) == "deploy-app"
    assert {"deploy", "application", "cluster"} <= set(bad.missing_words)
    assert good.first > 0.8 and good.probes[0].rank == 1
    with pytest.raises(InvalidInput, match="no example prompts"):
        cover(found.find("parcels"), found, [])


def test_prompts_are_read_from_the_evals_of_a_skill_in_several_formats(tmp_path: Path) -> None:
    folder = put_skill(
        tmp_path,
        "x",
        references={
            "evals/a.txt": "# comment\none\n\n",
            "evals/b.md": "# Title\n- two\n",
            "evals/c.json": '[{"query": "three", "expected": "no"}, "four"]',
            "evals/d.yaml": "prompts: [five]\n",
            "evals/e.bin": "no",
        },
    )

    assert example_prompts(folder) == ["one", "two", "three", "four", "five"]


def test_variants_are_many_different_and_always_the_same() -> None:
    made = variants("please deploy the application for my team")

    assert made == variants("please deploy the application for my team")
    assert len(made) == len(set(made)) >= 8
    assert any("release" in text or "rollout" in text or "deployment" in text for text in made)
    assert variants("") is not None
