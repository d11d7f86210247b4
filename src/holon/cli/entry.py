"""The entry of the `holon` command. It answers `--version` by itself, because loading the whole command tree for one
line would cost more than the line; everything else goes to `application`.
"""

from __future__ import annotations

import sys

from holon import __version__


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"holon {__version__}")
        return
    from holon.cli.application import invoke

    sys.exit(invoke(arguments))
