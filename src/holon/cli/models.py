"""`holon models`: which models there are, what they cost, how they cache, and whether they can be used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holon.cli.output import emit, money, remark, show_table, span
from holon.cli.seat import Seat, seated

if TYPE_CHECKING:
    from holon.providers.selection import Providers
    from holon.runtime.settings import Settings


@seated()
def models(seat: Seat) -> None:
    """Show the model table: windows, prices for a million tokens, cache rules, and what can be used.

    A line is about all models whose names begin like it. Figures are as published on their date; 'models' in
    config.json adds to the table. Works with and without a running Holon.

    \b
    Example:
      holon models
    """
    client = seat.client()
    lines = client.get("/models") if seat.remote or client.answers() else _listing(seat)
    if seat.json:
        emit(lines)
        return
    columns = ("model", "window", "input", "output", "read", "write", "cache", "dated", "from", "usable")
    show_table(columns, [_row(line) for line in lines], empty="there are no models", numbers=columns[1:6])
    for problem in dict.fromkeys(line["problem"] for line in lines if line["problem"]):
        remark(problem)


def local_providers(settings: Settings) -> Providers:
    """The providers as a Holon on this home would have them."""
    from holon.providers.models import ModelTable
    from holon.providers.selection import Providers

    return Providers.from_configuration(settings.home, settings.providers, models=ModelTable(settings.models))


def _listing(seat: Seat) -> list[dict[str, Any]]:
    from holon.core.codec import to_plain
    from holon.runtime.modelling import model_lines

    providers = local_providers(seat.settings())
    listed: list[dict[str, Any]] = to_plain(model_lines(providers, providers.models))
    return listed


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    card = line["card"]
    prices = card["prices"]
    name = card["model_ref"]
    return (
        f"{name}…" if name.endswith("/") else name,
        f"{card['context_window_tokens']:,}",
        *(money(prices[part]) for part in ("input", "output", "cache_read", "cache_write")),
        _caching(card["cache"]),
        card["dated"],
        {"built_in_catalog": "Holon", "config_override": "config.json"}.get(card["source"], card["source"]),
        "yes" if line["available"] else "no",
    )


def _caching(rules: dict[str, Any]) -> str:
    if rules["kind"] == "none":
        return "none"
    steps = f", in steps of {rules['step_tokens']}" if rules["step_tokens"] > 1 else ""
    return f"{rules['kind']} from {rules['floor_tokens']:,}{steps}, {span(rules['lifetime_ms'])}"
