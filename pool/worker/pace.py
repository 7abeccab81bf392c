"""How many jobs a worker claims ahead of their start: none, unless its jobs are shorter than the call that fetches them.

Pure. A type is short when nearly all its recent jobs were; one that is new is not. What is claimed ahead shall take a few
milliseconds together, for all of it waits for the job before it.
"""

SHORT_S = 0.002
LONG_SHARE = 0.06  # a process that lost its processor for a moment makes a short job look long now and then
LONGEST_WAIT_S = 0.005
LONG_S = 1.0
KNOWN_AFTER = 16
BUSY_AFTER_CALLS = 3  # a lone short job now and then is no reason to wake the keeper
FIRST_AHEAD, GROWTH = 3, 8
WATCHED_WITHIN_S, WATCHED_WITHIN_CALLS, WATCHED_WITHIN_AT_MOST_S = 0.05, 4, 1.0
RECENT = 32
MANY_TYPES = 1000


class TypeTimes:
    """What is known of one job type: how many ran, how long the short ones took, how many of the recent were long."""

    __slots__ = ("count", "long_share", "mean_s")

    def __init__(self) -> None:
        self.count = 0
        self.mean_s = self.long_share = 0.0

    def add(self, run_s: float) -> None:
        self.count += 1
        is_long = run_s > SHORT_S
        weight = 1 / min(self.count, RECENT)
        self.long_share += (is_long - self.long_share) * weight
        if not is_long:
            self.mean_s += (run_s - self.mean_s) * weight

    @property
    def is_short(self) -> bool:
        return self.count >= KNOWN_AFTER and self.long_share < LONG_SHARE


class Pace:
    """`ahead`: how many to ask for with the next call, above the one that can start; at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._types: dict[str, TypeTimes] = {}
        self._call_s = 0.0
        self._fruitful_calls = 0
        self._full_so_far = 0  # the most that were asked for ahead and came
        self.ahead = 0

    @property
    def is_busy(self) -> bool:
        """Whether there is so much to do that the keeper may be woken for it."""
        return self._fruitful_calls >= BUSY_AFTER_CALLS

    def is_watched(self, unseen_s: float) -> bool:
        """Whether a keeper that last looked so long ago will look again soon: where calls take long, so do those that it
        makes between two looks."""
        within_s = max(WATCHED_WITHIN_S, WATCHED_WITHIN_CALLS * self._call_s)
        return unseen_s < min(within_s, WATCHED_WITHIN_AT_MOST_S)

    def rest(self) -> None:
        """Nothing is left to do: begin anew with a single job, and if more follow go on as before."""
        self.ahead = self._fruitful_calls = 0

    def ran(self, job_type: str, run_s: float) -> None:
        """A job ended."""
        times = self._types.get(job_type) or self._meet(job_type)
        times.add(run_s)
        if not times.is_short:
            self.ahead = self._full_so_far = 0

    def is_short(self, job_type: str) -> bool:
        """Whether others may wait for a job of this type."""
        times = self._types.get(job_type)
        return times is not None and times.is_short

    def called(self, call_s: float, handed: list[str], asked: int) -> None:
        """A call took so long and handed out jobs of these types, `asked` of them ahead: ask for more next time, or for fewer."""
        self._call_s += (call_s - self._call_s) / 8 if self._call_s else call_s
        self._fruitful_calls = self._fruitful_calls + 1 if handed else 0
        mean_s = max(map(self._expected_s, handed), default=LONG_S)
        if len(handed) <= asked:  # fewer than asked for: the line is short, or others are in want
            self.ahead = asked // GROWTH
        elif mean_s >= self._call_s:
            self.ahead = 0
        elif asked == self.ahead:
            self._full_so_far = max(self._full_so_far, asked)
            more = max(GROWTH * asked + FIRST_AHEAD, self._full_so_far)
            self.ahead = min(self._most, more, int(LONGEST_WAIT_S / max(mean_s, 1e-6)))

    def _expected_s(self, job_type: str) -> float:
        times = self._types.get(job_type)
        return times.mean_s if times is not None and times.is_short else LONG_S

    def _meet(self, job_type: str) -> TypeTimes:
        if len(self._types) > MANY_TYPES:
            self._types.clear()
        times = self._types[job_type] = TypeTimes()
        return times
