"""Work on many jobs that a person began on a page: an order in the store, a job of jobpool's own in a queue of its own.

The web process carries it out (`carrying`). When that is replaced or killed, the next one goes on where it was; it is
stopped by cancelling it, on the page or with `jobpool jobs cancel`.
"""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from pool.backends.contract import Backend
from pool.errors import JobNotFound
from pool.jobs.ids import new_job_id
from pool.jobs.internal import BULK_QUEUE, BULK_TYPE
from pool.jobs.job import Job, NewJob
from pool.jobs.lifecycle import Status

Act = Literal["retry", "discard", "purge"]
SHOWN = 5
RECENT_SETTING = "jobpool.bulk.recent"  # ids of the newest orders, for the pages; who comes first does not matter
MAX_RETRIES = 100  # an order whose web processes keep dying is not given up
_STATES = {Status.COMPLETED: "finished", Status.CANCELLED: "stopped", Status.FAILED: "failed"}


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done. `what`: a fingerprint of dead letters, or a queue to purge. `rate`: jobs a second, 0 = at once.

    Only what was there at `before`, by the store's clock, is meant.
    """

    act: Act
    what: str
    title: str
    who: str
    rate: float
    before: float


@dataclass(frozen=True, slots=True)
class Work:
    """An order as the pages show it. `so_far`: how many are done and how many refused, in words."""

    id: str
    order: Order
    began: float
    so_far: str
    state: str  # running, finished, stopped, failed


def give(store: Backend, act: Act, what: str, title: str, who: str, rate: float = 0.0) -> None:
    """Store the order; it is begun by whichever web process finds it first."""
    order = Order(act, what, title, who, rate, store.server_now())
    job_id, known = new_job_id(), _recent_ids(store)
    payload = json.dumps(asdict(order))
    job = NewJob(id=job_id, type=BULK_TYPE, queue=BULK_QUEUE, payload=payload, max_retries=MAX_RETRIES, owner=who)
    store.enqueue([job])
    store.set_setting(RECENT_SETTING, json.dumps([job_id, *known][:SHOWN]))


def recent(store: Backend) -> list[Work]:
    """The newest orders, those that are still under way first."""
    works = [_work(job) for job in filter(None, (_found(store, job_id) for job_id in _recent_ids(store)))]
    return sorted(works, key=lambda work: (work.state != "running", -work.began))


def stop(store: Backend, job_id: str) -> None:
    """Cancel an order. JobNotFound for what is none; IllegalMove when it is over."""
    if store.job(job_id).type != BULK_TYPE:
        raise JobNotFound(job_id)
    store.cancel(job_id)


def order_in(payload: str) -> Order:
    """What an order's job carries; TypeError or ValueError for anything else."""
    return Order(**json.loads(payload))


def _work(job: Job) -> Work:
    so_far, state = job.progress_note or "", _STATES.get(job.status, "running")
    return Work(
        job.id, order_in(job.payload), job.created_at, job.error or so_far if state == "failed" else so_far, state
    )


def _found(store: Backend, job_id: str) -> Job | None:
    try:
        return store.job(job_id)
    except JobNotFound:
        return None


def _recent_ids(store: Backend) -> list[str]:
    return [str(job_id) for job_id in json.loads(store.setting(RECENT_SETTING) or "[]")]
