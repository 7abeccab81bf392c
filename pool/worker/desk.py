"""Where a lane hands in what it has done and takes what is next: numbered requests, repeated until answered."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from pool.backends.contract import Answer, Want, Work
from pool.clock import boottime_now
from pool.errors import BackendUnavailable, RequestRefused
from pool.identity import LaneId
from pool.jobs.job import Settlement
from pool.logs import log
from pool.worker.mailbox import Mailbox
from pool.worker.presence import Presence

T = TypeVar("T")
Who = TypeVar("Who")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0


class GaveUp(Exception):
    """The store is away and we were told to stop; what we hold has not been handed in."""


class Desk:
    """One lane's dealings with the store. A worker never dies of a store that is away: it asks again.

    `asked_at` is CLOCK_BOOTTIME before the first sending of the last request: an answer repeated after an outage may
    be old however fresh its arrival.
    """

    def __init__(
        self,
        backend: Work,
        lane: LaneId,
        presence: Presence,
        mailbox: Mailbox,
    ) -> None:
        self.backend, self.lane = backend, lane
        self.request = 0
        self.asked_at = 0.0
        self._presence, self._mailbox = presence, mailbox

    def follow(self, lead: "Desk") -> None:
        """The lead has called for this lane too: its numbers are ours."""
        self.request, self.asked_at = lead.request, lead.asked_at

    def exchange(self, settlement: Settlement | None, want: Want | None) -> Answer:
        """Settle and claim in one step; LaneBarred when we are declared dead, GaveUp when told to stop meanwhile."""
        self._number()
        try:
            return self.backend.exchange(self.lane, self.request, settlement=settlement, want=want)
        except (BackendUnavailable, RequestRefused) as error:
            return self._insist(partial(self.backend.exchange, settlement=settlement, want=want), self.lane, error)

    def exchange_many(
        self, lanes: Sequence[LaneId], words: Sequence[Settlement | None], want: Want | None, ahead: int, leave: int
    ) -> list[Answer]:
        """The same for several lanes, of which this one leads."""
        call = partial(self.backend.exchange_many, settlements=words, want=want, ahead=ahead, leave=leave)
        self._number()
        try:
            return call(lanes, self.request)
        except (BackendUnavailable, RequestRefused) as error:
            return self._insist(call, lanes, error)

    def _number(self) -> None:
        """A new request."""
        self.request += 1
        self.asked_at = boottime_now()
        self._presence.enter_store()

    def _insist(self, call: Callable[[Who, int], T], who: Who, error: Exception) -> T:
        """The same request, until it is answered or we are told to stop."""
        failures = 0
        while not self._mailbox.is_stopping:
            failures += 1
            self._complain(error)
            self._pause(failures)
            if isinstance(error, RequestRefused):
                self.request += 1
            try:
                self._presence.enter_store()
                return call(who, self.request)
            except (BackendUnavailable, RequestRefused) as again:
                error = again
        raise GaveUp from error

    def _pause(self, failures: int) -> None:
        """Jittered and growing, with a sign of life; a signal ends it early."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        self._presence.touch()
        self._mailbox.sleep(longest * random.uniform(0.5, 1.0))
        self._presence.touch()

    def _complain(self, error: Exception) -> None:
        """At most a line a second, however often it fails."""
        log.limited("desk", "the store does not answer; asking again", lane=str(self.lane), error=str(error))
