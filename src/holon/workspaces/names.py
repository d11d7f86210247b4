"""Names of files as they can be told: on disk a name is bytes, and need not be text."""

from __future__ import annotations

import re
from pathlib import PurePath

_NO_TEXT = re.compile("[\ud800-\udfff]")


def printable(name: str | PurePath) -> str:
    """For messages and results. Bytes that are no UTF-8, which Python keeps as lone surrogates, are shown as `\\xe9`:
    nothing that is sent or stored can hold them."""
    return _NO_TEXT.sub(_shown, str(name))


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
