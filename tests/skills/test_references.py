"""References: only what the author listed, only inside the skill, whatever is tried."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from holon.core.skills import (
    ReferenceNotAllowedError,
    ReferenceNotFoundError,
    ReferenceUnreadableError,
)
from holon.skills.catalog import CatalogReader, Places
from holon.skills.descriptors import SkillDescriptor
from holon.skills.references import (
    MAX_BYTES,
    PAGE_CHARS,
    Reference,
    ReferenceCache,
    find_reference,
    read_reference,
)
from tests.skills.shelves import put_skill

SECRET = "the secret that no model may read"


@pytest.fixture
def skill(tmp_path: Path) -> SkillDescriptor:
    (tmp_path / "secret.txt").write_text(SECRET)
    put_skill(tmp_path / "skills", "other", references={"references/other.md": SECRET})
    put_skill(
        tmp_path / "skills",
        "rag",
        references={
            "references/azure.md": "# Azure\n",
            "references/Größe.md": "size\n",
            "scripts/run.py": "print('hi')\n",
            "config/sample.toml": "a = 1\n",
            "notes/unlisted.md": SECRET,
        },
        extra="references: [references/azure.md, references/Größe.md, scripts/run.py, config/sample.toml,"
        " ../../secret.txt, /etc/hostname]\n",
    )
    (tmp_path / "skills/rag/references/link.md").symlink_to(tmp_path / "secret.txt")
    return CatalogReader().read(Places(tmp_path)).find("rag")


def load(skill: SkillDescriptor, reference: str) -> str:
    return read_reference(skill, find_reference(skill, reference)).text


PLAIN = [
    "../secret.txt",
    "../../secret.txt",
    "references/../../secret.txt",
    "references/../../../secret.txt",
    "./references/azure.md",
    "references//azure.md",
    "references/./azure.md",
    "references/azure.md/",
    "/references/azure.md",
    "references/azure.md/.",
    "references/azure.md/..",
    "references/../references/azure.md",
    "../rag/references/azure.md",
    "../other/references/other.md",
    "other/references/other.md",
    "other.md",
    "references/other.md",
    "/etc/passwd",
    "/etc/hostname",
    "//etc/passwd",
    "/proc/self/environ",
    "~/.ssh/id_rsa",
    "~",
    "$HOME/.bashrc",
    "${HOME}",
    "file:///etc/passwd",
    "http://127.0.0.1/x",
    "https://example.org/azure.md",
    "ftp://x/y",
    "\\\\host\\share\\x",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "references\\azure.md",
    "..\\..\\secret.txt",
    "..%2f..%2fsecret.txt",
    "%2e%2e/%2e%2e/secret.txt",
    "..%252fsecret.txt",
    "references/azure.md%00",
    "references/azure.md\0",
    "\0",
    "\0/etc/passwd",
    "references/azure.md\n",
    "\nreferences/azure.md",
    " references/azure.md",
    "references/azure.md ",
    "azure.md ",
    "REFERENCES/AZURE.MD",
    "references/Azure.md",
    "AZURE.md",
    "references/azure",
    "references/azure.md.bak",
    "azure",
    "references/*",
    "references/*.md",
    "references/[a]zure.md",
    "references/azure.{md,txt}",
    "references/?zure.md",
    "notes/unlisted.md",
    "unlisted.md",
    "SKILL.md",
    "./SKILL.md",
    "references",
    "references/",
    "",
    ".",
    "..",
    "/",
    "-",
    "--help",
    "..;/secret.txt",
    "....//....//secret.txt",
    "..．/secret.txt",
    "․․/secret.txt",
    "‥/secret.txt",
    "references／azure.md",
    "references/azure\u200b.md",
    "\ufeffreferences/azure.md",
    "references/azure.md\u202e",
    "ｒeferences/azure.md",
    "references/link.md",
    "link.md",
    "../../skills/rag/references/azure.md",
    "a" * 10_000,
    "../" * 500 + "etc/passwd",
    "references/azure.md; cat ../../secret.txt",
    "references/azure.md | cat",
    "$(cat ../../secret.txt)",
    "`id`",
    unicodedata.normalize("NFD", "references/Größe.md"),
    "references/Grosse.md",
    "../../secret.txt#references/azure.md",
]


@pytest.mark.spec("RF-012", "RF-022")
@pytest.mark.parametrize("attempt", PLAIN, ids=range(len(PLAIN)))
def test_nothing_but_a_listed_reference_is_ever_read(
    skill: SkillDescriptor, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    really = os.open

    def counted(*given: Any, **more: Any) -> int:
        opened.append(given)
        return really(*given, **more)

    monkeypatch.setattr(os, "open", counted)

    with pytest.raises(ReferenceNotAllowedError) as refused:
        load(skill, attempt)

    assert opened == []
    assert SECRET not in str(refused.value)
    assert refused.value.details["references"] == list(skill.references)


def test_there_are_at_least_sixty_attempts() -> None:
    assert len(set(PLAIN)) >= 60


@pytest.mark.spec("RF-012", "RF-022")
@pytest.mark.parametrize("how", ["file", "folder", "parent", "absolute", "chain"])
def test_a_listed_path_that_links_out_of_the_skill_is_refused(tmp_path: Path, how: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.md").write_text(SECRET)
    folder = put_skill(tmp_path / "skills", "x", extra="references: [references/a.md]\n")
    references = folder / "references"
    if how == "folder":
        references.symlink_to(tmp_path / "out")
    elif how == "parent":
        references.symlink_to("../../out")
    else:
        references.mkdir()
        if how == "chain":
            (folder / "b").symlink_to(tmp_path / "out/a.md")
        targets = {"file": "../../../out/a.md", "absolute": str(tmp_path / "out/a.md"), "chain": "../b"}
        (references / "a.md").symlink_to(targets[how])
    skill = CatalogReader().read(Places(tmp_path)).find("x")

    with pytest.raises(ReferenceNotAllowedError, match="leaves the skill"):
        load(skill, "references/a.md")


@pytest.mark.spec("RF-004", "RF-012")
def test_what_an_author_lists_outside_the_skill_is_left_out_with_a_warning(skill: SkillDescriptor) -> None:
    assert skill.references == ("references/azure.md", "references/Größe.md", "scripts/run.py", "config/sample.toml")
    assert len([warning for warning in skill.warnings if "left out" in warning]) == 2


@pytest.mark.spec("RF-010", "RF-013")
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("references/azure.md", "# Azure\n"),
        ("azure.md", "# Azure\n"),
        ("scripts/run.py", "print('hi')\n"),
        ("sample.toml", "a = 1\n"),
        ("Größe.md", "size\n"),
    ],
)
def test_a_listed_reference_of_any_format_is_returned_unchanged(skill: SkillDescriptor, asked: str, text: str) -> None:
    assert load(skill, asked) == text


@pytest.mark.spec("RF-001", "RF-004")
def test_without_a_list_the_files_under_references_are_the_list(tmp_path: Path) -> None:
    put_skill(
        tmp_path / "skills",
        "x",
        references={"references/b.md": "b", "references/a.py": "a", "references/deep/c.md": "c", "scripts/s.py": "s"},
    )

    assert CatalogReader().read(Places(tmp_path)).find("x").references == ("references/a.py", "references/b.md")


def test_a_file_name_that_two_references_share_must_be_given_with_its_path(tmp_path: Path) -> None:
    put_skill(
        tmp_path / "skills",
        "x",
        references={"references/a.md": "1", "docs/a.md": "2"},
        extra="references: [references/a.md, docs/a.md]\n",
    )
    skill = CatalogReader().read(Places(tmp_path)).find("x")

    with pytest.raises(ReferenceNotAllowedError, match="file name of several"):
        load(skill, "a.md")
    assert load(skill, "docs/a.md") == "2"


@pytest.mark.spec("RF-014")
def test_a_listed_file_that_is_gone_is_said_so_with_the_list(skill: SkillDescriptor) -> None:
    (skill.folder / "references/azure.md").rename(skill.folder / "references/renamed.md")

    with pytest.raises(ReferenceNotFoundError) as missing:
        load(skill, "azure.md")

    assert missing.value.details["references"] == list(skill.references)


@pytest.mark.parametrize("what", ["binary", "latin", "pipe", "folder", "huge", "loop"])
def test_what_is_no_text_is_refused_in_words(tmp_path: Path, what: str) -> None:
    folder = put_skill(tmp_path / "skills", "x", extra="references: [references/a]\n")
    path = folder / "references" / "a"
    path.parent.mkdir()
    match what:
        case "binary":
            path.write_bytes(b"\x89PNG\0\0")
        case "latin":
            path.write_bytes("Größe".encode("latin-1"))
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "huge":
            with open(path, "wb") as file:
                file.truncate(MAX_BYTES + 1)
        case "loop":
            path.symlink_to(path)
    skill = CatalogReader().read(Places(tmp_path)).find("x")

    with pytest.raises((ReferenceUnreadableError, ReferenceNotFoundError)):
        load(skill, "references/a")


@pytest.mark.spec("RF-015", "RF-016")
def test_a_second_load_in_a_turn_reads_nothing_and_the_next_turn_sees_a_change(skill: SkillDescriptor) -> None:
    reads: list[str] = []

    def read(of: SkillDescriptor, listed: str) -> Reference:
        reads.append(listed)
        return read_reference(of, listed)

    cache = ReferenceCache()
    first, _ = cache.get("turn_1", skill, "references/azure.md", read)
    (skill.folder / "references/azure.md").write_text("changed")
    again, _ = cache.get("turn_1", skill, "references/azure.md", read)
    later, _ = cache.get("turn_2", skill, "references/azure.md", read)

    assert (first.text, again.text, later.text) == ("# Azure\n", "# Azure\n", "changed")
    assert len(reads) == 2


@pytest.mark.spec("RF-017")
def test_a_load_needs_no_network(skill: SkillDescriptor, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*_: object, **__: object) -> None:
        raise OSError("the network is cut")

    monkeypatch.setattr(socket, "socket", cut)
    monkeypatch.setattr(socket, "create_connection", cut)

    assert load(skill, "azure.md") == "# Azure\n"


def test_a_long_reference_has_pages_that_add_up() -> None:
    reference = Reference("a.md", "x" * (2 * PAGE_CHARS + 1), "v")

    assert reference.pages == 3
    assert "".join(reference.page(number) for number in (1, 2, 3)) == reference.text
