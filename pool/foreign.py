"""Types that this program knows by name only, as running pools publish them in the store."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pool.clock import monotonic_now
from pool.errors import UnknownType
from pool.jobs import checks
from pool.jobs.checks import Options
from pool.jobs.job import NewJob
from pool.jobs.published import PublishedType, PublishedTypes
from pool.jobs.registry import registry

FRESH_S = 10.0
ASK_AGAIN_S = 1.0


class ForeignTypes:
    """Asks the store at most every 10 s; for a name it does not know, every second (it may have been deployed just now)."""

    def __init__(self, ask: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self._ask = ask
        self._types, self._read_at = PublishedTypes(()), -FRESH_S

    def get(self, name: str) -> PublishedType | None:
        """The type, if a pool publishes it."""
        found, age = self._types.get(name), monotonic_now() - self._read_at
        if age >= FRESH_S or (found is None and age >= ASK_AGAIN_S):
            self._types, self._read_at = PublishedTypes(self._ask()), monotonic_now()
            found = self._types.get(name)
        return found

    def draft(self, name: str, payload: dict[str, Any], options: Options, max_payload: int) -> NewJob:
        """A job of this type, checked by its published schema. When nothing at all is known, any name is taken."""
        text = checks.payload_text(payload)
        checks.checked_payload(text, max_payload)
        found = self.get(name)
        if found is None:
            self._refuse_unknown(name)
            return checks.new_job(name, text, registry.defaults.terms, options, max_payload=max_payload)
        found.check(payload)
        if options.get("unique_key") is None:
            options = {**options, "unique_key": found.unique_key_of(payload)}
        if options.get("limit_key") is None:
            options = {**options, "limit_key": found.limit_key_of(payload)}
        return checks.new_job(found.name, text, found.terms, options, max_payload=max_payload)

    def _refuse_unknown(self, name: str) -> None:
        known = {*registry.known(), *self._types.known()}
        if known:
            raise UnknownType(name, known)
