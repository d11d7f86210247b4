"""An author's tools: scaffold, lint, and the test whether a skill will be found."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holon.core.errors import Conflict, InvalidInput
from holon.skills.catalog import Catalog, CatalogReader, Places
from holon.skills.coverage import cover, example_prompts
from holon.skills.installing import install
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


@pytest.mark.spec("RF-006")
def test_lint_warns_of_instructions_that_are_longer_than_a_paragraph_or_two(tmp_path: Path) -> None:
    short = put_skill(tmp_path, "short", "Fill PDF forms and check them. Use when a form is to be filled. " * 5)
    long = put_skill(tmp_path, "long", "Fill PDF forms and check them. Use when a form is to be filled. " * 15)

    assert lint_skill(short) == []
    (finding,) = lint_skill(long)
    assert not finding.fails
    assert "tokens, which every prompt pays for: a paragraph or two" in finding.message


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (f"compatibility: {'x' * 501}\n", "compatibility has 501 characters; it is cut at 500"),
        (f"when_to_use: {'x' * 1_025}\n", "when_to_use has 1025 characters; it is cut at 1024"),
    ],
)
def test_a_field_that_is_too_long_is_cut_on_reading_and_an_error_for_its_author(
    tmp_path: Path, extra: str, message: str
) -> None:
    folder = put_skill(tmp_path / "skills", "wordy", extra=extra)

    assert catalog(tmp_path).find("wordy").warnings == (message,)
    assert [(finding.message, finding.fails) for finding in lint_skill(folder)] == [(message, True)]


def test_a_description_that_is_too_long_fails_the_lint(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, "wordy", "word " * 300)
    assert "description has 1499 characters; it is cut at 1024" in [f.message for f in lint_skill(folder) if f.fails]


def test_a_description_with_control_characters_fails_the_lint(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, "red", r'"Paints \e[31mred."')
    assert [str(f) for f in lint_skill(folder)] == ["SKILL.md: description has control characters: leave them out"]


def test_a_pipe_in_a_skill_holds_nobody_up(tmp_path: Path) -> None:
    folder = put_skill(tmp_path / "skills", "piped")
    for name in ("scripts/run.py", "references/a.md", "evals/prompts.txt"):
        (folder / name).parent.mkdir()
        os.mkfifo(folder / name)
    findings = [str(finding) for finding in lint_skill(folder) if finding.fails]
    assert "scripts/run.py: cannot be read as text (OSError)" in findings
    assert example_prompts(folder) == []

    (folder / "SKILL.md").unlink()
    os.mkfifo(folder / "SKILL.md")
    assert [str(finding) for finding in lint_skill(folder)] == ["SKILL.md: cannot be read (it is not a file)"]
    assert catalog(tmp_path).problems == (f"{folder}/SKILL.md is not a file",)
    with pytest.raises(InvalidInput, match="it is not a file"):
        install(str(folder), tmp_path / "other", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_body_of_ten_megabytes_is_named_and_not_counted(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, "huge", body="word " * 2_000_000)
    assert [str(f) for f in lint_skill(folder)] == [
        "SKILL.md: has more than 4194304 bytes: move details into references/"
    ]


@pytest.mark.parametrize("prompts", [[], [""], ["  ", "\n"]])
def test_blank_prompts_are_no_prompts(tmp_path: Path, prompts: list[str]) -> None:
    put_skill(tmp_path / "skills", "deploy")
    with pytest.raises(InvalidInput, match="has no example prompts"):
        cover(catalog(tmp_path).find("deploy"), catalog(tmp_path), prompts)


def test_prompts_that_cannot_be_parsed_are_named_in_one_line(tmp_path: Path) -> None:
    folder = put_skill(tmp_path, "deploy", references={"evals/x.yaml": "a: [b\n"})
    with pytest.raises(InvalidInput) as raised:
        example_prompts(folder)
    assert "x.yaml cannot be read: while parsing" in raised.value.message
    assert "\n" not in raised.value.message
