"""Interrupting a job: its timeout, a cancel, a lost claim. Raised in user code only, never inside our own calls.

An exception that lands between taking and freeing a lock leaves it taken in a living process. So the handler looks
at the stack: below the door to user code and outside our package it raises, else it comes again in a moment.
"""

import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from selectors import BaseSelector, SelectorKey
from types import CodeType, FrameType
from typing import Any

from pool.board.cell import Cell
from pool.board.lanes import NO_ORDER, LaneOrder
from pool.clock import monotonic_now
from pool.errors import JobCancelled, JobClaimLost, JobStopped, JobTimeout
from pool.jobs.job import Claim

COME_AGAIN_S = 0.01
OUR_PACKAGE = str(Path(__file__).parents[1]) + "/"
WITH_LOCKS = ("/logging/__init__.py", "/loguru/", "importlib._bootstrap")


class JobInterrupted(JobStopped):
    """The supervisor is gone and the time to finish is over: the job goes back."""


def enter_user_code(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The door to user code: the interrupts look for this frame."""
    return function(**arguments)


def wait_interruptibly(selector: BaseSelector) -> list[tuple[SelectorKey, int]]:
    """For our own code that stands in for a job's: the one place in it where an interrupt may be raised."""
    return selector.select()


DOOR: CodeType = enter_user_code.__code__
WAIT: CodeType = wait_interruptibly.__code__


class Interrupts:
    """One lane's interrupts. `begin` and `end` enclose user code; `look` is the handler of SIGALRM and SIGURG.

    `set_timer(seconds)` has `look` called after so long (0: not at all); by default it is the process's SIGALRM.
    Where `cancel_task` is set, the job is an asyncio task: it is cancelled, and `why` says for what.
    """

    def __init__(self, order: Cell[LaneOrder], set_timer: Callable[[float], object] | None = None) -> None:
        self._new_order = order.news()
        self._order: LaneOrder | None = None  # the last, if it orders anything
        self._set_timer = set_timer or partial(signal.setitimer, signal.ITIMER_REAL)
        self._claim = 0  # 0: no user code runs
        self._job_id = ""
        self._timeout = 0.0
        self._deadline = 0.0
        self._orphan_deadline = 0.0
        self._delivered = False
        self._thread = threading.get_ident()
        self.cancel_task: Callable[[], object] | None = None
        self.why: JobStopped | None = None
        self._deferred: JobStopped | None = None

    def begin(self, claim: Claim, timeout: float) -> JobStopped | None:
        """User code of this claim is about to run; an order that stands already is returned, not raised."""
        self._claim, self._job_id, self._timeout = claim.claim, claim.job_id, timeout
        self._delivered, self.why, self._deferred = False, None, None
        self._deadline = monotonic_now() + timeout if timeout else 0.0
        if self._deadline or self._orphan_deadline:
            self._arm()
        new = self._new_order()
        return None if new is None and self._order is None else self._ordered(new)

    def end(self) -> None:
        """User code has ended; nothing is raised from here on."""
        self._claim = 0
        self._deferred = self.why = None  # an error holds the frames it went through, and all that they hold
        if self._deadline or self._orphan_deadline:
            self._set_timer(0)

    def limit_orphan(self, seconds: float) -> None:
        """The supervisor is gone: the job in hand, or the next, may run this long and no longer."""
        if not self._orphan_deadline:
            self._orphan_deadline = monotonic_now() + seconds
            self._arm()

    def look(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Raise what is due, if the interrupted code is the user's."""
        if not self._claim or self._delivered:
            return
        due = self._due()
        if due is None:
            self._arm()
        elif self.cancel_task is not None:
            self._delivered, self.why = True, due
            self.cancel_task()
        elif _is_user_code(frame):
            self._delivered, self.why = True, due
            raise due
        else:
            self._deferred = due
            self._set_timer(COME_AGAIN_S)

    def raise_deferred(self) -> None:
        """At the end of each of our calls: what came up while it held our locks."""
        if self._deferred is not None and not self._delivered and threading.get_ident() == self._thread:
            self._delivered, self.why = True, self._deferred
            raise self._deferred

    def raise_lost(self) -> None:
        """The store has said that the claim moved on."""
        self._delivered, self.why = True, JobClaimLost("the job was given to another worker")
        raise self.why

    def raise_cancelled(self) -> None:
        """The store has said that a person cancelled the job."""
        self._delivered, self.why = True, JobCancelled("the job was cancelled while it ran")
        raise self.why

    def _due(self) -> JobStopped | None:
        now = monotonic_now()
        if self._deadline and now >= self._deadline:
            return JobTimeout(f"the job ran longer than its timeout of {self._timeout:g} s")
        if self._orphan_deadline and now >= self._orphan_deadline:
            return JobInterrupted("the supervisor is gone and the time to finish is over")
        return self._ordered(self._new_order())

    def _ordered(self, new: LaneOrder | None) -> JobStopped | None:
        """What the order that stands says of this claim; `new` is one that came since the last look."""
        if new is not None:
            self._order = None if new == NO_ORDER else new
        order = self._order
        if order is None:
            return None
        if order.calls_lost(self._job_id, self._claim):
            return JobClaimLost("the job was given to another worker")
        if order.cancels(self._job_id, self._claim):
            return JobCancelled("the job was cancelled while it ran")
        return None

    def _arm(self) -> None:
        deadlines = [at for at in (self._deadline, self._orphan_deadline) if at]
        if deadlines and self._claim:
            self._set_timer(max(min(deadlines) - monotonic_now(), 1e-4))


def _is_user_code(frame: FrameType | None) -> bool:
    """Whether every frame above the door (or above a wait made for this) is the user's."""
    seen = False
    while frame is not None and frame.f_code is not DOOR:
        if frame.f_code is WAIT:
            return True
        if _holds_locks(frame.f_code) and not _is_the_job_itself(frame):
            return False
        seen, frame = True, frame.f_back
    return seen and frame is not None


def _is_the_job_itself(frame: FrameType) -> bool:
    """A job function may live in our package (the demo's do)."""
    return frame.f_back is not None and frame.f_back.f_code is DOOR


def _holds_locks(code: CodeType) -> bool:
    """Our own calls, logging, imports and finalizers (which swallow what is raised in them)."""
    if code.co_name == "__del__" or code.co_filename.startswith(OUR_PACKAGE):
        return True
    return any(part in code.co_filename for part in WITH_LOCKS)
