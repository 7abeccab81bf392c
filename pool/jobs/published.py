"""Job types as pools publish them in the store: what a client knows of a type whose function it does not have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pool.errors import InvalidPayload
from pool.jobs.checks import Terms
from pool.jobs.registry import made_key

MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class PublishedType:
    """A type's name, its policy for new jobs, and the JSON Schema of its payload (empty: anything)."""

    name: str
    terms: Terms
    unique_key: str | None = None
    aliases: tuple[str, ...] = ()
    schema: Mapping[str, Any] = field(default_factory=dict)
    limit_key: str | None = None

    def check(self, payload: dict[str, Any]) -> None:
        """InvalidPayload names the fields that do not fit the published schema."""
        import jsonschema_rs

        try:  # values are masked: they may be secret
            found = list(jsonschema_rs.validator_for(dict(self.schema), mask="the value").iter_errors(payload))
        except (ValueError, jsonschema_rs.ReferencingError):
            return  # a schema we cannot read refuses nothing; the worker checks again
        problems: dict[str, str] = {}
        for error in found[:MAX_PROBLEMS]:
            place, problem = _place(error.instance_path), str(error.message)[:200]
            problems[place] = f"{problems[place]}, {problem}" if place in problems else problem
        if problems:
            raise InvalidPayload(self.name, problems)

    def unique_key_of(self, payload: Mapping[str, Any]) -> str | None:
        """The template filled in with the payload and the schema's defaults."""
        return self._key_of(payload, self.unique_key, "unique_key")

    def limit_key_of(self, payload: Mapping[str, Any]) -> str | None:
        """What the job is counted under; None: under the type's name."""
        return self._key_of(payload, self.limit_key, "limit_key")

    def _key_of(self, payload: Mapping[str, Any], key: str | None, what: str) -> str | None:
        if key is None:
            return None
        properties = self.schema.get("properties", {})
        defaults = {name: p["default"] for name, p in properties.items() if isinstance(p, dict) and "default" in p}
        return made_key(self.name, key, {**defaults, **payload}, what)


class PublishedTypes:
    """The types of all pools that beat; found by full name, alias or unambiguous bare name."""

    def __init__(self, facts_of_pools: Iterable[Mapping[str, Any]]) -> None:
        self._types: dict[str, PublishedType] = {}
        for facts in facts_of_pools:
            types = facts.get("types")
            for name, said in types.items() if isinstance(types, dict) else ():
                self._types[name] = _read(name, said if isinstance(said, dict) else {})

    def known(self) -> list[str]:
        """Full names, sorted."""
        return sorted(self._types)

    def get(self, name: str) -> PublishedType | None:
        """The type a caller means by this name; None when it is not known or not clear."""
        if name in self._types:
            return self._types[name]
        by_alias = [t for t in self._types.values() if name in t.aliases]
        found = by_alias or [t for t in self._types.values() if t.name.rpartition(".")[2] == name]
        return found[0] if len(found) == 1 else None


def _read(name: str, said: Mapping[str, Any]) -> PublishedType:
    """Another version may have written it: what is missing or odd is left at its default."""
    known = {key: said[key] for key in Terms.__annotations__ if isinstance(said.get(key), int | float | str)}
    schema, aliases = said.get("schema"), said.get("aliases")
    return PublishedType(
        name,
        Terms(**known),
        said["unique_key"] if isinstance(said.get("unique_key"), str) else None,
        tuple(aliases) if isinstance(aliases, list) else (),
        schema if isinstance(schema, dict) else {},
        said["limit_key"] if isinstance(said.get("limit_key"), str) else None,
    )


def _place(path: Iterable[str | int]) -> str:
    return ".".join(str(part) for part in path) or "payload"
