"""The keeper's duties as rows: a name, a period, and one step. A failed chore is reported and tried at its next time."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from pool.errors import BackendUnavailable
from pool.logs import log

RETRY_S = 1.0
# A chore may be done this share of its pause too early, so that one wake does what is due at about the same time. There is
# one wake a second: more than half of that would bring it forward by a whole wake.
SLACK_SHARE, LEAST_WITH_SLACK_S, MOST_SLACK_S = 0.2, 1.0, 0.5


@dataclass(slots=True)
class Chore:
    """`do(now)` returns seconds until it wants to be called again, or None for its usual `every` (monotonic)."""

    name: str
    every: float
    do: Callable[[float], float | None]
    due_at: float = 0.0
    trouble: str = ""
    is_store_away: bool = False
    _slack_s: float = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self.due_at - self._slack_s

    def attempt(self, now: float) -> bool:
        """Do it once; False when it failed and will be tried again."""
        self._slack_s = 0.0
        try:
            wish = self.do(now)
        except BackendUnavailable as error:
            self.due_at = now + min(self.every, RETRY_S)
            self._report(str(error), is_store_away=True)
            return False
        except Exception as error:  # a fault of ours in one chore must not stop the others, least of all renewal
            self.due_at = now + max(self.every, RETRY_S)
            self._report(f"{type(error).__name__}: {error}", is_store_away=False)
            return False
        pause_s = self.every if wish is None else wish
        self.due_at = now + pause_s
        self._slack_s = min(pause_s * SLACK_SHARE, MOST_SLACK_S) if LEAST_WITH_SLACK_S <= pause_s < inf else 0.0
        self.trouble, self.is_store_away = "", False
        return True

    def hurry(self, at: float = 0.0) -> None:
        """Make it due at the next turn, or at this time if that is sooner than it would be."""
        self.due_at, self._slack_s = min(self.due_at, at), 0.0

    def _report(self, trouble: str, *, is_store_away: bool) -> None:
        """Say it once, not at each try. When the store is away every chore fails: one line a second tells it all."""
        if trouble != self.trouble and is_store_away:
            log.limited("store away", "chore failed", chore=self.name, error=trouble)
        elif trouble != self.trouble:
            log.warning("chore failed", chore=self.name, error=trouble)
        self.trouble, self.is_store_away = trouble, is_store_away
