"""Verbs about the tokens of the HTTP API: `token new|list`. A token is printed once and stored only as its hash."""

import hashlib
import re
import secrets
from enum import StrEnum
from typing import Annotated

import typer

from pool.cli.flags import load
from pool.cli.output import remark, say, say_json, say_table
from pool.cli.store import AsJson, ConfigFile
from pool.errors import ConfigError
from pool.identity import NAME_PATTERN
from pool.jobs.priority import label_of, parse_priority

PREFIX = "jp_"
TOKEN_BYTES = 32

token_app = typer.Typer(help="Tokens of the HTTP API.", no_args_is_help=True)


class Role(StrEnum):
    PRODUCER = "producer"
    WORKER = "worker"
    ADMIN = "admin"


@token_app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who uses it: shown in logs, and the owner of its jobs.")],
    role: Annotated[Role, typer.Option("--role", help="What it may do.")],
    max_priority: Annotated[
        str | None, typer.Option("--max-priority", metavar="P", help="Producers: the highest priority; default medium.")
    ] = None,
    types: Annotated[list[str] | None, typer.Option("--types", metavar="A,B", help="Producers: only these.")] = None,
    queues: Annotated[
        list[str] | None, typer.Option("--queues", metavar="A,B", help="Producers and workers; default: default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token, print it once, and the lines for the configuration. Nothing is stored here."""
    if not re.fullmatch(NAME_PATTERN.pattern, name):
        raise ConfigError(f"token name {name!r}: use letters, digits, dots, dashes and underscores (at most 64)")
    token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    digest = hashlib.sha256(token.encode()).hexdigest()
    if as_json:
        say_json({"name": name, "role": role.value, "token": token, "sha256": digest})
        return
    say(token)
    remark("\nThis is the only time it is shown. For the configuration, then `jobpool reload`:\n")
    remark("\n".join(_entry(name, role, digest, max_priority, _split(types), _split(queues))))


@token_app.command("list")
def list_tokens(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the tokens of the configuration."""
    tokens = load(config).config.tokens
    if as_json:
        say_json([token.model_dump(exclude={"sha256"}) for token in tokens])
        return
    rows = [
        (t.name, t.role, label_of(t.max_priority), ", ".join(t.queues), ", ".join(t.types) or "all") for t in tokens
    ]
    say_table(("name", "role", "max priority", "queues", "types"), rows, empty="no tokens")


def _entry(
    name: str, role: Role, digest: str, max_priority: str | None, types: list[str], queues: list[str]
) -> list[str]:
    lines = ["[[tokens]]", f'name = "{name}"', f'role = "{role.value}"', f'sha256 = "{digest}"']
    if max_priority is not None:
        lines.append(f"max_priority = {parse_priority(max_priority)}")
    lines += [f"{key} = {_toml(values)}" for key, values in (("types", types), ("queues", queues)) if values]
    return lines


def _toml(values: list[str]) -> str:
    import json

    return json.dumps(values, ensure_ascii=False)


def _split(given: list[str] | None) -> list[str]:
    return [part.strip() for text in given or () for part in text.split(",") if part.strip()]
