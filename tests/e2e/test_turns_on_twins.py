"""Whole turns over the official SDKs: what the ledger says is what the provider bills."""

from __future__ import annotations

from pathlib import Path

import pytest

from holon.core.models import CacheKind
from holon.providers.models import ModelTable
from holon.providers.selection import Providers
from holon.runtime.host import Host
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.settings import load_settings
from holon.store import calls
from twins import Twin

MODELS = ["anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-5", "openai/gpt-5"]


@pytest.mark.spec("CA-077", "CA-078", "CA-080", "RT-214", "RT-217")
@pytest.mark.parametrize("model", MODELS)
async def test_from_the_second_turn_on_the_old_prompt_is_read_and_the_ledger_equals_the_bill(
    model: str, tmp_path: Path
) -> None:
    async with Twin.start() as twin:
        environ = {
            "ANTHROPIC_BASE_URL": twin.anthropic_url,
            "ANTHROPIC_API_KEY": "twin-test",
            "OPENAI_BASE_URL": twin.openai_url,
            "OPENAI_API_KEY": "twin-test",
        }
        settings = load_settings(tmp_path, {"HOLON_MODEL": model})
        providers = Providers.from_configuration(tmp_path, {}, environ)
        async with await Host.open(settings, providers=providers) as host:
            for number in range(4):
                await run_once(host, RunRequest(text=f"hello {number} " + "word " * 1_400, agent_id="main"))
            booked = list(reversed(await host.store.read(lambda tx: calls.recent(tx, "main"))))
            drifts = await host.store.read(lambda tx: tx.all("SELECT 1 FROM events WHERE kind = 'prompt_drift'"))
            lines = await host.store.read(
                lambda tx: calls.cache_effectiveness(tx, since_day="2000-01-01", until_day="2100-01-01")
            )
        bills = [call.bill for call in twin.calls if call.bill is not None]
    assert [(c.buckets.fresh, c.buckets.read, c.buckets.written, c.output) for c in booked] == [
        (bill.fresh, bill.read, bill.written, bill.output) for bill in bills
    ]
    assert [c.nanodollars for c in booked] == [round(float(bill.dollars) * 1e9) for bill in bills]
    assert all(c.buckets.read > 0 for c in booked[1:]), "the second turn reads what the first one wrote"
    assert drifts == []
    (line,) = lines
    assert line.hit_rate is not None
    assert line.hit_rate > 0
    if ModelTable().card(model).cache.kind is CacheKind.EXPLICIT:
        assert line.cache_write_share is not None
        assert line.cache_write_share <= 2 / (len(booked) + 1)
