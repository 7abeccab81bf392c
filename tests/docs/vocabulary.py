"""What the command line understands: every verb with its options, as the code has them."""

import shlex
from typing import Any

import typer

from pool.cli import light
from pool.cli.app import app

HELP = {"--help", "-h"}


def verbs() -> dict[tuple[str, ...], set[str]]:
    """Verb → its options: {("dead", "retry"): {"--all", …}}."""
    found: dict[tuple[str, ...], set[str]] = {
        (): {"--version", "-V", "--install-completion", "--show-completion", *HELP}
    }
    _collect(typer.main.get_command(app), (), found)
    for name in light.VERBS:
        found[(name,)] = {option for action in light.options_of(name) for option in action.option_strings}
    return found


def wrong_words(command: str, known: dict[tuple[str, ...], set[str]]) -> list[str]:
    """What of a spoken `jobpool …` the command line would not understand."""
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        return [f"cannot be split into words: {command}"]
    verb: tuple[str, ...] = ()
    while words and (*verb, words[0]) in known:
        verb = (*verb, words.pop(0))
    if not verb and words and not words[0].startswith("-") and words[0].isalpha() and words[0].islower():
        return [f"no verb {words[0]!r}: {command}"]
    options = {word.split("=")[0].rstrip(",:.") for word in words if word.startswith("-") and len(word) > 1}
    return [f"{' '.join(verb)} has no {option}: {command}" for option in sorted(options - known[verb] - HELP)]


def _collect(command: Any, path: tuple[str, ...], found: dict[tuple[str, ...], set[str]]) -> None:
    for name, child in getattr(command, "commands", {}).items():
        options = {word for parameter in child.params for word in (*parameter.opts, *parameter.secondary_opts)}
        found[(*path, name)] = {word for word in options if word.startswith("-")}
        _collect(child, (*path, name), found)
