"""The system as a confined command sees it: programs and libraries, a little of /etc, private /tmp, /dev and /proc."""

from __future__ import annotations

import os
from pathlib import Path

#: Read-only, whole. What is a link on this machine (`/bin` to `usr/bin`) is a link inside.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
#: Chosen one by one: /etc also has password hashes, host keys and tokens.
_SETTINGS = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.conf",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "profile",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
_NETWORK_SETTINGS = ("gai.conf", "resolv.conf")
#: The kernel's own settings take a write from root's number, whatever rights it has left.
_KERNEL_SETTINGS = ("acpi", "asound", "bus", "driver", "fs", "irq", "scsi", "sys", "sysrq-trigger")
_KERNEL_SECRETS = ("kcore", "keys", "kmsg", "kpagecount", "kpageflags", "mtrr", "sched_debug", "timer_list")


def system_view(*, network: bool, tmp_size: int, home: str) -> list[str]:
    """Arguments for bubblewrap, in the order in which it mounts."""
    settings = (*_SETTINGS, *_NETWORK_SETTINGS) if network else _SETTINGS
    tmpfs = ("--perms", "1777", "--size", str(tmp_size), "--tmpfs")
    return [
        *(argument for name in _PROGRAMS for argument in _as_it_is(Path(name))),
        *(argument for name in settings for argument in _content(Path("/etc") / name)),
        *("--proc", "/proc"),
        *(argument for name in _KERNEL_SETTINGS for argument in _read_only(Path("/proc") / name)),
        *(argument for name in _KERNEL_SECRETS for argument in _masked(Path("/proc") / name)),
        *("--dev", "/dev"),
        *(*tmpfs, "/dev/shm"),
        *("--remount-ro", "/dev"),
        *(*tmpfs, "/tmp"),
        *("--dir", home),
        *("--symlink", "../tmp", "/var/tmp"),
    ]


def _as_it_is(path: Path) -> list[str]:
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return _read_only(path)


def _content(path: Path) -> list[str]:
    """What a name leads to: links in /etc lead to places that are not there inside."""
    return ["--ro-bind", os.path.realpath(path), str(path)] if path.exists() else []


def _read_only(path: Path) -> list[str]:
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def _masked(path: Path) -> list[str]:
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []
