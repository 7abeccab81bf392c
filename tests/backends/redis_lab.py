"""What the Redis tests share: a rich store to meddle with, its picture, and every step that may be taken on it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from pool.backends.contract import JobFilter
from pool.backends.redis.backend import RedisBackend
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import NewJob, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import ANYTHING, Hand, beat, died_working, failure, new_job, put, some_pool
from tests.helpers.servers import Server
from tests.helpers.until import until

NAMESPACE = "lab"
ROOT = f"{{jobpool:{NAMESPACE}}}:"
QUEUE_SETS = ("pending", "scheduled", "late", "completed", "failed", "cancelled")
FIXED = (
    "jobs", "state", "past", "ids", "heads", "dues", "queues", "stats", "unique", "idem", "idem_at", "bells", "expiry",
    "pools", "ticks",
)  # fmt: skip
LATER = 86_400.0
CONTENT: dict[bytes, Callable[..., object]] = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"set": lambda client, key: sorted(client.smembers(key)),
}


@dataclass
class Lab:
    """A store with a job in every state, two hands that hold something, and a picture of it all to go back to."""

    server: Server
    store: RedisBackend
    house: PoolId = field(default_factory=some_pool)
    ids: dict[str, str] = field(default_factory=dict)
    first: dict[bytes, object] = field(default_factory=dict)
    dumps: dict[bytes, bytes] = field(default_factory=dict)

    def picture(self) -> dict[bytes, object]:
        """Every key of the database with its content (not as dumped: a hash's order there changes by itself)."""
        with self.server.client() as client:
            return {key: CONTENT[client.type(key)](client, key) for key in sorted(client.keys("*"))}

    def keep(self) -> None:
        """Remember the store as it is now, for `restore`."""
        self.first = self.picture()
        with self.server.client() as client:
            self.dumps = {key: client.dump(key) for key in self.first}

    def restore(self) -> None:
        """The store as it was built."""
        with self.server.client() as client:
            client.flushall()
            for key, dump in self.dumps.items():
                client.restore(key, 0, dump)

    def hand(self, slot: int) -> Hand:
        """The hand of this slot, as it stood when the store was built."""
        hand = Hand(self.store, LaneId(WorkerId(self.house, slot, 1)))
        hand.request = 50
        return hand

    def holder(self, name: str) -> Hand:
        """The hand that holds the running job `name`."""
        job = self.store.job(self.ids[name])
        slot = {"plain": 0, "parent": 1, "other": 2}[name]
        hand = self.hand(slot)
        hand.held = _ClaimOf(job.id, job.claim)  # type: ignore[assignment]
        return hand

    def every_key(self) -> list[str]:
        """Every key that a step may use, there or not."""
        queues = [f"{part}:{queue}" for part in QUEUE_SETS for queue in ("default", "next")]
        return [ROOT + name for name in (*FIXED, *queues, f"pool:{self.house}", "bell:0:100:*:")]


def counted(lab: Lab) -> Counter[str]:
    """How many jobs run, by queue, as the store counts them."""
    return Counter({queue.name: queue.running for queue in lab.store.queues() if queue.running})


def listed(lab: Lab) -> Counter[str]:
    """The same, as it lists them."""
    return Counter(job.queue for job in lab.store.jobs(JobFilter(status=Status.RUNNING)).jobs)


@dataclass
class _ClaimOf:
    job_id: str
    claim: int


def build(server: Server) -> Lab:
    """Fill an empty server."""
    with server.client() as client:
        client.flushall()
    store = RedisBackend(server.url, NAMESPACE)
    lab = Lab(server, store)
    store.wait(ANYTHING, 0)
    store.beat(beat(lab.house))
    follow = {"on_success": new_job(queue="next"), "on_failure": new_job(queue="next")}
    for name, slot, fields in (("plain", 0, {}), ("parent", 1, {"unique_key": "u", **follow}), ("other", 2, {})):
        lab.ids[name] = put(store, idempotency_key=name, max_retries=5, **fields)
        Hand(store, LaneId(WorkerId(lab.house, slot, 1))).take()
    _finish(lab, "completed", lambda hand: hand.complete())
    _finish(lab, "failed", lambda hand: hand.fail())
    lab.ids["cancelled"] = put(store)
    store.cancel(lab.ids["cancelled"])
    lab.ids["due"] = put(store, delay=0.01)
    lab.ids["expiring"] = put(store, delay=LATER, expires_in=0.01)
    lab.ids["scheduled"] = put(store, delay=LATER)
    lab.ids["pending"] = put(store, unique_key="v")
    store.tick("nightly", "v1", 1000.0, None)
    moment = store.server_now()
    until(lambda: store.server_now() > moment + 0.05, "what is due")
    lab.keep()
    return lab


def _finish(lab: Lab, name: str, end: Callable[[Hand], object]) -> None:
    lab.ids[name] = put(lab.store, priority=100)
    hand = Hand(lab.store, LaneId(WorkerId(lab.house, 3, 1)))
    hand.request = {"completed": 10, "failed": 20}[name]
    hand.take()
    end(hand)


def _with_keys() -> NewJob:
    return new_job(unique_key="w", idempotency_key="i", expires_in=60.0, delay=5.0, queue="next")


STEPS: dict[str, Callable[[Lab], object]] = {
    "enqueue": lambda lab: put(lab.store),
    "enqueue with keys": lambda lab: lab.store.enqueue([_with_keys(), new_job()]),
    "claim": lambda lab: lab.hand(0).store.exchange(LaneId(WorkerId(lab.house, 9, 1)), 1, want=ANYTHING),
    "claim again": lambda lab: lab.hand(3).claim(),
    "complete": lambda lab: lab.holder("plain").complete(),
    "complete and claim": lambda lab: lab.holder("other").settle(want=ANYTHING),
    "complete a parent": lambda lab: lab.holder("parent").settle(children=(new_job(queue="next"), _with_keys())),
    "complete with output": lambda lab: lab.holder("plain").settle(output="said", want=ANYTHING),
    "fail a parent": lambda lab: lab.holder("parent").fail(),
    "retry": lambda lab: lab.holder("plain").retry(5.0),
    "retry at once": lambda lab: lab.holder("plain").retry(0.0),
    "give back": lambda lab: lab.holder("parent").give_back(),
    "abandon": lambda lab: lab.holder("plain").settle(Outcome.CANCELLED, cause=failure(reason=Reason.CANCELLED)),
    "report": lambda lab: lab.store.report(lab.holder("plain").as_held(), progress=0.5, note="half"),
    "beat": lambda lab: lab.store.beat(beat(lab.house, [lab.holder("plain").as_held()])),
    "recover": lambda lab: lab.store.recover(died_working(lab.holder("parent"))),
    "leave": lambda lab: lab.store.leave(lab.house),
    "promote": lambda lab: lab.store.promote(),
    "cancel a waiting one": lambda lab: lab.store.cancel(lab.ids["pending"]),
    "cancel a running one": lambda lab: lab.store.cancel(lab.ids["plain"]),
    "revive": lambda lab: lab.store.revive(lab.ids["failed"]),
    "revive a cancelled one": lambda lab: lab.store.revive(lab.ids["cancelled"], payload='{"n":1}'),
    "discard": lambda lab: lab.store.discard(lab.ids["failed"]),
    "pause": lambda lab: lab.store.set_queue("default", paused=True),
    "limit": lambda lab: lab.store.set_queue("default", max_pending=9),
    "purge": lambda lab: lab.store.purge("default", statuses=frozenset(Status)),
    "tick": lambda lab: lab.store.tick("nightly", "v1", 2000.0, new_job()),
    "forget": lambda lab: lab.store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0),
    "take over": lambda lab: lab.store._take_back(lab.house, ("pool", "", "1", 1, "worker_lost", 1, b"", b"", "", 0)),
    "wait": lambda lab: RedisBackend(lab.server.url, NAMESPACE).wait(ANYTHING, 0),
}
LOOKS: dict[str, Callable[[Lab], object]] = {
    "job": lambda lab: lab.store.job(lab.ids["failed"]),
    "jobs": lambda lab: lab.store.jobs(JobFilter(text="x")),
    "jobs by status": lambda lab: lab.store.jobs(JobFilter(status=Status.FAILED)),
    "queues": lambda lab: lab.store.queues(),
    "statistics": lambda lab: lab.store.statistics(),
    "pools": lambda lab: lab.store.pools(),
    "last tick": lambda lab: lab.store.last_tick("nightly"),
    "watch": lambda lab: lab.store.recover_expired(),
}


def spoil(server: Server, key: str) -> None:
    """Put a value of the wrong type where the key is or would be."""
    with closing(server.client()) as client:
        client.set(key, "not ours")


@pytest.fixture
def fresh(lab: Lab) -> Iterator[Lab]:
    """The lab of the test module as it was built, whatever the test before has done to it."""
    lab.restore()
    yield lab
    lab.server.call("CONFIG", "SET", "maxmemory", 0)
    lab.store.close()
