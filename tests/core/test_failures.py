"""A failure artifact is a summary and never a log; an error says what happened and what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core import errors
from holon.core.codec import dumps, loads
from holon.core.errors import AgentError, DeveloperError, HolonError, OperatorError, ProviderError
from holon.core.failures import FailureArtifact, FailureCategory

LOG = "one line of a very long log\n" * 100_000


@pytest.mark.spec("RT-199")
def test_a_failure_with_a_large_log_is_bounded_and_does_not_hold_the_log():
    artifact = FailureArtifact(
        category=FailureCategory.TASK,
        kind="exit_status",
        summary=LOG,
        exit_status=1,
        source_chain=[LOG] * 50,
        metadata={f"{n}{LOG}": LOG for n in range(50)},
    ).bounded()
    assert len(dumps(artifact)) < 20_000
    assert len(artifact.metadata) <= 16
    assert all(len(key) <= 100 and len(value) <= 500 for key, value in artifact.metadata.items())
    assert artifact.exit_status == 1


@given(st.text(max_size=1_000), st.dictionaries(st.text(max_size=100), st.text(max_size=500), max_size=16))
def test_what_is_short_enough_stays_as_it_is(summary: str, metadata: dict[str, str]):
    artifact = FailureArtifact(category=FailureCategory.RUNTIME, kind="x", summary=summary, metadata=metadata)
    assert artifact.bounded() == artifact


def test_an_artifact_comes_back_equal():
    artifact = FailureArtifact(
        category=FailureCategory.TRANSPORT,
        kind="timeout",
        summary="no answer",
        provider="p",
        model_ref="p/m",
        status=504,
        task_id="task_1",
        exit_status=2,
        source_chain=["a", "b"],
        metadata={"url": "x"},
    )
    assert loads(dumps(artifact), FailureArtifact) == artifact


ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, HolonError)]
ADDRESSEES = (OperatorError, AgentError, DeveloperError, ProviderError)


@pytest.mark.parametrize("error", [error for error in ERRORS if error is not HolonError])
def test_every_error_is_addressed_to_exactly_one_who_must_act(error: type[HolonError]):
    assert sum(issubclass(error, addressee) for addressee in ADDRESSEES) == 1


def test_every_error_has_a_code_of_its_own():
    codes = [error.code for error in ERRORS if error not in (HolonError, *ADDRESSEES)]
    assert len(codes) == len(set(codes))
    assert "error" not in codes


def test_an_error_reads_as_what_happened_and_what_to_do():
    told = errors.AgentStopped("agent 'main' is stopped", hint="run 'holon agent resume main'", agent_id="main")
    assert str(told) == "agent 'main' is stopped: run 'holon agent resume main'"
    assert told.details == {"agent_id": "main"}
    assert str(errors.NotFound("there is no timer 'x'")) == "there is no timer 'x'"
