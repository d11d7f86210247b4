"""The library's looks at the disk: small catalogs at once, large ones only where waiting hurts nobody."""

from __future__ import annotations

import threading
from pathlib import Path

from holon.skills.library import FEW, Library
from tests.core.samples import identity
from tests.skills.shelves import put_skill


def test_a_small_catalog_is_looked_at_at_once_and_shows_what_changed(tmp_path: Path) -> None:
    library, agent = Library(), identity(agent_home=str(tmp_path))
    put_skill(tmp_path / "skills", "one")
    first = library.catalog_at_once(agent)
    assert first is not None
    assert list(first.skills) == ["one"]
    put_skill(tmp_path / "skills", "two")
    found = library.catalog_at_once(agent)
    assert found is not None
    assert list(found.skills) == ["one", "two"]


def test_a_large_catalog_is_left_to_a_thread(tmp_path: Path) -> None:
    library, agent = Library(), identity(agent_home=str(tmp_path))
    for number in range(FEW + 1):
        put_skill(tmp_path / "skills", f"skill-{number}")
    assert library.catalog_at_once(agent) is None, "also while nobody has looked"
    assert len(library.catalog(agent).skills) == FEW + 1
    assert library.catalog_at_once(agent) is None


def test_nobody_waits_for_one_who_is_looking(tmp_path: Path) -> None:
    library, agent = Library(), identity(agent_home=str(tmp_path))
    put_skill(tmp_path / "skills", "one")
    library.catalog(agent)
    looking, done = threading.Event(), threading.Event()

    def look() -> None:
        with library._lock:
            looking.set()
            done.wait(10)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        assert looking.wait(10)
        assert library.catalog_at_once(agent) is None
    finally:
        done.set()
        thread.join()


def test_what_was_seen_last_is_known_without_a_look(tmp_path: Path) -> None:
    library, agent = Library(), identity(agent_home=str(tmp_path))
    put_skill(tmp_path / "skills", "one")
    assert list(library.known_catalog(agent).skills) == ["one"]
    put_skill(tmp_path / "skills", "two")
    assert list(library.known_catalog(agent).skills) == ["one"]
    assert list(library.catalog(agent).skills) == ["one", "two"]
