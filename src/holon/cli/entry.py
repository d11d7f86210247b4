"""The entry of the `holon` command. It answers `--version` by itself, because loading the whole command tree for one
line would cost more than the line; everything else goes to `application`.
"""

from __future__ import annotations

import gc
import sys

from holon import __version__

#: Loading makes much and leaves no garbage: looking for it took a tenth of a start.
GC_THRESHOLDS = (50_000, 20, 50)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"holon {__version__}")
        return
    gc.set_threshold(*GC_THRESHOLDS)
    from holon.cli.application import invoke

    sys.exit(invoke(arguments))
