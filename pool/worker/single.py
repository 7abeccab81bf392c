"""The lane of a worker that claims nothing ahead: what a `Sheaf` does, for one job, of which nobody is told."""

from collections.abc import Callable

from pool.backends.contract import Want
from pool.jobs.job import Claim
from pool.seat import Seat
from pool.worker.lane import Lane


class Single:
    """Stands in for a `Sheaf` that has one lane for ever. Apart from it because it is gone through for each job."""

    def __init__(self, seat: Seat, lane: Lane) -> None:
        self.running = self._lane = lane
        self._claim: Claim | None = None
        seat.record.sheaf.write(0.0, 1, 0)

    def exchange(self, want: Want | None) -> bool:
        """Hand in what has ended and take what comes next; whether anything came."""
        self._claim = self._lane.exchange(want)
        return self._claim is not None

    def carry_out(self, want: Want, put_right: Callable[[bool], bool]) -> None:
        """Run what came. `put_right` is told afterwards that no more is here."""
        claim, self._claim = self._claim, None
        if claim is not None and self._lane.is_old(claim):
            claim = self._lane.made_sure(claim, want)
        if claim is not None:
            self._lane.carry_out(claim)
        put_right(False)

    def keep_on_disk(self) -> None:
        """The store is away and we must go."""
        self._lane.keep_on_disk()

    def rest(self) -> None:
        """Nothing was claimed ahead, nothing is wished for."""

    def no_more(self) -> None:
        """As ever."""
