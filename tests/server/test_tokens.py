"""Tokens: shown once, kept as hashes, revoked by name."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from holon.core.errors import Conflict, InvalidInput, InvalidSettings, NotFound
from holon.server import tokens


def test_an_issued_token_is_known_until_it_is_revoked(home: Path) -> None:
    token = tokens.issue(home, "laptop")

    assert tokens.verify(home, token)
    tokens.revoke(home, "laptop")
    assert not tokens.verify(home, token)


def test_the_file_holds_no_token_and_only_its_owner_reads_it(home: Path) -> None:
    token = tokens.issue(home, "laptop")
    file = home / "tokens.json"

    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [record.name for record in tokens.listing(home)] == ["laptop"]


def test_tokens_are_long_and_never_the_same(home: Path) -> None:
    made = [tokens.issue(home, f"t{number}") for number in range(20)]

    assert len(set(made)) == 20
    assert all(token.startswith("holon_") and len(token) >= len("holon_") + 43 for token in made)


@pytest.mark.parametrize("presented", ["", "holon_", "holon_wrong", "\udcff", "x" * 100_000])
def test_whatever_else_is_presented_is_refused(home: Path, presented: str) -> None:
    tokens.issue(home, "laptop")

    assert not tokens.verify(home, presented)


def test_a_home_without_tokens_knows_none(home: Path) -> None:
    assert not tokens.verify(home, "")
    assert tokens.listing(home) == []


def test_names_are_unique_and_plain(home: Path) -> None:
    tokens.issue(home, "laptop")

    with pytest.raises(Conflict, match="laptop"):
        tokens.issue(home, "laptop")
    with pytest.raises(InvalidInput):
        tokens.issue(home, "../laptop")
    with pytest.raises(NotFound):
        tokens.revoke(home, "desktop")


def test_a_file_that_cannot_be_read_lets_nobody_in_and_says_what_to_do(home: Path) -> None:
    token = tokens.issue(home, "laptop")
    (home / "tokens.json").write_text("not json")

    with pytest.raises(InvalidSettings, match="issue the tokens anew"):
        tokens.verify(home, token)


def test_tokens_that_are_issued_at_the_same_time_are_all_kept(home: Path) -> None:
    threads = [threading.Thread(target=tokens.issue, args=(home, f"t{number}")) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(record.name for record in tokens.listing(home)) == sorted(f"t{number}" for number in range(16))
