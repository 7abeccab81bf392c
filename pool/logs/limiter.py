"""Trouble that repeats must not fill the disk."""

_MOST_KEYS = 1000


class Limiter:
    """At most one line per key and time; counts what it held back. Pure: time comes in."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}

    def admit(self, key: str, every_s: float, monotonic_now: float) -> int | None:
        """None: keep this line back. A number: write it, and so many were kept back since the last one."""
        last_at, kept_back = self._last.get(key, (float("-inf"), 0))
        if monotonic_now - last_at < every_s:
            self._last[key] = (last_at, kept_back + 1)
            return None
        if len(self._last) >= _MOST_KEYS:
            self._last.clear()
        self._last[key] = (monotonic_now, 0)
        return kept_back
