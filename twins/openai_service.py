"""What OpenAI's APIs share: keys, error bodies, headers, models, and the prompt as their cache sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twins.api import KEY_PREFIX, Refusal, bearer, retry_headers
from twins.billing import Caching, Model, PriceList
from twins.cache import HOUR_MS, MINUTE_MS, Block, MarkedPrompt, Newest, PlainPrompt, Prompt
from twins.counting import count, token_ids
from twins.script import Fault

#: How long an automatic prefix is kept without use. OpenAI says 5 to 10 minutes; the twin forgets at the first.
KEEP_MS = {"in_memory": 5 * MINUTE_MS, "24h": 24 * HOUR_MS}
BREAKPOINT_KEEP_MS = {"30m": 30 * MINUTE_MS, "12h": 12 * HOUR_MS}
MOST_WRITES = 4

#: Type, code and words of the errors, by status.
ERRORS: Mapping[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request was not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: (
        "request_forbidden",
        "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    ),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    413: ("invalid_request_error", "request_too_large", "The request is larger than the maximum size."),
    429: (
        "tokens",
        "rate_limit_exceeded",
        "Rate limit reached for {model} in organization org-twin on tokens per min (TPM): Limit 30000, Used 28770, "
        "Requested 3906. Please try again in {seconds:g}s.",
    ),
    500: (
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that! You can retry your request.",
    ),
    503: ("service_unavailable_error", "server_is_overloaded", "Our servers are currently overloaded."),
}
OUT_OF_QUOTA = "You exceeded your current quota, please check your plan and billing details."


def authorize(headers: Mapping[str, str]) -> str:
    key = bearer(headers)
    if key is None:
        raise Refusal(401, "You didn't provide an API key. You need to provide it in an Authorization header.")
    if not key.startswith(KEY_PREFIX):
        shown = f"{key[:8]}***{key[-4:]}" if len(key) > 12 else "***"
        raise Refusal(401, f"Incorrect API key provided: {shown}.", code="invalid_api_key")
    return key


def error_body(refusal: Refusal) -> dict[str, Any]:
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.type,
            "param": refusal.param,
            "code": refusal.code,
        }
    }


def headers(request_id: str) -> dict[str, str]:
    return {"x-request-id": request_id, "openai-organization": "org-twin", "openai-version": "2020-10-01"}


def refusal_of(fault: Fault, model_name: str) -> Refusal:
    status = fault.status or 500
    type_, code, message = ERRORS.get(
        status, ("server_error" if status >= 500 else "invalid_request_error", None, "Error")
    )
    if fault.code == "insufficient_quota":
        type_, message = "insufficient_quota", OUT_OF_QUOTA
    words = message.format(model=model_name, seconds=fault.retry_after or 1)
    return Refusal(status, fault.message or words, type=type_, code=fault.code or code, headers=retry_headers(fault))


def find_model(prices: PriceList, body: Any, *, unknown_status: int) -> tuple[str, Model]:
    name = body.get("model") if isinstance(body, dict) else None
    if not isinstance(name, str) or not name:
        raise missing("model")
    model = prices.find(name)
    if model is None or model.caching is Caching.MARKS:
        raise Refusal(
            unknown_status,
            f"The model `{name}` does not exist or you do not have access to it.",
            code="model_not_found",
            param="model" if unknown_status == 400 else None,
        )
    return name, model


def missing(name: str) -> Refusal:
    return Refusal(400, f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name)


def unknown(name: str) -> Refusal:
    return Refusal(400, f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)


def unsupported(name: str, instead: str = "") -> Refusal:
    words = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
    return Refusal(400, words, code="unsupported_parameter", param=name)


def check_settings(body: Mapping[str, Any], model: Model) -> None:
    """Settings that depend on the model's family."""
    if model.caching is not Caching.BREAKPOINTS and body.get("prompt_cache_options") is not None:
        raise unsupported("prompt_cache_options")
    if not model.sampling:
        for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            if body.get(name) not in (None, 0 if name.endswith("penalty") else 1):
                raise unsupported(name)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the prompt as the model reads it."""

    text: str
    #: Whether the newest input can end here: the service's own breakpoint stands behind such a piece.
    boundary: bool = False
    #: Whether the request has a breakpoint here.
    breakpoint: bool = False


def prompt_of(body: Mapping[str, Any], model: Model, scope: Sequence[Any], pieces: Sequence[Piece]) -> Prompt:
    """The prompt for the cache. What the scope holds must be the same for a prefix to be found again."""
    if model.caching is not Caching.BREAKPOINTS:
        ids = [id_ for piece in pieces for id_ in token_ids(piece.text)]
        return PlainPrompt(tuple(scope), ids, KEEP_MS[body.get("prompt_cache_retention") or "in_memory"])
    options = body.get("prompt_cache_options") or {}
    writes = _writes(pieces, options)
    blocks = [
        Block(piece.text, count(piece.text), keep_ms=writes.get(place), boundary=piece.boundary)
        for place, piece in enumerate(pieces)
    ]
    return MarkedPrompt(tuple(scope), blocks, model.floor, Newest())


def _writes(pieces: Sequence[Piece], options: Mapping[str, Any]) -> dict[int, int]:
    """Where this request writes: the newest explicit breakpoints, and one of the service's own behind the newest input.

    Four in all; the service's own takes one of them unless the request wants explicit ones only.
    """
    keep = BREAKPOINT_KEEP_MS[options.get("ttl", "30m")]
    explicit = [place for place, piece in enumerate(pieces) if piece.breakpoint]
    ends = [place for place, piece in enumerate(pieces) if piece.boundary]
    implicit = ends[-1:] if options.get("mode", "implicit") == "implicit" else []
    chosen = explicit[-(MOST_WRITES - len(implicit)) :]
    return dict.fromkeys([*chosen, *implicit], keep)
