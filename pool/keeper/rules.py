"""What the configuration says of the whole store: what waiting is worth, and which payload fields are never shown."""

import json
from typing import Any

from pool.backends.contract import Backend
from pool.jobs.documents import REDACT_SETTING, hidden_fields
from pool.keeper.facts import Facts
from pool.logs import log
from pool.settings import Config


class StoreRules:
    """Kept in the store, where all pools and clients find them, also when no pool runs. The newest load holds."""

    def __init__(self, config: Config, backend: Backend, facts: Facts) -> None:
        self._ageing_s, self._backend, self._facts = config.jobs.ageing, backend, facts
        self._is_ageing_set = False
        self._told: dict[str, Any] = {}
        self._known: dict[str, Any] | None = None

    def apply(self, now: float) -> None:
        """Tell the store what it does not know yet; between changes this costs it nothing."""
        if not self._is_ageing_set:
            self._set_ageing()
        known = self._facts.known_types()
        if known is self._known:
            return
        hidden = {name: sorted(fields) for name, fields in hidden_fields(known).items()}
        if hidden != self._told:
            self._remember(hidden)
        self._known = known

    def _set_ageing(self) -> None:
        before = self._backend.ageing()
        if before != self._ageing_s:
            self._backend.set_ageing(self._ageing_s)
            log.info("ageing changed", before_s=before, now_s=self._ageing_s)
        self._is_ageing_set = True

    def _remember(self, hidden: dict[str, list[str]]) -> None:
        """Types that are gone are remembered too: their jobs are still there. A type that hides nothing any more is shown."""
        known = json.loads(self._backend.setting(REDACT_SETTING) or "{}")
        merged = {**known, **hidden}
        if merged != known:
            self._backend.set_setting(REDACT_SETTING, json.dumps(merged, sort_keys=True))
        self._told = hidden
