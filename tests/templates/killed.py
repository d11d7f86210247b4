"""A process that makes an agent from a template and may be killed on the way. It prints how that agent stands."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holon.core.errors import AgentExists
from holon.runtime.host import Host
from holon.runtime.settings import load_settings


async def live(home: Path, template: str, *, create: bool) -> None:
    async with await Host.open(load_settings(home, {}, http_port=0)) as host:
        if create:
            try:
                await host.agents.create("helper", surface="test", template=template, idempotency_key="k")
            except AgentExists as error:
                sys.exit(str(error))
        found = {entry.identity.agent_id: str(entry.status) for entry in await host.views.agents()}
        print(found.get("helper", "none"))


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2], create=sys.argv[3] != "look"))
