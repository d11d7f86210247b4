"""`holon skills`: for authors (new, lint, test) and for whoever runs agents (list, show, install, uninstall, stats)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holon.cli.output import emit, money, remark, say, share, show_table
from holon.cli.seat import Agent, Seat, seated
from holon.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from holon.skills.catalog import Catalog, Places
    from holon.skills.descriptors import SkillDescriptor

app = typer.Typer(help="Skills: write, check and test them; install them; see what they cost.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The skill's name.")]
NameOrFolder = Annotated[
    str, typer.Argument(metavar="SKILL", help="A skill's folder, or the name of an agent's skill.")
]
#: The share of prompts for which a skill must come among the first three.
GATE = 0.8


@app.command("new")
@seated(remote=False)
def new_skill(
    seat: Seat,
    name: Name,
    description: Annotated[
        str, typer.Option("--description", "-d", metavar="TEXT", help="What it does, and when to use it.")
    ] = "",
    root: Annotated[
        Path | None, typer.Option("--root", metavar="DIR", help="Where; the default agent's skills if left out.")
    ] = None,
    agent: Agent = None,
) -> None:
    """Make a new skill that passes its own lint.

    \b
    Example:
      holon skills new release-notes -d "Write the notes of a release. Use when a version is tagged."
    """
    from holon.skills.scaffold import scaffold

    if not description.strip():
        raise InvalidInput("a skill needs a description", hint="say what it does and when to use it: -d TEXT")
    folder = scaffold(name, description, root or _own_root(seat, agent))
    seat.answer(
        {"name": name, "folder": str(folder)},
        f"made {folder}: edit its SKILL.md, then 'holon skills lint {folder}' and 'holon skills test {folder}'",
    )


@app.command("lint")
@seated(remote=False)
def lint(seat: Seat, skill: NameOrFolder, agent: Agent = None) -> None:
    """Check a skill: format, links, references, sizes; Python files must parse. Nothing of it is run.

    \b
    Example:
      holon skills lint ./skills/release-notes
    """
    from holon.core.codec import to_plain
    from holon.skills.linting import lint_skill

    folder, _ = _find(seat, skill, agent)
    findings = lint_skill(folder)
    failing = [finding for finding in findings if finding.fails]
    if seat.json:
        emit({"folder": str(folder), "ok": not failing, "findings": to_plain(findings)})
    else:
        for finding in findings:
            say(f"{'error' if finding.fails else 'warning'}: {finding}")
        if not failing:
            say(f"{folder.name} is sound" + (f", with {len(findings)} warnings" if findings else ""))
    if failing:
        raise typer.Exit(1)


@app.command("test")
@seated(remote=False)
def try_prompts(
    seat: Seat,
    skill: NameOrFolder,
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", "-p", metavar="TEXT", help="A prompt that should find it; may be given again."),
    ] = None,
    at_least: Annotated[
        float, typer.Option("--at-least", metavar="SHARE", min=0, max=1, help="Pass if in the first three this often.")
    ] = GATE,
    agent: Agent = None,
) -> None:
    """Test whether a skill will be found, among all skills beside it and the agent's own.

    Tries the prompts in its evals/ folder, or those given, and variants of them: other words, other forms, shorter,
    mistyped. Says how often it comes first, who comes first instead, and which words its description lacks.

    \b
    Example:
      holon skills test release-notes -p "what changed since 1.2?"
    """
    from holon.core.codec import to_plain
    from holon.skills.coverage import cover, example_prompts

    folder, catalog = _find(seat, skill, agent)
    found = _in_catalog(catalog, folder)
    result = cover(found, catalog, prompt or example_prompts(folder))
    passed = result.passes(at_least)
    if seat.json:
        emit({**to_plain(result), "passed": passed})
    else:
        rows = [
            (_place(probe.rank), probe.winner or "", probe.prompt) for probe in result.probes if not probe.is_variant
        ]
        show_table(("place", "first", "prompt"), rows, empty="no prompts")
        say(
            f"{result.skill}: first in {share(result.first)}, among the first three in {share(result.in_three)}"
            f" of {len(result.probes)} prompts and variants, against {result.catalog_size} skills"
        )
        for rival, times in list(result.rivals.items())[:5]:
            say(f"  {rival} comes first instead, {times} times")
        if result.missing_words:
            say(f"  words that its description lacks: {', '.join(result.missing_words)}")
        say("passed" if passed else f"failed: at least {share(at_least)} should find it among the first three")
    if not passed:
        raise typer.Exit(1)


@app.command("list")
@seated()
def list_skills(seat: Seat, agent: Agent = None) -> None:
    """List the skills that an agent sees.

    \b
    Example:
      holon skills list
    """
    client = seat.client()
    found = client.get(client.path(agent, "skills"))
    if seat.json:
        emit(found)
        return
    rows = [(s["name"], s["scope"], _state(s), s["description"][:70]) for s in found["skills"]]
    show_table(("skill", "from", "state", "description"), rows, empty="there are no skills: 'holon skills new NAME'")
    for problem in found["problems"]:
        remark(problem)


@app.command("show")
@seated()
def show_skill(seat: Seat, name: Name, agent: Agent = None) -> None:
    """Show one skill: what it says of itself, its references, where it came from, what is wrong with it.

    \b
    Example:
      holon skills show release-notes
    """
    client = seat.client()
    found = client.get(client.path(agent, "skills"))
    skill = next((each for each in found["skills"] if each["name"] == name), None)
    if skill is None:
        raise NotFound(f"agent {found['agent_id']!r} has no skill {name!r}", hint="see 'holon skills list'")
    if seat.json:
        emit(skill)
        return
    standing = ", ".join(filter(None, (skill["scope"], _state(skill))))
    say(f"{skill['name']} ({standing})\n{skill['description']}\nin {skill['folder']}")
    if skill["references"]:
        say("references: " + ", ".join(skill["references"]))
    if skill["provenance"]:
        commit = skill["provenance"].get("commit")
        say(f"installed from {skill['provenance']['source']}" + (f" at {commit}" if commit else ""))
    for warning in skill["warnings"]:
        remark(warning)


@app.command("install")
@seated()
def install_skill(
    seat: Seat,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder, an archive, or a git URL.")],
    ref: Annotated[str | None, typer.Option("--ref", metavar="REF", help="For git: a branch, tag or commit.")] = None,
    skill: Annotated[str | None, typer.Option("--skill", metavar="NAME", help="Which, if it has several.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of one of this name.")] = False,
    agent: Agent = None,
) -> None:
    """Install a skill for an agent. Nothing of it is run; a git URL is pinned to its commit.

    \b
    Example:
      holon skills install https://example.org/skills.git --skill release-notes --ref v1.2
    """
    client = seat.client()
    if not seat.remote and Path(source).exists():
        source = str(Path(source).absolute())
    body = {"source": source, "ref": ref, "skill": skill, "replace": replace}
    done = client.post(
        client.control_path(agent, "skills", "install"), {k: v for k, v in body.items() if v is not None}
    )
    commit = done["provenance"].get("commit")
    seat.answer(done, f"installed {done['name']} in {done['folder']}" + (f" at {commit}" if commit else ""))
    if not seat.json:
        for warning in done["warnings"]:
            remark(warning)


@app.command("uninstall")
@seated()
def uninstall_skill(
    seat: Seat,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also if it was written here, and not installed.")] = False,
    agent: Agent = None,
) -> None:
    """Take a skill of an agent away.

    \b
    Example:
      holon skills uninstall release-notes
    """
    client = seat.client()
    done = client.post(client.control_path(agent, "skills", "uninstall"), {"name": name, "force": force})
    seat.answer(done, f"{name} is gone")


@app.command("stats")
@seated()
def stats(
    seat: Seat,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=36_500, help="How many days back.")] = 30,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", metavar="AGENT", help="One agent; all of them if left out.")
    ] = None,
) -> None:
    """Show what skills were loaded, what they cost, whether they were used, and which never were.

    \b
    Example:
      holon skills stats --days 7
    """
    found = seat.client().get("/analytics/skills", days=days, agent_id=agent)
    if seat.json:
        emit(found)
        return
    columns = ("skill", "loads", "preloads", "references", "used", "refused", "tokens", "cost")
    rows = [_stat(line) for line in found["lines"]]
    show_table(columns, rows, empty="nothing was loaded", numbers=columns[1:])
    for key, label in _REMARKABLE.items():
        if found[key]:
            say(f"{label}: {', '.join(found[key])}")


_REMARKABLE = {
    "expensive": "half of the cost",
    "often_refused": "often refused",
    "unused": "loaded, but not seen in use",
    "never_used": "never loaded",
}


def _stat(line: dict[str, Any]) -> tuple[str, ...]:
    counts = (line[key] for key in ("loads", "preloads", "references", "used", "refused", "tokens"))
    return (line["name"], *(str(count) for count in counts), money(line["dollars"]))


def _state(skill: dict[str, Any]) -> str:
    active = skill["active"]
    if active is not None:
        return "preloaded" if active["load_reason"] == "always" else str(active["state"])
    return "" if skill["model_visible"] else "people only"


def _place(rank: int) -> str:
    return str(rank) if rank else "-"


def _own_root(seat: Seat, agent: str | None) -> Path:
    from holon.core.skills import SkillScope

    places = _places(seat, agent)
    return places.root(SkillScope.AGENT) or places.agent_home / "skills"


def _places(seat: Seat, agent: str | None) -> Places:
    from holon.skills.catalog import Places

    settings = seat.settings()
    agent_id = agent or settings.default_agent_id
    return Places(
        agent_home=settings.agents_dir / agent_id,
        user_home=settings.user_home if agent_id == settings.default_agent_id else None,
    )


def _find(seat: Seat, skill: str, agent: str | None) -> tuple[Path, Catalog]:
    """The skill's folder, and the catalog that it competes in: what stands beside it, and what the agent has."""
    from holon.core.skills import SkillScope, UnknownSkillError
    from holon.skills.catalog import CatalogReader

    roots = _places(seat, agent).roots()
    if (Path(skill) / "SKILL.md").exists():
        folder = Path(skill).resolve()
        return folder, CatalogReader().read_roots([(SkillScope.AGENT, folder.parent), *roots])
    catalog = CatalogReader().read_roots(roots)
    try:
        return catalog.find(skill).folder, catalog
    except UnknownSkillError as error:
        # Its name may be another one than its folder's, or something is so wrong with it that it is not listed.
        for _, root in roots:
            if Path(skill).name == skill and os.path.lexists(root / skill / "SKILL.md"):
                return root / skill, catalog
        raise NotFound(error.message, hint="see 'holon skills list', or give the skill's folder") from error


def _in_catalog(catalog: Catalog, folder: Path) -> SkillDescriptor:
    found = next((each for each in catalog.skills.values() if each.folder.resolve() == folder.resolve()), None)
    if found is None:
        reasons = [problem for problem in catalog.problems if str(folder) in problem]
        raise InvalidInput(f"{folder} is no skill", hint=reasons[0] if reasons else f"'holon skills lint {folder}'")
    return found
