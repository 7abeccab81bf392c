"""The keeper's duties as rows: a name, a period, and one step. A failed chore is reported and tried at its next time."""

from collections.abc import Callable
from dataclasses import dataclass

from pool.errors import BackendUnavailable
from pool.logs import log

RETRY_S = 1.0


@dataclass(slots=True)
class Chore:
    """`do(now)` returns seconds until it wants to be called again, or None for its usual `every` (monotonic)."""

    name: str
    every: float
    do: Callable[[float], float | None]
    due_at: float = 0.0
    trouble: str = ""
    is_store_away: bool = False

    def is_due(self, now: float) -> bool:
        return now >= self.due_at

    def attempt(self, now: float) -> bool:
        """Do it once; False when it failed and will be tried again."""
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
        self.due_at = now + (self.every if wish is None else wish)
        self.trouble, self.is_store_away = "", False
        return True

    def hurry(self) -> None:
        """Make it due at the next turn."""
        self.due_at = 0.0

    def _report(self, trouble: str, *, is_store_away: bool) -> None:
        """Say it once, not at each try. When the store is away every chore fails: one line a second tells it all."""
        if trouble != self.trouble and is_store_away:
            log.limited("store away", "chore failed", chore=self.name, error=trouble)
        elif trouble != self.trouble:
            log.warning("chore failed", chore=self.name, error=trouble)
        self.trouble, self.is_store_away = trouble, is_store_away
