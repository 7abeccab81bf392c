"""Jobs brought into a state by the moves a user or worker would make, and a picture of a whole store to compare."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pool.backends.contract import Backend, JobFilter
from pool.jobs.job import Job, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import LATER_SECONDS, Hand, failure, new_job

COUNTERS = ("enqueued", "completed", "retried", "failed", "cancelled", "worker_deaths", "delayed")


@dataclass
class Made:
    """A job brought into a state, and the lane that last held it (or never held anything)."""

    job_id: str
    hand: Hand
    last_claim: int


def _waiting(hand: Hand, job_id: str) -> None:
    """Enqueued and due: pending."""


def _delayed(hand: Hand, job_id: str) -> None:
    """Enqueued for later: scheduled (see `make`)."""


def _returned(hand: Hand, job_id: str) -> None:
    hand.take()
    hand.give_back()


def _retried(hand: Hand, job_id: str) -> None:
    hand.take()
    hand.retry(delay=LATER_SECONDS)


def _held(hand: Hand, job_id: str) -> None:
    hand.take()


def _flagged(hand: Hand, job_id: str) -> None:
    hand.take()
    hand.store.cancel(job_id)


def _completed(hand: Hand, job_id: str) -> None:
    hand.take()
    hand.complete()


def _failed(hand: Hand, job_id: str) -> None:
    hand.take()
    hand.fail()


def _cancelled(hand: Hand, job_id: str) -> None:
    hand.store.cancel(job_id)


def _abandoned(hand: Hand, job_id: str) -> None:
    _flagged(hand, job_id)
    hand.settle(Outcome.CANCELLED, cause=failure(reason=Reason.CANCELLED))


def _discarded(hand: Hand, job_id: str) -> None:
    _failed(hand, job_id)
    hand.store.discard(job_id)


WAYS: dict[str, tuple[Status, Callable[[Hand, str], None]]] = {
    "delayed": (Status.SCHEDULED, _delayed),
    "retried": (Status.SCHEDULED, _retried),
    "waiting": (Status.PENDING, _waiting),
    "returned": (Status.PENDING, _returned),
    "held": (Status.RUNNING, _held),
    "flagged": (Status.RUNNING, _flagged),
    "completed": (Status.COMPLETED, _completed),
    "failed": (Status.FAILED, _failed),
    "cancelled": (Status.CANCELLED, _cancelled),
    "abandoned": (Status.CANCELLED, _abandoned),
    "discarded": (Status.CANCELLED, _discarded),
}


def make(store: Backend, way: str, hand: Hand | None = None, **fields: Any) -> Made:
    """A job in the state that `way` leads to; the store must have no other pending job."""
    hand = hand or Hand(store)
    status, walk = WAYS[way]
    if way == "delayed":
        fields = {"delay": LATER_SECONDS, **fields}
    job_id = store.enqueue([new_job(**fields)])[0].job_id
    walk(hand, job_id)
    job = store.job(job_id)
    assert job.status is status, f"the way {way!r} led to {job.status}, not {status}"
    return Made(job_id, hand, job.claim)


def every_job(store: Backend) -> list[Job]:
    """All jobs, with their attempts."""
    found, after = [], None
    while True:
        page = store.jobs(JobFilter(), after=after, limit=500)
        found += [store.job(job.id) for job in page.jobs]
        after = page.after
        if after is None:
            return found


def picture(store: Backend) -> Any:
    """All that a refused call must leave as it was: jobs, counters, queues."""
    numbers = store.statistics()
    queues = [replace(queue, oldest_pending_s=None, overdue=0) for queue in store.queues()]
    return every_job(store), {name: getattr(numbers, name) for name in COUNTERS}, queues


@contextmanager
def unchanged(store: Backend) -> Iterator[None]:
    """What happens inside changes nothing."""
    before = picture(store)
    yield
    assert picture(store) == before
