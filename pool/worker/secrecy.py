"""The values of payload fields that a type declares secret, out of everything that its jobs print, raise or report."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pool.jobs.documents import HIDDEN, as_value
from pool.jobs.job import Settlement

SHORTEST = 4  # a shorter value is found in every text: masking it would tell more than it hides


class Secrets:
    """What must not be read. `mask` knows each value as text, as JSON and as Python shows it."""

    __slots__ = ("_forms",)

    def __init__(self, payload: str, fields: Iterable[str]) -> None:
        document = as_value(payload)
        given = document if isinstance(document, dict) else {}
        values = {leaf for field in fields for leaf in _leaves(given.get(field))}
        self._forms = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)

    def mask(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text


def masked(settlement: Settlement, secrets: Secrets) -> Settlement:
    """The settlement with the cause's texts and the output masked. The result is what the job returns: its own choice."""
    cause = settlement.cause
    if cause is not None:
        cause = replace(cause, text=secrets.mask(cause.text or ""), stack=secrets.mask(cause.stack or ""))
    return replace(settlement, cause=cause, output=secrets.mask(settlement.output))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield value if isinstance(value, str) else json.dumps(value)


def _forms(value: str) -> set[str]:
    forms = {
        value,
        value.strip(),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    }
    return {form for form in forms if len(form) >= SHORTEST}
