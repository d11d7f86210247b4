"""`holon doctor`: whether this home and its models can be used, and what to do where they cannot."""

from __future__ import annotations

from typing import Any

import typer

from holon.cli.models import local_providers
from holon.cli.output import DONE, FAILED, emit, say, show_table, span
from holon.cli.seat import Seat, seated


@seated()
def doctor(seat: Seat) -> None:
    """Look whether this home and its providers can be used, and say what to do.

    It asks the Holon that runs on the home, whose environment counts; without one it looks by itself. Nothing is sent
    to a provider. Exit codes: 0 all is well, 1 something must be done.

    \b
    Example:
      holon doctor
    """
    client = seat.client()
    if seat.remote or client.answers():
        found: dict[str, Any] = client.get("/control/runtime/doctor")
    else:
        found = _examine(seat)
    if seat.json:
        emit(found)
    else:
        _show(found)
    raise typer.Exit(DONE if found["ok"] else FAILED)


def _examine(seat: Seat) -> dict[str, Any]:
    from holon.core.codec import to_plain
    from holon.runtime.doctor import examine

    settings = seat.settings()
    found: dict[str, Any] = to_plain(examine(settings, local_providers(settings)))
    return found


def _show(found: dict[str, Any]) -> None:
    say(f"Holon {found['version']} on {found['home']}")
    checks = [
        (check["name"], "well" if check["ok"] else "PROBLEM", check["detail"], check["next_step"] or "")
        for check in found["checks"]
    ]
    show_table(("checked", "is", "", "what to do"), checks, empty="")
    say()
    providers = [
        (line["provider"], line["transport"], "yes" if line["available"] else "no", line["problem"] or "")
        for line in found["providers"]
    ]
    show_table(("provider", "transport", "usable", "what to do"), providers, empty="there are no providers")
    say()
    caching = {
        model["model_ref"]: model["supports_prompt_caching"]
        for provider in found["providers"]
        for model in provider["models"]
    }
    for model in found["models"]:
        say(f"{model}: prompts are {'' if caching.get(model) else 'not '}cached")
    policy = found["retry_policy"]
    say(
        f"a failed attempt is repeated up to {policy['max_retries']} times where that may help, after"
        f" {span(policy['base_ms'])} and longer; a service may ask for up to {span(policy['retry_after_cap_ms'])}"
    )
