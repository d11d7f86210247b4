"""What a prompt is made of, what it costs, which model is asked, and what the doctor says: as people see it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from holon.cli.output import money
from holon.cli.prompt_views import bar
from tests.cli.conftest import Cli, a_home, serving

_NUMBERS = itertools.count(1)
PRICES = {"scripted/": {"prices": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}}}


@pytest.fixture(scope="module")
def priced() -> Iterator[Cli]:
    """A home with a Holon on it whose models cost something, shared by this module."""
    with a_home() as home:
        cli = Cli(home.home, {"HOLON_MODELS": json.dumps(PRICES), "HOLON_MODEL_FALLBACKS": "scripted/missing"})
        with serving(cli):
            yield cli


@pytest.fixture
def agent(priced: Cli) -> str:
    """An agent of the test's own that has answered twice."""
    name = f"agent-{next(_NUMBERS)}"
    priced.json("agent", "create", name)
    (priced.home / "agents" / name / "AGENTS.md").write_text("never say heliotrope")
    for text in ("hello", "how are you"):
        assert priced("prompt", text, "--agent", name).code == 0
    return name


@pytest.mark.spec("RT-228")
def test_debug_prompt_shows_where_the_agent_acts_and_what_its_prompt_is_made_of(priced: Cli, agent: str):
    shown = priced("debug", "prompt", "--agent", agent).out
    home = priced.home / "agents" / agent
    fields = dict(line.split(maxsplit=1) for line in shown.splitlines() if line.startswith("  "))
    assert fields["agent_home"] == fields["workspace_anchor"] == fields["execution_root"] == fields["cwd"] == str(home)
    assert fields["workspace_id"] == "agent_home"
    assert fields["policy"].startswith("host_local, processes ")
    assert "network_confinement" in shown
    assert f"{home}/AGENTS.md (agents_md, 20 bytes)" in shown
    assert re.search(r"workspace's +none", shown)
    assert "heliotrope" not in shown
    parts, cache = (re.search(rf"^  {name} +([a-zA-Z]+)$", shown, re.MULTILINE) for name in ("parts", "cache"))
    assert parts and cache
    assert len(parts[1]) == len(cache[1]) == 96
    assert list(dict.fromkeys(parts[1]))[:2] == ["a", "b"]
    assert set(cache[1]) == {"F"}, "the scripted model caches nothing"
    rows = {line.split()[1]: line for line in shown.splitlines() if re.match(r"[a-z]  \w", line)}
    assert rows["contract"].split()[2] == "stable"
    assert rows["agent_instructions"].endswith(f"{home}/AGENTS.md")
    assert rows["inputs"].split()[2:4] == ["turn_scoped", "2"]


def test_a_past_call_is_shown_as_it_was_sent(priced: Cli, agent: str):
    shown = priced("debug", "prompt", "--agent", agent, "--call", "1").out
    assert shown.startswith(f"call 1 of agent {agent}, ")
    assert "bytes verified" in shown
    assert re.search(r"booked +0 read, 0 written, [\d,]+ fresh \(0\.0% from cache\); \d+ output; \$0\.0\d+", shown)
    view = priced.json("debug", "prompt", "--agent", agent, "--call", "2")
    assert view["verification"]["verified"] is True
    assert view["call"]["call"] == 2
    missing = priced("debug", "prompt", "--agent", agent, "--call", "9", "--json")
    assert (missing.code, missing.problem["code"]) == (2, "not_found")


def test_the_text_of_a_prompt_is_printed_on_request(priced: Cli, agent: str):
    shown = priced("debug", "prompt", "--agent", agent, "--text").out
    assert "--- contract (stable, " in shown
    assert "never say heliotrope" in shown
    assert shown.index("# How you live") < shown.index("heliotrope") < shown.index("hello")
    both = priced("debug", "prompt", "--agent", agent, "--text", "--diff")
    assert (both.code, both.err) == (2, "error: --diff and --text are two questions: ask one at a time\n")


def test_two_requests_are_compared_in_one_sentence(priced: Cli, agent: str):
    shown = priced("debug", "prompt", "--agent", agent, "--diff").out
    assert re.fullmatch(r"call 2 extends call 1 by 2 blocks, \d+ tokens\nno drift is on record\n", shown)
    assert priced.json("debug", "prompt", "--agent", agent, "--diff")["extends"] is True


@pytest.mark.parametrize("by", ["section", "agent", "model", "day"])
def test_costs_are_a_table_that_adds_up(priced: Cli, agent: str, by: str):
    report = priced.json("cost", "--by", by, "--agent", agent)
    table = priced("cost", "--by", by, "--agent", agent).out.splitlines()
    assert re.fullmatch(rf"spent by agent {agent} from \S+ to \S+ \(UTC\)", table[0])
    assert re.split(r"  +", table[1].strip()) == [
        by,
        "calls",
        "fresh",
        "read",
        "written",
        "output",
        "from cache",
        "cost",
    ]
    assert table[-1].split()[:2] == ["total", "2"]
    assert table[-1].endswith(money(report["total"]["dollars"]))
    assert len(table) == len(report["lines"]) + 3
    used = priced.json("status", "--agent", agent)["token_usage"]["total"]
    assert report["total"]["fresh"] == used["input_tokens"]
    assert report["total"]["dollars"] == pytest.approx((used["input_tokens"] * 3 + used["output_tokens"] * 15) / 1e6)


def test_costs_of_other_days_can_be_asked_for(priced: Cli, agent: str):
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    report = priced.json("cost", "--by", "day", "--since", today, "--until", today)
    assert [line["key"] for line in report["lines"]] == [today]
    nothing = priced("cost", "--since", "2020-01-01", "--until", "2020-01-02")
    assert nothing.out == "spent from 2020-01-01 to 2020-01-02 (UTC)\nnothing\n"
    wrong = priced("cost", "--since", "2020-01-99")
    assert (wrong.code, wrong.err) == (2, "error: '2020-01-99' is not a day: write it like 2026-03-01 (UTC)\n")


@pytest.mark.spec("RT-083", "RT-085", "RT-086")
def test_the_model_of_an_agent_is_shown_set_and_cleared(priced: Cli, agent: str):
    assert priced("agent", "model", "get", "--agent", agent).out == (
        f"agent {agent} uses scripted/actor (the default) from its next turn on; if it fails: scripted/missing\n"
    )
    done = priced("agent", "model", "set", "scripted/echo", "--agent", agent)
    assert (
        done.out == f"agent {agent} uses scripted/echo (its own) from its next turn on; if it fails: scripted/missing\n"
    )
    assert priced("prompt", "fail please", "--agent", agent).out == "fail please\n", "the other model would have failed"
    assert priced.json("status", "--agent", agent)["model"]["source"] == "agent_override"
    assert priced.json("agent", "model", "clear", "--agent", agent)["model"]["source"] == "runtime_default"
    assert priced("prompt", "fail please", "--agent", agent).code == 1
    refused = priced("agent", "model", "set", "acme/large", "--agent", agent)
    assert refused.code == 2
    assert "there is no provider 'acme'" in refused.err
    assert "--force" in refused.err
    assert priced.json("agent", "model", "set", "acme/large", "--agent", agent, "--force")["changed"] is True
    malformed = priced("agent", "model", "set", "echo", "--agent", agent, "--json")
    assert (malformed.code, malformed.problem["code"]) == (2, "invalid_input")


def test_the_models_are_shown_with_prices_and_rules_also_without_a_holon(priced: Cli, cli: Cli):
    table = priced("models").out
    line = next(line for line in table.splitlines() if line.startswith("scripted/…"))
    assert line.split()[2:6] == ["$3.00", "$15.00", "$0.30", "$3.75"]
    assert line.split()[-2:] == ["config.json", "yes"]
    alone = cli("models", ANTHROPIC_API_KEY="twin-x", OPENAI_API_KEY="")
    assert alone.code == 0
    opus = next(line for line in alone.out.splitlines() if line.startswith("anthropic/claude-opus-5 "))
    assert opus.split()[-1] == "yes"
    assert "explicit from 512" in opus
    assert "set OPENAI_API_KEY" in alone.err
    assert {line["card"]["model_ref"] for line in cli.json("models")} == {
        line["card"]["model_ref"] for line in priced.json("models")
    }
    assert not (cli.home / "state").exists()


@pytest.mark.spec("RT-178")
def test_the_doctor_looks_at_a_running_holon_and_at_a_home_without_one(priced: Cli, cli: Cli):
    running = priced("doctor")
    assert running.code == 0
    assert re.search(r"lock +well +held by serve \(pid \d+\)", running.out)
    assert re.search(r"socket +well +\S+ answers", running.out)
    assert re.search(r"scripted +scripted +yes", running.out)
    assert "repeated up to 2 times" in running.out
    found = priced.json("doctor")
    assert found["ok"] is True
    assert found["models"] == ["scripted/actor", "scripted/missing"]
    alone = cli("doctor", HOLON_MODEL="anthropic/claude-opus-5", ANTHROPIC_API_KEY="")
    assert alone.code == 1
    assert re.search(r"model +PROBLEM +provider 'anthropic' has no key: set ANTHROPIC_API_KEY", alone.out)
    assert not (cli.home / "state").exists()


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0, "$0"),
        (12_345.678, "$12,346"),
        (12.345, "$12.35"),
        (0.5, "$0.50"),
        (0.0123, "$0.012"),
        (0.000042, "$0.000042"),
        (-0.25, "-$0.25"),
    ],
)
def test_money_has_as_many_digits_as_tell_something(dollars: float, text: str):
    assert money(dollars) == text


def test_a_bar_is_scaled_by_tokens():
    assert "".join(bar([(10, "a"), (30, "b"), (0, "c"), (60, "d")], 10)) == "abbbdddddd"
    assert bar([]) == []
    assert "".join(bar([(1, "a"), (1, "b")], 3)) == "abb"
