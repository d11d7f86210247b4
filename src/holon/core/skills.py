"""Skills: the vocabulary of loads and activations. What a skill is on disk is in the room `skills`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from holon.core.codec import Input, Record
from holon.core.errors import AgentError

#: Budgets of one session. Only explicit activations count: what is preloaded was paid for with the prompt's head.
MAX_EXPLICIT_ACTIVATIONS_PER_SESSION = 3
WARN_CUMULATIVE_ACTIVATION_TOKENS = 10_000
HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS = 30_000


class SkillScope(StrEnum):
    """Whose folder a skill came from, in the order in which names are given out."""

    AGENT = "agent"
    WORKSPACE = "workspace"
    USER = "user"


class LoadReason(StrEnum):
    """Why a skill came into a prompt. The last two are reserved: nothing emits them."""

    ALWAYS = "always"
    ON_DEMAND = "on_demand"
    READ_SKILL_MD = "read_skill_md"
    RUN_SKILL_SCRIPT = "run_skill_script"
    AUTO_SUGGESTED = "auto_suggested"
    PROMPT_INJECTION = "prompt_injection"

    @property
    def explicit(self) -> bool:
        """Whether it counts toward the budgets."""
        return self in (LoadReason.ON_DEMAND, LoadReason.READ_SKILL_MD, LoadReason.RUN_SKILL_SCRIPT)


class ActivationState(StrEnum):
    TURN_ACTIVE = "turn_active"
    SESSION_ACTIVE = "session_active"
    #: Session-active before the process was started anew.
    RESTORED = "restored"
    #: Its turn did not end well. The body still stands in the conversation, and still counts.
    LAPSED = "lapsed"


class LoadedThing(StrEnum):
    """What a load brought into a prompt."""

    SKILL = "skill"
    REFERENCE = "reference"
    INSTRUCTION = "instruction"
    MEMORY = "memory"
    TOOL = "tool"


class ActivationBudget(Input, frozen=True, kw_only=True):
    #: Different skills that one session may load.
    max_skills: int = MAX_EXPLICIT_ACTIVATIONS_PER_SESSION
    #: Tokens of all loads together: from here on the log warns, and here a load is refused.
    warn_tokens: int = WARN_CUMULATIVE_ACTIVATION_TOKENS
    stop_tokens: int = HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS
    #: Tokens of the index of skills in the prompt.
    index_tokens: int = 4_000


class SkillActivation(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One skill of one session: how it came in, and how it stands."""

    name: str
    state: ActivationState
    load_reason: LoadReason
    source: SkillScope
    version: str
    tokens: int
    entrypoint_path: str
    activated_at: datetime
    epoch: int = 0
    turn_id: str | None = None
    #: The newest transcript entry when it came in: the body stands after it, as long as that part is not cut off.
    after_seq: int = 0
    #: The body stands whole in the prompt's head, put there as padding or carried over from an earlier epoch.
    in_head: bool = False
    #: The body was shown at all. Running a script of a skill activates it without showing it.
    shown: bool = True
    #: The last event that was emitted for it, so that one turn says one thing once.
    last_event: str = ""
    #: Tokens of this skill's references that were loaded; they count toward the same caps.
    reference_tokens: int = 0
    #: `skill_unload` was called: it leaves at the next epoch.
    leaving: bool = False

    @property
    def explicit_tokens(self) -> int:
        return (self.tokens if self.load_reason.explicit else 0) + self.reference_tokens


class LoadRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the load ledger."""

    id: str
    agent_id: str
    created_at: datetime
    what: LoadedThing
    name: str
    version: str
    reason: str
    tokens: int
    nanodollars: int = 0
    session_id: str | None = None
    epoch: int = 0
    turn_id: str | None = None
    refused: bool = False


class LoadLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One skill in `/analytics/skills`: how often it came, what it cost, and whether it was of use."""

    name: str
    loads: int
    preloads: int
    references: int
    used: int
    refused: int
    tokens: int
    dollars: float
    last_loaded_at: datetime | None


class UnknownSkillError(AgentError):
    code = "unknown_skill"
    status = 404


class SkillUnusable(AgentError):
    """The skill is there, but its body cannot be loaded."""

    code = "skill_unusable"


class ToolExecutionError(AgentError):
    """A tool could not do what it was asked for; the agent is told in the tool's result."""

    code = "tool_execution_error"


class ActivationBudgetExhausted(ToolExecutionError):
    code = "activation_budget_exhausted"


class ReferenceNotAllowedError(AgentError):
    """What was asked for is not one of the references that the skill's author listed."""

    code = "reference_not_allowed"
    status = 403


class ReferenceNotFoundError(AgentError):
    """A listed reference is not on disk any more."""

    code = "reference_not_found"
    status = 404


class ReferenceUnreadableError(AgentError):
    """A listed reference is there, but is no text that a model can read."""

    code = "reference_unreadable"
