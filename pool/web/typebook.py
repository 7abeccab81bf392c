"""The allowlist of job types: what pools publish in the store, `[[types]]` and `[[commands]]` of the configuration.

Read anew about each second. When the pools that published them are gone, what was last seen stays: a deploy must not
turn producers away. Before anything was ever seen, types that the configuration does not name are refused as "not
known yet" (503), never let in.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pool.backends.contract import PoolState
from pool.errors import UnknownType
from pool.jobs.checks import Terms
from pool.jobs.published import PublishedType, PublishedTypes
from pool.jobs.registry import defaults_from
from pool.settings import Config
from pool.tables import CommandSection, TypeSection
from pool.web.auth import Caller
from pool.web.problems import AGAIN_SOON_S, Problem

Facts = dict[str, Any]


class TypeBook:
    """Every job type that may be enqueued, by name, and which of its fields are never shown."""

    def __init__(self, config: Config) -> None:
        self._declared = _declared(config)
        self._published: Facts = {}
        self._remembered: dict[str, frozenset[str]] = {}
        self._has_pools = bool(config.app.modules)
        self._read({})

    def learn(self, pools: Iterable[PoolState], redacted: str | None = None) -> None:
        """Take over what pools publish now; nothing at all changes nothing. `redacted`: what the store remembers of
        fields that are never shown (JSON), also of types that no pool has any more."""
        self._remembered = {name: frozenset(fields) for name, fields in json.loads(redacted or "{}").items()}
        published: Facts = {}
        for pool in pools:
            types = pool.facts.get("types")
            published |= types if isinstance(types, dict) else {}
        if published and published != self._published:
            self._read(published)

    def _read(self, published: Facts) -> None:
        self._published = published
        said = {**published, **self._declared}
        self._types = PublishedTypes([{"types": said}])
        self._fits: dict[str, Callable[[dict[str, Any]], bool]] = {}
        self._redacted = {name: _names(facts) for name, facts in said.items()}

    def get(self, name: str, caller: Caller) -> PublishedType:
        """The type that a producer means; UnknownType names only those that it may use."""
        found = self._types.get(name)
        if found is not None:
            _require_allowed(found, caller)
            return found
        if not self._published and self._has_pools:
            detail = f"no pool has published its job types yet, so {name!r} cannot be judged; try again"
            raise Problem(503, "types-unknown", detail, headers={"Retry-After": str(AGAIN_SOON_S)})
        raise UnknownType(name, (known.name for known in self.all(caller)))

    def all(self, caller: Caller) -> list[PublishedType]:
        """The types this caller may know of, by name."""
        found = (self._types.get(name) for name in self._types.known())
        return [known for known in found if known is not None and caller.may_use_type(known.name)]

    def check(self, known: PublishedType, payload: Mapping[str, Any]) -> None:
        """InvalidPayload unless it fits the type's schema. Compiled once; what does not fit is explained by the type."""
        if not known.schema:
            return
        if known.name not in self._fits:
            self._fits[known.name] = _compiled(known)
        if not self._fits[known.name](dict(payload)):
            known.check(dict(payload))

    def redacted(self, name: str) -> frozenset[str]:
        """Payload fields of this type that are never shown."""
        return self._redacted.get(name, frozenset()) | self._remembered.get(name, frozenset())


def _compiled(known: PublishedType) -> Callable[[dict[str, Any]], bool]:
    import jsonschema_rs

    try:
        fits: Callable[[dict[str, Any]], bool] = jsonschema_rs.validator_for(dict(known.schema)).is_valid
    except (ValueError, jsonschema_rs.ReferencingError):
        return lambda payload: True  # a schema we cannot read refuses nothing; the worker checks again
    return fits


def _require_allowed(found: PublishedType, caller: Caller) -> None:
    if not caller.may_use_type(found.name):
        raise Problem(403, "type-not-allowed", f"token {caller.name!r} may not enqueue jobs of type {found.name!r}")


def _names(facts: Any) -> frozenset[str]:
    redact = facts.get("redact") if isinstance(facts, Mapping) else None
    return frozenset(str(name) for name in redact) if isinstance(redact, list) else frozenset()


def _declared(config: Config) -> Facts:
    """The types that the configuration itself declares, as a pool would publish them."""
    terms = defaults_from(config.jobs).terms
    return {
        **{entry.name: _facts(terms, entry) | {"schema": entry.payload_schema} for entry in config.types},
        **{entry.type: _facts(terms, entry) for entry in config.commands},
    }


def _facts(terms: Terms, entry: TypeSection | CommandSection) -> Facts:
    """What the entry says, and the defaults of [jobs] for what it does not."""
    own = {name: getattr(entry, name) for name in Terms.__annotations__ if hasattr(entry, name)}
    return {name: getattr(terms, name) for name in Terms.__annotations__} | own | {"redact": entry.redact}
