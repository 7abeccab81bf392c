"""Every verb says what it does, and every option and argument of it has its own words."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from pool.cli import light
from pool.cli.app import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        yield " ".join((*path, name)), child
        yield from commands(child, (*path, name))


TYPED = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("verb", TYPED)
def test_a_verb_explains_itself_and_each_of_its_words(verb: str) -> None:
    command = TYPED[verb]
    silent = [
        parameter.name
        for parameter in command.params
        if parameter.name != "help" and not getattr(parameter, "help", "")
    ]

    assert command.help and command.help[0].isupper() and command.help.rstrip("`").endswith((".", "`discarded`"))
    assert silent == []


@pytest.mark.parametrize("verb", light.VERBS)
def test_a_verb_of_the_quick_ones_does_too(verb: str) -> None:
    assert light.VERBS[verb].help.endswith(".")
    assert [action.dest for action in light.parser_of(verb)._actions if not action.help] == []
