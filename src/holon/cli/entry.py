"""The entry of the `holon` command. It answers `--version` by itself, because loading the whole command tree for one
line would cost more than the line; everything else goes to `application`.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from holon import __version__
from holon.cli import standard

#: Loading makes much and leaves no garbage: looking for it took a tenth of a start.
GC_THRESHOLDS = (50_000, 20, 50)


def main() -> None:
    standard.prepare()
    arguments = sys.argv[1:]
    if arguments == ["--version"] and sys.stdout is not None:
        with suppress(OSError):  # then the application says what is wrong with the output
            print(f"holon {__version__}", flush=True)
            return
    gc.set_threshold(*GC_THRESHOLDS)
    from holon.cli.application import invoke

    sys.exit(invoke(arguments))
