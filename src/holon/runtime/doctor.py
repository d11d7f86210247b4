"""The doctor: whether a home and the providers of its models can be used, and what to do where they cannot.

It only looks: nothing is sent to a provider, and nothing in the home is changed.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import holon
from holon.core.codec import Record
from holon.core.errors import HolonError
from holon.providers.attempts import RetryPolicy
from holon.providers.selection import ProviderDiagnosis, Providers
from holon.runtime.settings import Settings
from holon.store import leases, schema

#: Less room than this is a problem: the store needs some to work, and more to shrink.
MIN_FREE_BYTES = 500_000_000
#: The longest path that a local socket may have.
SOCKET_PATH_BYTES = 107


class Check(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    next_step: str | None = None


class Diagnosis(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`ok` if the home works and one of the models in use can be asked."""

    ok: bool
    version: str
    home: str
    checks: list[Check]
    #: The models that agents use without one of their own, in the order in which they are tried.
    models: list[str]
    retry_policy: RetryPolicy
    providers: list[ProviderDiagnosis]


def examine(settings: Settings, providers: Providers) -> Diagnosis:
    models = list(dict.fromkeys((settings.model_default, *settings.model_fallbacks)))
    found = providers.doctor(models)
    checks = [*_home_checks(settings), _model_check(models, found)]
    return Diagnosis(
        ok=all(check.ok for check in checks),
        version=holon.__version__,
        home=str(settings.home),
        checks=checks,
        models=models,
        retry_policy=providers.policy,
        providers=found,
    )


def _home_checks(settings: Settings) -> Iterator[Check]:
    owner = leases.holder(settings.lock_path)
    yield _folder(settings.home)
    yield _disk(settings.home)
    yield Check(name="lock", ok=True, detail=f"held by {owner}" if owner else "free")
    yield _database(settings.database_path)
    yield _socket(settings.socket_path, owner)


def _folder(home: Path) -> Check:
    existing = _existing(home)
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(
            name="home",
            ok=False,
            detail=f"{existing} cannot be written",
            next_step="check its owner and permissions, or set HOLON_HOME to a folder that you may write",
        )
    return Check(name="home", ok=True, detail=str(home) if home.exists() else f"{home}, made at the first start")


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(_existing(home)).free
    if free < MIN_FREE_BYTES:
        return Check(
            name="disk",
            ok=False,
            detail=f"{_size(free)} free",
            next_step="free some space on the disk of HOLON_HOME; 'holon debug retention' shows what could go",
        )
    return Check(name="disk", ok=True, detail=f"{_size(free)} free")


def _database(path: Path) -> Check:
    known = schema.known_version()
    try:
        found = schema.found_version(path)
    except HolonError as error:
        return Check(name="database", ok=False, detail=error.message, next_step=error.hint)
    if found is None:
        return Check(name="database", ok=True, detail="none yet, made at the first start")
    if found > known:
        return Check(
            name="database",
            ok=False,
            detail=f"version {found}, this Holon knows {known}",
            next_step="run the newer Holon that wrote it",
        )
    ahead = "" if found == known else f", brought to {known} at the next start"
    return Check(name="database", ok=True, detail=f"version {found}{ahead}")


def _socket(path: Path, owner: str | None) -> Check:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        return _no_socket(f"its path has more than {SOCKET_PATH_BYTES} bytes", "set HOLON_SOCKET_PATH to a short one")
    serves = owner is not None and owner.startswith("serve")
    try:
        mode = path.stat().st_mode
    except OSError:
        if serves:
            return _no_socket(f"{path} is gone, but a Holon serves", "end it and start it again with 'holon serve'")
        return Check(name="socket", ok=True, detail="none: no Holon serves this home")
    if not stat.S_ISSOCK(mode):
        return _no_socket(f"{path} is no socket", "move it aside")
    if mode & 0o077:
        return _no_socket(f"{path} can be opened by others (mode {stat.S_IMODE(mode):04o})", f"chmod 600 {path}")
    if _answers(path):
        return Check(name="socket", ok=True, detail=f"{path} answers")
    if serves:
        return _no_socket(f"{path} does not answer", "end that process and start it again with 'holon serve'")
    return Check(name="socket", ok=True, detail=f"{path} was left by a process that is gone; the next one replaces it")


def _no_socket(detail: str, next_step: str) -> Check:
    return Check(name="socket", ok=False, detail=detail, next_step=next_step)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(str(path))
        except OSError:
            return False
    return True


def _model_check(models: list[str], providers: list[ProviderDiagnosis]) -> Check:
    """At least one model must be usable: the others are what is tried when it fails."""
    by_name = {found.provider: found for found in providers}
    usable = [model for model in models if (found := by_name.get(model.partition("/")[0])) and found.available]
    if usable:
        return Check(name="model", ok=True, detail=f"{usable[0]} can be asked")
    found = by_name.get(models[0].partition("/")[0])
    problem = found.problem if found else f"there is no provider for {models[0]!r}"
    return Check(
        name="model",
        ok=False,
        detail=problem or f"{models[0]} cannot be asked",
        next_step="do as it says, or choose another one with 'holon config set model.default PROVIDER/MODEL'",
    )


def _existing(path: Path) -> Path:
    return next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
