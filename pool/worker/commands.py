"""Job types that are executables: `[[commands]]`.

The payload goes in as JSON on standard input; exit 0 completes the job (JSON on standard output is its result), 75
(EX_TEMPFAIL of sysexits.h) asks for a retry, anything else is an error with the end of standard error.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pool.errors import InvalidPayload
from pool.jobs.policy import Policy
from pool.jobs.registry import JobType, Registry
from pool.settings import CommandSection, Config
from pool.worker.context import current
from pool.worker.programs import run_program

ASKS_FOR_RETRY = 75
ERROR_TEXT = 2000
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


class CommandFailed(Exception):
    """The program ended with an error."""


class CommandAsksForRetry(CommandFailed):
    """The program ended with 75: not now."""


@dataclass(frozen=True, kw_only=True)
class CommandType(JobType):
    """A job type whose function runs a program. A field named in `argv` must be in the payload."""

    argv: tuple[str, ...]

    def arguments(self, payload: str) -> dict[str, Any]:
        arguments = super().arguments(payload)
        wanted = {name for part in self.argv for name in _FIELD.findall(part)}
        problems = dict.fromkeys(sorted(wanted - arguments.keys()), "missing; the command's argv names it")
        problems |= {
            n: "has a NUL, which no argument can" for n in wanted & arguments.keys() if "\0" in _text(arguments[n])
        }
        if problems:
            raise InvalidPayload(self.name, problems)
        return arguments


def register_commands(config: Config, registry: Registry) -> None:
    """Make each `[[commands]]` entry a job type."""
    for section in config.commands:
        registry.add(command_type(section, config.app.path), frozenset({"queue", "priority", "max_kills", "backoff"}))


def command_type(section: CommandSection, app_path: str) -> CommandType:
    """The entry as a job type; its program runs in `cwd`, by default in the app's folder."""
    folder = os.path.abspath(section.cwd or app_path)  # noqa: PTH100  # a text for Popen

    def run(**payload: Any) -> Any:
        return _run(section, folder, payload)

    run.__qualname__ = run.__name__ = f"command {section.type}"
    return CommandType(
        name=section.type,
        function=run,
        argv=tuple(section.argv),
        timeout=section.timeout,
        max_retries=section.max_retries,
        redact=tuple(section.redact),
        limit=section.limit,
        max_running=section.max_running,
        policy=Policy(),
    )


def filled_in(template: str, payload: Mapping[str, Any]) -> str:
    """One argument: each `{field}` replaced by the payload's value; other braces stay. Never a shell."""
    return _FIELD.sub(lambda found: _text(payload[found[1]]), template)


def _run(section: CommandSection, folder: str, payload: dict[str, Any]) -> Any:
    argv = [filled_in(part, payload) for part in section.argv]
    stdin = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    ended = run_program(argv, stdin, folder, _environment(section))
    if ended.code == 0:
        return _result_of(ended.stdout)
    kind = CommandAsksForRetry if ended.code == ASKS_FOR_RETRY else CommandFailed
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    end = ended.stderr_end.strip()
    raise kind(f"{argv[0]}: {how}" + (f": {end[-ERROR_TEXT:]}" if end else ""))


def _environment(section: CommandSection) -> dict[str, str]:
    job = current()
    facts = {"JOBPOOL_JOB_ID": job.id, "JOBPOOL_JOB_TYPE": job.type, "JOBPOOL_ATTEMPT": str(job.attempt)}
    return {**os.environ, **facts, **section.env}


def _result_of(stdout: bytes) -> Any:
    """JSON is the result; any other text was output for people."""
    try:
        return json.loads(stdout, parse_constant=_refuse)
    except (ValueError, RecursionError):
        if stdout.strip():
            print(stdout.decode("utf-8", "backslashreplace"), end="")  # noqa: T201  # into the job's transcript
        return None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
