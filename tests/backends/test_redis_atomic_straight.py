"""The straight roads of a lane's steps: whatever stops one, the store is as it was before it."""

from collections.abc import Callable, Iterator

import pytest

from pool.backends.contract import Answer, Want
from pool.errors import BackendUnavailable
from pool.identity import LaneId, WorkerId
from pool.jobs.job import Settlement
from pool.jobs.lifecycle import Status
from tests.backends.redis_lab import NAMESPACE, Lab, RedisBackend, counted, fresh, listed, spoil
from tests.helpers.builders import ANYTHING, Hand, new_jobs, settlement
from tests.helpers.servers import FLAVOURS, running

__all__ = ["fresh"]

LANES = 4
HELD = 3  # lanes of the worker that hold a job


def build(server) -> Lab:
    """A store with plain jobs only: one worker holds some, the rest waits in two queues."""
    with server.client() as client:
        client.flushall()
    store = RedisBackend(server.url, NAMESPACE)
    lab = Lab(server, store)
    store.wait(ANYTHING, 0)
    store.enqueue(new_jobs(HELD))
    for name, lane in zip("abc", lanes(lab), strict=False):
        hand = Hand(store, lane)
        hand.request = 10
        lab.ids[name] = hand.take().job_id
    store.enqueue(new_jobs(9))
    store.enqueue(new_jobs(9, queue="next"))
    lab.keep()
    return lab


def lanes(lab: Lab) -> list[LaneId]:
    return [LaneId(WorkerId(lab.house, 0, 1), number) for number in range(LANES)]


def words(lab: Lab) -> list[Settlement | None]:
    if isinstance(lab, _Told):
        return lab.said
    jobs = [lab.store.job(lab.ids[name]) for name in "abc"]
    return [*(settlement(_Held(job.id, job.claim), started_at=1.0) for job in jobs), None]  # type: ignore[arg-type]


class _Held:
    def __init__(self, job_id: str, claim: int) -> None:
        self.job_id, self.claim = job_id, claim


def alone(lab: Lab, **how: object) -> Answer:
    return lab.store.exchange(lanes(lab)[0], 12, settlement=words(lab)[0], **how)  # type: ignore[arg-type]


def together(lab: Lab, request: int = 12, **how: object) -> list[Answer]:
    return lab.store.exchange_many(lanes(lab), request, settlements=words(lab), **how)  # type: ignore[arg-type]


def newcomer(lab: Lab) -> list[Answer]:
    several = [LaneId(WorkerId(lab.house, 9, 1), number) for number in range(LANES)]
    return lab.store.exchange_many(several, 1, settlements=[None] * LANES, want=ANYTHING, ahead=2)


STEPS: dict[str, Callable[[Lab], object]] = {
    "complete": alone,
    "complete and claim": lambda lab: alone(lab, want=ANYTHING),
    "complete together": together,
    "complete and claim together": lambda lab: together(lab, want=ANYTHING, ahead=LANES - 1),
    "claim together": newcomer,
}


@pytest.fixture(scope="module", params=sorted(FLAVOURS))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with running(request.param) as server:
        yield build(server)


@pytest.mark.parametrize("name", STEPS)
def test_a_key_of_the_wrong_type_changes_nothing(fresh: Lab, name: str) -> None:
    for key in fresh.every_key():
        fresh.restore()
        said = words(fresh)
        spoil(fresh.server, key)
        before = fresh.picture()
        try:
            STEPS[name](_Told(fresh, said))  # type: ignore[arg-type]
        except BackendUnavailable as refusal:
            assert fresh.picture() == before, f"{name} with {key} spoilt left a part behind"
            assert "overwritten" in str(refusal), key
        else:
            assert fresh.picture().get(key.encode()) == before[key.encode()], f"{name} wrote over a foreign {key}"


class _Told:
    """The lab, with the jobs looked up before a key was spoilt."""

    def __init__(self, lab: Lab, said: list[Settlement | None]) -> None:
        self.store, self.house, self.ids, self.said = lab.store, lab.house, lab.ids, said


@pytest.mark.parametrize("name", STEPS)
def test_a_full_store_can_still_be_worked_off(fresh: Lab, name: str) -> None:
    fresh.server.call("CONFIG", "SET", "maxmemory", 1)
    STEPS[name](fresh)
    if name.startswith("complete"):
        assert fresh.store.job(fresh.ids["a"]).status is Status.COMPLETED


@pytest.mark.parametrize("many", [False, True], ids=["alone", "together"])
def test_a_full_store_gives_a_lost_answer_again(fresh: Lab, many: bool) -> None:
    def call() -> list[Answer]:
        return together(fresh, want=ANYTHING, ahead=3) if many else [alone(fresh, want=ANYTHING)]

    fresh.server.call("CONFIG", "SET", "maxmemory", 1)
    first = call()
    again = call()
    assert [answer.settled for answer in again] == [answer.settled for answer in first]
    assert [answer.claim and answer.claim.job_id for answer in again] == [
        answer.claim and answer.claim.job_id for answer in first
    ]


@pytest.mark.parametrize("name", STEPS)
def test_the_straight_road_is_taken(fresh: Lab, name: str) -> None:
    """Else this file tries something else: one call of the server does it all."""
    said = words(fresh)  # the server knows the step that looks at a job
    fresh.server.call("CONFIG", "RESETSTAT")
    STEPS[name](_Told(fresh, said))  # type: ignore[arg-type]
    told = fresh.server.call("INFO", "commandstats")
    calls = sum(told.get(f"cmdstat_{word}", {"calls": 0})["calls"] for word in ("evalsha", "eval"))
    assert calls <= 2, "by digest, and once by text"
    assert "cmdstat_hgetall" not in told


@pytest.mark.parametrize("name", STEPS)
def test_what_runs_is_counted_as_the_lanes_hold_it(fresh: Lab, name: str) -> None:
    """Running jobs of a queue are counted, and kept in no list of their own."""
    STEPS[name](fresh)
    assert counted(fresh) == listed(fresh)
    for queue in ("next", "default"):
        hand = Hand(fresh.store, LaneId(WorkerId(fresh.house, 7, 1)))
        hand.request = 10 if queue == "next" else 20
        hand.take(Want(queues=(queue,)))
        assert counted(fresh) == listed(fresh)
        hand.settle(want=Want(queues=("next", "default")))
        assert counted(fresh) == listed(fresh)
        hand.complete()
        assert counted(fresh) == listed(fresh)
