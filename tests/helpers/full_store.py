"""A store with something of everything: a job in every state and with every trait, and all that stands beside jobs."""

from collections.abc import Callable

from pool.backends.contract import AuditEntry, Backend
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewBatch, Outcome
from pool.jobs.lifecycle import Reason
from tests.helpers.builders import (
    Hand,
    beat,
    died_working,
    failure,
    new_job,
    put,
    some_pool,
)

YEARS_SECONDS = 50 * 365 * 86_400.0
LIMIT = {"limit_key": "api", "limit_running": 1}


def fill(store: Backend, house: PoolId | None = None) -> dict[str, str]:
    """Name and id of each job. `house` is the pool that works; what it still holds at the end is running."""
    house = house or some_pool("full")
    jobs: dict[str, str] = {}
    slots = iter(range(100))

    def hire() -> Hand:
        return Hand(store, LaneId(WorkerId(house, next(slots), 1)))

    store.beat(beat(house, facts='{"version": "0.1.0"}'))
    _ended(store, jobs, hire)
    _beside(store)
    _running(store, jobs, hire)
    _waiting(store, jobs)
    return jobs


def _ended(store: Backend, jobs: dict[str, str], hire: Callable[[], Hand]) -> None:
    hand = hire()
    jobs["completed"] = put(
        store, priority=95, payload='{"a": "é"}', type="tests.sum", idempotency_key="once", owner="shop"
    )
    hand.take()
    child = new_job(queue="next", type="tests.child")
    hand.settle(result='{"sum": 3}', output="said\n", started_at=store.server_now(), children=(child,))
    jobs["child"] = child.id
    follower = new_job(queue="next", type="tests.follower")
    jobs["parent"], jobs["follower"] = put(store, priority=95, on_success=follower), follower.id
    hand.take()
    hand.complete()
    jobs["failed"] = put(store, priority=95)
    hand.take()
    hand.fail()
    jobs["discarded"] = put(store, priority=95)
    hand.take()
    hand.fail()
    store.discard(jobs["discarded"])
    jobs["cancelled"] = put(store, priority=95)
    store.cancel(jobs["cancelled"])
    jobs["killer"] = put(store, priority=95, max_kills=2)
    for _ in range(2):
        victim = hire()
        victim.take()
        store.recover(died_working(victim))
    member, on_complete, on_success = (
        new_job(queue="members", priority=95),
        new_job(queue="after"),
        new_job(queue="after"),
    )
    store.enqueue([member], batch=NewBatch(id=new_job_id(), on_complete=on_complete, on_success=on_success))
    jobs["member"], jobs["on complete"], jobs["on success"] = member.id, on_complete.id, on_success.id
    hand.take()
    hand.complete()


def _running(store: Backend, jobs: dict[str, str], hire: Callable[[], Hand]) -> None:
    for name, fields in (
        ("running", {"unique_key": "daily"}),
        ("flagged", {}),
        ("limited", LIMIT),
        ("once", {"max_retries": 0}),
    ):
        jobs[name] = put(store, priority=100, **fields)
        hire().take()
    store.cancel(jobs["flagged"])
    reporter = hire()
    jobs["reporting"] = put(store, priority=100)
    reporter.take()
    store.report(reporter.as_held(), progress=0.5, note="half", checkpoint='{"page": 7}')


def _waiting(store: Backend, jobs: dict[str, str]) -> None:
    jobs["retried"] = put(store, priority=90)
    hand = Hand(store, LaneId(WorkerId(some_pool("brief"), 0, 1)))
    hand.take()
    hand.settle(Outcome.RETRIED, delay=YEARS_SECONDS, cause=failure(reason=Reason.RETRIES_EXHAUSTED), started_at=1.0)
    jobs["returned"] = put(store, priority=90)
    hand.take()
    hand.give_back(misfit=True)
    jobs["pending"] = put(store, unique_key="weekly", queue="mail", priority=30)
    jobs["of the shop"] = put(store, owner="shop", queue="mail", timeout=30.0, payload='{"to": "a@b.example"}')
    jobs["held back"] = put(store, **LIMIT)
    jobs["scheduled"] = put(store, delay=YEARS_SECONDS, queue="mail")
    jobs["expiring"] = put(store, expires_in=YEARS_SECONDS)
    open_batch = NewBatch(id=new_job_id(), on_complete=new_job(queue="after"))
    members = [new_job(queue="members"), new_job(queue="members")]
    store.enqueue(members, batch=open_batch)
    jobs["open member 1"], jobs["open member 2"] = (member.id for member in members)


def _beside(store: Backend) -> None:
    store.set_queue("mail", paused=True, max_pending=500)
    store.set_setting("alarm", "loud")
    store.note(AuditEntry(who="ann", act="pause", details='{"queue": "mail"}'))
    store.tick("nightly", "v1", 1_000.0, None)
