"""When the supervisor itself was away: stopped by somebody, or asleep with the machine. Pure."""

# Between two checks a turn takes milliseconds; so much more means that we were stopped. A busy machine delays by less.
LONGEST_DELAY_S = 2.0


class Absence:
    """CLOCK_MONOTONIC shows when we were stopped, CLOCK_BOOTTIME when the machine slept.

    Asked before and after each sleep and at the start of each turn, so that no moment lies outside its questions.
    """

    def __init__(self, monotonic: float, boottime: float) -> None:
        self._last_seen = monotonic
        self._suspended_s = boottime - monotonic

    def length(self, monotonic: float, boottime: float, *, slept_until: float = 0.0) -> float:
        """Seconds that we were away since the last question, a sleep until `slept_until` (monotonic) left out; else 0.0."""
        suspended_s = boottime - monotonic
        away_s = max(monotonic - max(self._last_seen, slept_until), suspended_s - self._suspended_s)
        self._last_seen, self._suspended_s = monotonic, suspended_s
        return away_s if away_s > LONGEST_DELAY_S else 0.0
