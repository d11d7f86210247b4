"""Errors, by who must act: the operator, the agent (its model), the developer, or the provider.

Every error has a stable `code`, says what happened and what was expected, and where it can, what to do (`hint`).
Surfaces map codes, never words: HTTP answers problem details with `code`, the CLI prints the sentence and the hint.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HolonError(Exception):
    """The root of all errors that Holon raises on purpose."""

    code: ClassVar[str] = "error"
    #: The HTTP status that a surface answers with.
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class OperatorError(HolonError):
    """Somebody who runs or calls Holon must act."""

    status = 400


class AgentError(HolonError):
    """The agent's model must act; it is told in a tool's error envelope."""

    status = 400


class DeveloperError(HolonError):
    """The program is wrong."""


class ProviderError(HolonError):
    """A model provider must answer differently."""

    status = 502


class InvalidInput(OperatorError):
    """The request is malformed."""

    code = "invalid_input"


class UnknownAgent(OperatorError):
    code = "unknown_agent"
    status = 404


class PrivateAgent(OperatorError):
    code = "private_agent"
    status = 404


class AgentExists(OperatorError):
    code = "agent_exists"
    status = 409


class AgentStopped(OperatorError):
    code = "agent_stopped"
    status = 409


class AgentArchived(OperatorError):
    code = "agent_archived"
    status = 409


class NotFound(OperatorError):
    code = "not_found"
    status = 404


class Conflict(OperatorError):
    code = "conflict"
    status = 409


class NoCurrentRun(Conflict):
    code = "no_current_run"


class StaleRun(Conflict):
    code = "stale_run_id"


class IdempotencyMismatch(Conflict):
    code = "idempotency_key_reused"
    status = 422


class QueueFull(OperatorError):
    code = "queue_full"
    status = 429


class LimitMet(AgentError):
    """One of `core.limits`. Refused in a transaction, it is on record there as `limit_reached`."""

    code = "limit_reached"
    status = 429

    def __init__(self, message: str, *, limit: str, value: float, hint: str) -> None:
        super().__init__(message, hint=hint, limit=limit, value=value)
        self.limit, self.value = limit, value


class BodyTooLarge(OperatorError):
    code = "body_too_large"
    status = 413


class Unauthorized(OperatorError):
    code = "unauthorized"
    status = 401


class Forbidden(OperatorError):
    code = "forbidden"
    status = 403


class TriggerRefused(OperatorError):
    """The trigger URL is not, or no longer, a capability."""

    code = "trigger_refused"
    status = 403


class CursorTooOld(OperatorError):
    code = "cursor_too_old"
    status = 410


class HomeBusy(OperatorError):
    code = "home_busy"
    status = 409


class HomeUnusable(OperatorError):
    code = "home_unusable"


class NewerDatabase(OperatorError):
    code = "newer_database"


class StoreUnavailable(OperatorError):
    """The disk did not take the write; nothing of it was kept."""

    code = "store_unavailable"
    status = 503


class StoreMisused(DeveloperError):
    """The database refused a statement because it breaks a rule of the schema: sending it again cannot help."""

    code = "store_misused"


class Fenced(OperatorError):
    """Another process took over the home; this one must stop writing."""

    code = "fenced"
    status = 409


class InvalidSettings(OperatorError):
    code = "invalid_settings"


class DaemonUnreachable(OperatorError):
    code = "daemon_unreachable"
    status = 503
