"""When the supervisor itself was away: stopped by somebody, or asleep with the machine. Pure."""

# A turn that comes so late means that we were stopped; a busy machine delays by less.
LONGEST_DELAY_S = 2.0


class Absence:
    """CLOCK_MONOTONIC shows when we were stopped, CLOCK_BOOTTIME when the machine slept."""

    def __init__(self, monotonic: float, boottime: float) -> None:
        self._suspended_s = boottime - monotonic

    def length(self, planned: float, monotonic: float, boottime: float) -> float:
        """Seconds that we were away beyond the `planned` (monotonic) time of this turn; 0.0 if we were not."""
        suspended_s = boottime - monotonic
        away_s = max(monotonic - planned, suspended_s - self._suspended_s)
        self._suspended_s = suspended_s
        return away_s if away_s > LONGEST_DELAY_S else 0.0
