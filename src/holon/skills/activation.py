"""Activation: what a request for a skill leads to. Pure: it reads the session's activations and the budget.

A skill that is already in the prompt is pointed at, not sent again. A new one is granted, or refused where the budget
is used up; nothing is ever unloaded behind the agent's back.
"""

from __future__ import annotations

from collections.abc import Iterable

from holon.core.skills import (
    ActivationBudget,
    ActivationBudgetExhausted,
    ActivationState,
    SkillActivation,
)
from holon.core.values import Value


class Grant(Value, frozen=True):
    """The body may be sent. `warns`: this load crosses the threshold that the log should mention."""

    warns: bool
    total_tokens: int


class Pointer(Value, frozen=True):
    """The body is already there: in the prompt's head, or above in the conversation."""

    activation: SkillActivation
    changed: bool

    @property
    def preloaded(self) -> bool:
        return self.activation.in_head


Decision = Grant | Pointer


class SkillActivationRegistry:
    """The activations of one session. Rebuilt from the store, so a restart or a compaction changes nothing in it."""

    def __init__(self, activations: Iterable[SkillActivation], budget: ActivationBudget | None = None) -> None:
        self._by_name = {activation.name: activation for activation in activations}
        self.budget = budget or ActivationBudget()

    def get(self, name: str) -> SkillActivation | None:
        return self._by_name.get(name)

    @property
    def explicit(self) -> list[SkillActivation]:
        return [each for each in self._by_name.values() if each.load_reason.explicit]

    @property
    def explicit_tokens(self) -> int:
        return sum(each.explicit_tokens for each in self._by_name.values())

    def decide_load(self, name: str, version: str, tokens: int) -> Decision:
        """What `skill_load` answers; raises `ActivationBudgetExhausted` where there is no room."""
        known = self._by_name.get(name)
        if known is not None and not known.shown:
            return Grant(False, self.explicit_tokens)  # a script of it ran: it is counted, but was never read
        if known is not None:
            return Pointer(known, changed=known.version != version)
        if len(self.explicit) >= self.budget.max_skills:
            raise self._exhausted(f"(limit {self.budget.max_skills})")
        return self.decide_tokens(tokens)

    def decide_tokens(self, tokens: int) -> Grant:
        """For what counts toward the tokens only, such as a reference."""
        before, after = self.explicit_tokens, self.explicit_tokens + tokens
        if tokens and after > self.budget.stop_tokens:
            raise self._exhausted(f"with {before} tokens; {tokens} more would pass the {self.budget.stop_tokens}")
        return Grant(before < self.budget.warn_tokens <= after, after)

    def carried(self, cut_seq: int) -> list[str]:
        """The skills whose bodies a new epoch must take into its head, since the conversation before it is cut off."""
        return sorted(
            each.name
            for each in self.explicit
            if each.shown
            and not each.leaving
            and each.state is not ActivationState.LAPSED
            and (each.in_head or each.after_seq < cut_seq)
        )

    def _exhausted(self, how: str) -> ActivationBudgetExhausted:
        loaded = sorted(each.name for each in self.explicit)
        return ActivationBudgetExhausted(
            f"activation budget exhausted: {len(loaded)} skills already activated this session {how}."
            f" Already loaded: [{', '.join(loaded)}]. To free budget, summarize and discard previously loaded skill"
            " bodies in your next response",
            hint="call skill_unload(name) for what you no longer need: it leaves, and its budget comes back, when the"
            " conversation is next compacted; until then work with what is loaded",
            loaded=loaded,
        )
