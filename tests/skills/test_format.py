"""SKILL.md: read with warnings whatever it is, written only as the format allows."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.errors import InvalidInput
from holon.skills.format import FrontMatter, check_body, check_fields, read_skill, write_skill

FOREIGN = """---
name: pdf-processing
description: >-
  Extract PDF text,
  fill forms.
license: MIT
compatibility: needs python 3
allowed-tools: Bash(git add *) Read
when_to_use: when there is a PDF
disable-model-invocation: yes
user-invocable: no
paths: "src/**/*.py, docs/*"
context: fork
metadata: {version: 1.0, public: no}
hooks: {PreToolUse: []}
---
Body.
"""


def test_a_skill_of_another_product_is_understood() -> None:
    read = read_skill(FOREIGN, "pdf-processing")

    assert read.front == FrontMatter(
        name="pdf-processing",
        description="Extract PDF text, fill forms.",
        license="MIT",
        compatibility="needs python 3",
        allowed_tools=("Bash(git add *)", "Read"),
        when_to_use="when there is a PDF",
        disable_model_invocation=True,
        user_invocable=False,
        paths=("src/**/*.py", "docs/*"),
        context="fork",
        metadata=(("version", "1.0"), ("public", "no")),
    )
    assert (read.body, read.warnings) == ("Body.", ())


BOMB = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nname: bomb\ndescription: grows"
BROKEN = {
    "no front matter": ("# Title\n\nJust text.", "no front matter"),
    "open fence": ("---\nname: x\nno end", "'---' is missing"),
    "a colon in a value": ("---\nname: x\ndescription: use it: now\n---\nb", "not valid YAML"),
    "a list": ("---\n- a\n- b\n---\nb", "not a list of fields"),
    "nothing": ("---\n---\nb", "name is missing"),
    "a python object": ("---\nname: x\ndescription: !!python/object/apply:os.system ['id']\n---\nb", "description"),
    "aliases that grow": (f"---\n{BOMB}\n---\nb", "aliases"),
    "a nested name": ("---\nname: {a: b}\ndescription: d\n---\nb", "name is not a text"),
    "a hostile name": ("---\nname: ../../etc\ndescription: d\n---\nb", "not of the format"),
    "another name": ("---\nname: other\ndescription: d\n---\nb", "not the folder's name"),
    "unknown fields": ("---\nname: x\ndescription: d\nsurprise: 1\n---\nb", "unknown fields: surprise"),
    "a long description": (f"---\nname: x\ndescription: {'d' * 2_000}\n---\nb", "cut at 1024"),
    "a huge front matter": (f"---\nname: x\n{'k: v' * 40_000}\n---\nb", "longer than"),
    "nesting": ("---\nname: x\ndescription: d\nk: " + "[" * 5_000 + "\n---\nb", "front matter"),
}


@pytest.mark.parametrize(("text", "warning"), BROKEN.values(), ids=BROKEN)
def test_broken_front_matter_is_read_as_far_as_it_goes_and_warned_about(text: str, warning: str) -> None:
    read = read_skill(text, "x")

    assert warning in " | ".join(read.warnings)
    assert len(read.front.description) <= 1_024


def test_lines_of_broken_yaml_still_count() -> None:
    assert read_skill(BROKEN["a colon in a value"][0], "x").front.description == "use it: now"


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_skill(text, "folder")
    read_skill(f"---\n{text}\n---\nbody", "folder")


@pytest.mark.parametrize("name", ["", "A", "a--b", "-a", "a-", "a_b", "a" * 65, "ä", "a/b", "a b"])
def test_a_name_that_breaks_the_format_is_not_written(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        write_skill(FrontMatter(name=name, description="d"), "body")


@pytest.mark.parametrize(
    ("front", "body", "message"),
    [
        (FrontMatter(name="a"), "b", "description is empty"),
        (FrontMatter(name="a", description="d" * 1_025), "b", "1025 characters"),
        (FrontMatter(name="a", description="d", compatibility="c" * 501), "b", "501 characters"),
        (FrontMatter(name="a", description="d"), "", "body is empty"),
        (FrontMatter(name="a", description="d"), "x\n" * 501, "501 lines|502 lines"),
        (FrontMatter(name="a", description="d"), "word " * 6_000, "tokens"),
    ],
)
def test_what_breaks_a_limit_is_not_written(front: FrontMatter, body: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write_skill(front, body)


def test_what_is_written_is_read_back() -> None:
    front = FrontMatter(
        name="a-b", description="no: yes", license="MIT", allowed_tools=("Read",), metadata=(("k", "1"),), references=()
    )
    text = write_skill(front, "Body.")

    assert read_skill(text, "a-b").front == front
    assert yaml.safe_load(text.split("---")[1])["description"] == "no: yes"
    assert check_fields(front, "a-b") == [] and check_body("Body.") == []
