"""The steps that touch limits, batches and ageing on Redis: whole or not at all, whatever key is spoilt."""

from collections.abc import Callable, Iterator

import pytest

from pool.backends.contract import AuditEntry, JobFilter
from pool.errors import BackendUnavailable
from pool.identity import LaneId, WorkerId
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewBatch, NewJob
from pool.jobs.lifecycle import Status
from tests.backends.redis_lab import FIXED, QUEUE_SETS, ROOT, Lab, build, spoil
from tests.helpers.builders import ANYTHING, Hand, died_working, new_job
from tests.helpers.servers import DEFAULT_FLAVOUR, FLAVOURS, running

BATCH = new_job_id()
LIMITED, MEMBER = 6, 7  # the slots that hold one of each


def limited() -> NewJob:
    return new_job(limit_key="k", limit_running=1, limit_count=5, limit_per_s=60.0, priority=80)


def batch(batch_id: str) -> NewBatch:
    return NewBatch(id=batch_id, on_complete=new_job(queue="next"), on_success=new_job(queue="next"))


def fill(lab: Lab) -> None:
    """One of the limit runs, one is in sight, two wait; of the batch one runs, one waits, one has failed."""
    jobs = [limited() for _ in range(4)]
    lab.store.enqueue(jobs)
    Hand(lab.store, LaneId(WorkerId(lab.house, LIMITED, 1))).take()
    members = [new_job(priority=90 - number) for number in range(3)]
    lab.store.enqueue(members, batch=batch(BATCH))
    failing = Hand(lab.store, LaneId(WorkerId(lab.house, 8, 1)))
    failing.take()
    failing.fail()
    Hand(lab.store, LaneId(WorkerId(lab.house, MEMBER, 1))).take()
    lab.ids |= {"limited": jobs[0].id, "waiting": jobs[1].id, "last": jobs[3].id}
    lab.ids |= {"dead member": members[0].id, "member": members[1].id, "open member": members[2].id}
    lab.store.note(AuditEntry(who="a", act="b"))
    lab.keep()


def holder(lab: Lab, name: str, slot: int) -> Hand:
    hand = lab.hand(slot)
    hand.held = lab.store.exchange(hand.lane, 50, want=ANYTHING).claim
    assert hand.held is not None and hand.held.job_id == lab.ids[name]
    return hand


def keys(lab: Lab) -> list[str]:
    packed = bytes.fromhex(BATCH.replace("-", "")).decode("latin-1")
    queues = [f"{part}:{queue}" for part in QUEUE_SETS for queue in ("default", "next")]
    own = [
        "limits",
        "opens",
        "limit_at",
        "lanes:k",
        "shown:k",
        "busy:k",
        "lane:default\x1fk",
        "batches",
        "audit",
        "tick_jobs",
    ]
    return [
        *(ROOT + name for name in (*FIXED, *queues, *own, f"pool:{lab.house}")),
        *(f"{ROOT}{p}:{packed}" for p in ("batch", "members")),
    ]


STEPS: dict[str, Callable[[Lab], object]] = {
    "enqueue limited": lambda lab: lab.store.enqueue([limited(), new_job()]),
    "enqueue a batch": lambda lab: lab.store.enqueue([new_job(), limited()], batch=batch(new_job_id())),
    "enqueue an empty batch": lambda lab: lab.store.enqueue([], batch=batch(new_job_id())),
    "claim past a used-up limit": lambda lab: lab.hand(9).claim(),
    "cancel limited": lambda lab: lab.store.cancel(lab.ids["waiting"]),
    "cancel a member": lambda lab: lab.store.cancel(lab.ids["open member"]),
    "revive a member": lambda lab: lab.store.revive(lab.ids["dead member"], payload="{}", by="me"),
    "discard a member": lambda lab: lab.store.discard(lab.ids["dead member"]),
    "recover limited": lambda lab: lab.store.recover(
        died_working(Hand(lab.store, LaneId(WorkerId(lab.house, LIMITED, 1))), started={0: 1})
    ),
    "purge": lambda lab: lab.store.purge("default", statuses=frozenset({Status.PENDING})),
    "delete": lambda lab: lab.store.delete([lab.ids["waiting"], lab.ids["open member"], lab.ids["last"]]),
    "promote": lambda lab: lab.store.promote(),
    "forget": lambda lab: lab.store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0),
    "set ageing": lambda lab: lab.store.set_ageing(60.0),
    "note": lambda lab: lab.store.note(AuditEntry(who="c", act="d")),
    "list members": lambda lab: lab.store.jobs(JobFilter(batch_id=BATCH)),
    "limits": lambda lab: lab.store.limits(),
    "batch": lambda lab: lab.store.batch(BATCH),
    "ahead": lambda lab: lab.store.ahead(lab.ids["waiting"]),
}


@pytest.fixture(
    scope="module",
    params=[
        DEFAULT_FLAVOUR,
        *(pytest.param(name, marks=pytest.mark.full) for name in FLAVOURS if name != DEFAULT_FLAVOUR),
    ],
)
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with running(request.param) as server:
        built = build(server)
        fill(built)
        yield built


@pytest.mark.parametrize("name", STEPS)
def test_a_key_of_the_wrong_type_changes_nothing(lab: Lab, name: str) -> None:
    for key in keys(lab):
        lab.restore()
        spoil(lab.server, key.encode("latin-1"))  # type: ignore[arg-type]
        before = lab.picture()
        try:
            STEPS[name](lab)
        except BackendUnavailable as refusal:
            assert lab.picture() == before, f"{name} with {key!r} spoilt left a part behind: {refusal}"
        else:
            spoilt = key.encode("latin-1")
            assert lab.picture().get(spoilt) == before[spoilt], f"{name} wrote over a foreign {key!r}"


@pytest.mark.parametrize("name", ["limited", "member"])
@pytest.mark.parametrize("end", ["complete", "fail", "retry"])
def test_the_end_of_one_that_runs_is_whole_too(lab: Lab, name: str, end: str) -> None:
    for key in keys(lab):
        lab.restore()
        hand = holder(lab, name, {"limited": LIMITED, "member": MEMBER}[name])
        spoil(lab.server, key.encode("latin-1"))  # type: ignore[arg-type]
        before = lab.picture()
        try:
            getattr(hand, end)()
        except BackendUnavailable as refusal:
            assert lab.picture() == before, f"{end} with {key!r} spoilt left a part behind: {refusal}"
        else:
            spoilt = key.encode("latin-1")
            assert lab.picture().get(spoilt) == before[spoilt]
