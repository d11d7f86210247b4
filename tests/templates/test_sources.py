"""A template reference has three forms. Everything else is refused, with the forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from holon.core.errors import HolonError
from holon.core.templates import SourceKind
from holon.skills.repositories import GitFailed
from holon.templates.places import BUILTIN
from holon.templates.sources import InvalidTemplate, Source, UnknownTemplate, resolve
from tests.templates.making import GitHub, git, put_template


@pytest.mark.spec("RT-468")
def test_an_id_is_a_folder_of_the_user(tmp_path: Path, user_home: Path) -> None:
    folder = put_template(user_home / ".agents/templates/tester")

    found = resolve("tester", user_home, tmp_path / "scratch")

    assert found == Source("tester", SourceKind.USER, folder)


def test_the_users_own_folder_comes_before_what_comes_with_holon(tmp_path: Path, user_home: Path) -> None:
    folder = put_template(user_home / ".agents/templates/holon-default")

    assert resolve("holon-default", user_home, tmp_path / "s").folder == folder
    shipped = Source("holon-default", SourceKind.BUILTIN, BUILTIN / "holon-default")
    assert resolve("holon-default", None, tmp_path / "s") == shipped, "there is one without a user, too"


@pytest.mark.spec("RT-468")
def test_an_absolute_folder_is_itself(tmp_path: Path) -> None:
    folder = put_template(tmp_path / "some where/tester")

    found = resolve(str(folder), None, tmp_path / "scratch")

    assert found == Source(str(folder), SourceKind.DIRECTORY, folder)


@pytest.mark.spec("RT-468")
def test_a_github_url_is_a_folder_at_the_commit_that_its_ref_is_now(tmp_path: Path, github: GitHub) -> None:
    repository = github.repository("acme/agents")
    put_template(repository / "team/tester", "first\n")
    first = github.commit(repository)
    git(repository, "tag", "v1")
    git(repository, "branch", "team/next")
    (repository / "team/tester/AGENTS.md").write_text("second\n")
    second = github.commit(repository)
    url = "https://github.com/acme/agents/tree/{}/team/tester"

    tagged = resolve(url.format("v1"), None, tmp_path / "a")
    newest = resolve(url.format("main") + "/", None, tmp_path / "b")
    branch = resolve(url.format("team%2Fnext"), None, tmp_path / "c")
    exact = resolve(url.format(first), None, tmp_path / "d")

    assert (tagged.kind, tagged.ref, tagged.commit) == (SourceKind.GITHUB, "v1", first)
    assert (newest.ref, newest.commit) == ("main", second)
    assert (branch.ref, branch.commit, exact.commit) == ("team/next", first, first)
    assert (tagged.folder / "AGENTS.md").read_text() == "first\n"
    assert (newest.folder / "AGENTS.md").read_text() == "second\n"


@pytest.mark.spec("RT-468")
@pytest.mark.parametrize(
    "reference",
    [
        "",
        "..",
        "a..b",
        "../tester",
        "team/tester",
        "./tester",
        "~/tester",
        ".hidden",
        "-x",
        "a b",
        "x" * 65,
        "x" * 3_000,
        "a\0b",
        "/srv/../etc",
        "builtin:holon-default",
        "file:///srv/templates/tester",
        "git@github.com:acme/agents",
        "http://github.com/acme/agents/tree/main/tester",
        "https://example.org/acme/agents/tree/main/tester",
        "https://github.com/acme/agents",
        "https://github.com/acme/agents/tree",
        "https://github.com/acme/agents/tree/main",
        "https://github.com/acme/agents/tree/main/",
        "https://github.com/acme/agents/tree//tester",
        "https://github.com/acme/agents/tree/main/../tester",
        "https://github.com/acme/agents/tree/main/%2e%2e/tester",
        "https://github.com/acme/agents/tree/main/.git/hooks",
        "https://github.com/acme/agents/blob/main/tester",
        "https://github.com/acme/agents/tree/main/tester?x=1",
    ],
)
def test_anything_else_is_refused_with_what_to_write(reference: str, tmp_path: Path, github: GitHub) -> None:
    with pytest.raises(InvalidTemplate) as refused:
        resolve(reference, tmp_path / "user", tmp_path / "scratch")

    assert refused.value.details == {"field": "template"}
    assert "absolute path" in str(refused.value) or "tree/REF/PATH" in str(refused.value)
    assert not (tmp_path / "scratch").exists(), "nothing was fetched"


@pytest.mark.parametrize("reference", ["nobody", "/nowhere/tester", "/" + "x" * 1_000, "/etc/passwd"])
def test_what_is_not_there_is_unknown(reference: str, tmp_path: Path, user_home: Path) -> None:
    with pytest.raises(UnknownTemplate, match="holon agent templates"):
        resolve(reference, user_home, tmp_path / "scratch")


def test_a_repository_a_ref_or_a_path_that_is_not_there_is_named(tmp_path: Path, github: GitHub) -> None:
    repository = github.repository("acme/agents")
    put_template(repository / "tester")
    (repository / "out").symlink_to(tmp_path)
    github.commit(repository)
    put_template(tmp_path / "secret")

    def refusal(kind: type[HolonError], url: str) -> str:
        with pytest.raises(kind) as refused:
            resolve(f"https://github.com/acme/{url}", None, tmp_path / "scratch" / str(len(url)))
        return str(refused.value)

    assert "check the URL" in refusal(GitFailed, "nothing/tree/main/tester")
    assert "has no 'v9'" in refusal(GitFailed, "agents/tree/v9/tester")
    assert "git ref" in refusal(HolonError, "agents/tree/--upload-pack=x/tester")
    assert "no folder 'other' at 'main'" in refusal(UnknownTemplate, "agents/tree/main/other")
    assert "no folder 'out/secret'" in refusal(UnknownTemplate, "agents/tree/main/out/secret"), "a link leads out"
