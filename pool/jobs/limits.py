"""How many jobs of a type, or of a key, may start per time and run at once: `limit = "100/m"`, `max_running = 5`.

A rate is a bucket: full it holds `count` starts, and it fills evenly, so that after an idle time `count` jobs start at
once and then one each `per / count` seconds. In any window of `per` at most 2 × `count` start.
"""

import re
from dataclasses import dataclass

from pool.errors import InvalidJob

MAX_COUNT = 1_000_000
_PER_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_RATE = re.compile(r"\s*(\d{1,7})\s*/\s*(\d{1,5})?\s*(s|m|h|d)\w*\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` starts per `per_s` seconds; count 0: any rate."""

    count: int = 0
    per_s: float = 0.0


ANY_RATE = Rate()


def parse_rate(text: str, field: str = "limit") -> Rate:
    """From "100/m", "5/s", "1000/h", "3/10s"; empty: any rate. InvalidJob names the field."""
    if text == "":
        return ANY_RATE
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidJob(f'{field} {text!r} is not a rate: write how many per time, such as "100/m", "5/s" or "3/10s"')
    count, per_s = int(found[1]), int(found[2] or 1) * _PER_S[found[3].lower()]
    if not (1 <= count <= MAX_COUNT and per_s > 0):
        raise InvalidJob(f"{field} {text!r} is out of range: use 1 to {MAX_COUNT:,} per second, minute, hour or day")
    return Rate(count, per_s)


@dataclass(slots=True)
class Bucket:
    """A rate's bucket at a moment: how many starts it holds, as of wall time `at`."""

    rate: Rate
    level: float
    at: float

    def fill(self, now: float) -> None:
        """Up to now. A clock that was set back fills nothing, and takes nothing away."""
        gained = max(0.0, now - self.at) * self.rate.count / self.rate.per_s
        self.level, self.at = min(float(self.rate.count), self.level + gained), now

    def take(self) -> bool:
        """One start, if there is one."""
        if self.level < _WHOLE:
            return False
        self.level = max(0.0, self.level - 1)
        return True

    @property
    def opens_at(self) -> float | None:
        """When the next start is there; None: it is there now."""
        if self.level >= _WHOLE:
            return None
        return self.at + (1 - self.level) * self.rate.per_s / self.rate.count


_WHOLE = 1 - 1e-6  # a bucket asked at the very moment it fills must not be a rounding error short
