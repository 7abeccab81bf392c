"""`jobpool doctor`: everything that could go wrong later, looked at now, each with the line to type or to write."""

import dataclasses
from typing import Annotated

import typer

from pool.cli.doctor_facts import gather
from pool.cli.doctor_rules import examine
from pool.cli.doctor_unit import Finding, Level
from pool.cli.failures import NEGATIVE, OK
from pool.cli.flags import load
from pool.cli.output import is_terminal, printable, say, say_json
from pool.cli.store import AsJson, BackendUrl, ConfigFile

STYLES: dict[Level, str] = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


def doctor(
    unit: Annotated[
        str, typer.Option("--unit", metavar="NAME", help="The unit to check, or its file.")
    ] = "jobpool.service",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings make the answer negative too.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> int:
    """Check unit, limits, store, clocks, permissions and versions against the configuration; print the remedies."""
    findings = examine(gather(load(config, backend), unit))
    if as_json:
        say_json([dataclasses.asdict(finding) for finding in findings])
    else:
        _say_findings(findings)
    bad = ("error", "warning") if strict else ("error",)
    return NEGATIVE if any(finding.level in bad for finding in findings) else OK


def _say_findings(findings: list[Finding]) -> None:
    """The worst last, where the eye is when the screen has scrolled."""
    rank = list(STYLES)
    for finding in sorted(findings, key=lambda finding: rank.index(finding.level)):
        _say_level(finding.level, f"{finding.check}: {finding.says}")
        if finding.remedy:
            say(f"         → {finding.remedy}")
    counts = {level: sum(finding.level == level for finding in findings) for level in ("error", "warning")}
    say()
    say("all is well" if not any(counts.values()) else f"{counts['error']} errors, {counts['warning']} warnings")


def _say_level(level: Level, text: str) -> None:
    """The level in its colour on a terminal that wants one."""
    if not is_terminal():
        say(f"{level:<8} {text}")
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text.assemble((f"{level:<8} ", STYLES[level]), printable(text)), soft_wrap=True)
