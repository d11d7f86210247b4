"""`holon config`: settings and tokens, without a running Holon."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli, serving


def test_a_setting_is_written_read_and_taken_back(cli: Cli):
    assert cli("config", "get", "limits.rounds_per_turn").out == "200\n"
    said = cli("config", "set", "limits.rounds_per_turn", "7").out
    assert said == "limits.rounds_per_turn = 7 (a running Holon takes it at its next start)\n"
    assert json.loads((cli.home / "config.json").read_text()) == {"limits.rounds_per_turn": 7}
    assert cli.json("config", "get", "limits.rounds_per_turn") == {
        "key": "limits.rounds_per_turn",
        "value": 7,
        "source": "config.json",
        "env": "HOLON_LIMITS_ROUNDS_PER_TURN",
    }
    assert cli.json("config", "unset", "limits.rounds_per_turn")["removed"] is True
    assert cli("config", "unset", "limits.rounds_per_turn").out == "limits.rounds_per_turn was not set\n"
    assert cli("config", "get", "limits.rounds_per_turn").out == "200\n"


def test_a_variable_wins_over_the_file_and_one_is_told(cli: Cli):
    done = cli("config", "set", "model.default", "scripted/other")
    assert done.out.startswith("model.default = scripted/actor ")
    assert done.err == "the variable HOLON_MODEL is set and wins over config.json\n"
    sources = {line["key"]: line["source"] for line in cli.json("config", "list")}
    assert (sources["model.default"], sources["http.addr"]) == ("environment", "default")


def test_lists_and_absent_values_are_printed_as_one_writes_them(cli: Cli):
    cli("config", "set", "model.fallbacks", "scripted/a, scripted/b")
    assert cli("config", "get", "model.fallbacks").out == "scripted/a,scripted/b\n"
    assert cli.json("config", "get", "model.fallbacks")["value"] == ["scripted/a", "scripted/b"]
    assert cli("config", "get", "http.advertise").out == "\n"
    assert cli("config", "get", "retention.enabled").out == "true\n"


def test_an_invalid_value_is_refused_and_nothing_is_written(cli: Cli):
    for key, value in (("http.auth", "maybe"), ("limits.rounds_per_turn", "many"), ("retention.events_days", "0")):
        done = cli("config", "set", key, value, "--json")
        assert (done.code, done.out, done.problem["code"]) == (2, "", "invalid_settings")
    assert not (cli.home / "config.json").exists()


def test_the_schema_names_every_setting_that_is_listed(cli: Cli):
    schema = cli.json("config", "schema")
    assert [line["key"] for line in schema] == [line["key"] for line in cli.json("config", "list")]
    assert all(line["type"] and line["env"].startswith("HOLON_") and line["help"] for line in schema)


def test_a_token_is_shown_once_and_listed_by_name_only(cli: Cli):
    made = cli("config", "token", "new", "laptop")
    assert made.out.startswith("holon_")
    assert "only this once" in made.err
    listed = cli("config", "token", "list")
    assert "laptop" in listed.out
    assert made.out.strip() not in listed.out + (cli.home / "tokens.json").read_text()
    assert [token["name"] for token in cli.json("config", "token", "list")] == ["laptop"]
    again = cli("config", "token", "new", "laptop", "--json")
    assert (again.code, again.problem["code"]) == (2, "conflict")
    assert cli("config", "token", "revoke", "laptop").out == "token laptop is revoked\n"
    assert cli("config", "token", "list").out.startswith("there are no tokens")
    assert cli("config", "token", "revoke", "laptop").code == 2


def test_the_token_that_serve_was_given_opens_tcp(cli: Cli):
    (cli.home / "token").write_text("a-token-of-my-own-making-0123456789\n")
    with serving(cli, "--token-file", str(cli.home / "token"), "--advertise", "https://holon.example") as ready:
        url = f"http://{ready['http_addr']}"
        done = cli("trigger", "reveal", "--url", url, "--token-file", str(cli.home / "token"))
    assert done.out.startswith("https://holon.example/callbacks/wake/")
