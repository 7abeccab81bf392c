"""The step that workers make all day takes the short road: counted in commands of the server, so load cannot blur it."""

from typing import Any

import pytest

from pool.backends.contract import Want
from pool.backends.redis.backend import RedisBackend
from pool.identity import LaneId
from pool.jobs.job import Claim, Outcome, Settlement
from pool.jobs.lifecycle import Status
from pool.settings import Config
from pool.worker.wants import want_of
from tests.helpers.builders import Hand, departure, new_job, new_jobs, put, settlement, worker
from tests.helpers.servers import running

STEPS = 50
LANES, CALLS = 8, 20
PARENT = "01a22cc7-b5a8-750a-a10c-880a7a270000"
AT_MOST = 18  # commands of the server per settle-and-claim; the long road takes twice as many
AT_MOST_TOGETHER = 23
AT_MOST_TO_STORE = 16

WANTS = {
    "as a worker comes": want_of(Config(), Config().workers),
    "every queue": Want(),
    "some left out": Want(reserved=("jobpool.webhooks", "external")),
    "a list": Want(queues=("high", "default")),
}


@pytest.mark.parametrize("job", [{}, {"timeout": 5.0, "parent_id": PARENT}], ids=["bare", "with timeout and parent"])
@pytest.mark.parametrize("kind", WANTS)
def test_settle_and_claim_takes_the_short_road(flavour: str, kind: str, job: dict[str, Any]) -> None:
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.enqueue(new_jobs(STEPS + 10, **job))
        put(store, queue="other", priority=1)
        hand = Hand(store)
        hand.take(WANTS[kind])
        server.call("CONFIG", "RESETSTAT")
        for _ in range(STEPS):
            assert hand.settle(want=WANTS[kind], started_at=1.0).claim is not None
        told = server.call("INFO", "commandstats")
        store.close()
    commands = sum(
        each["calls"] for name, each in told.items() if not name.startswith(("cmdstat_config", "cmdstat_hello"))
    )
    print(f"{commands / STEPS:.1f} commands per step")
    assert commands / STEPS < AT_MOST


@pytest.mark.parametrize("kind", WANTS)
def test_several_lanes_settle_and_claim_in_one_round_trip_and_few_commands(flavour: str, kind: str) -> None:
    """Jobs with a timeout or a parent too."""
    who = worker()
    lanes = [LaneId(who, number) for number in range(LANES)]
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.enqueue(new_jobs(LANES * CALLS, timeout=5.0) + new_jobs(LANES * 2, parent_id=new_job().id))
        put(store, queue="other", priority=1)
        words: list[Settlement | None] = [None] * LANES
        for request in range(1, CALLS + 2):
            answers = store.exchange_many(lanes, request, settlements=words, want=WANTS[kind], ahead=LANES - 1, leave=2)
            words = [settlement(answer.claim, started_at=1.0) for answer in answers if answer.claim]
            assert len(words) == LANES
            if request == 1:
                server.call("CONFIG", "RESETSTAT")
        told = server.call("INFO", "commandstats")
        store.close()
    calls = told["cmdstat_evalsha"]["calls"]
    commands = sum(each["calls"] for name, each in told.items() if not name.startswith("cmdstat_config"))
    print(f"{commands / CALLS:.1f} commands per call of {LANES} lanes")
    assert calls == CALLS
    assert commands / CALLS < AT_MOST_TOGETHER


def test_jobs_that_are_not_plain_cost_one_round_trip_as_ever(flavour: str) -> None:
    """After the first of them the lead calls alone for a while."""
    who = worker()
    lanes = [LaneId(who, number) for number in range(LANES)]
    with running(flavour) as server:
        store = RedisBackend(server.url)
        for number in range(CALLS + 2):
            put(store, unique_key=str(number))
        words: list[Settlement | None] = [None] * LANES
        server.call("CONFIG", "RESETSTAT")
        for request in range(1, CALLS + 2):
            lead, *others = store.exchange_many(lanes, request, settlements=words, want=Want(), ahead=LANES - 1)
            assert lead.claim is not None and not any(other.claim for other in others)
            words = [settlement(lead.claim, started_at=1.0), *[None] * (LANES - 1)]
        calls = server.call("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
        store.close()
    assert calls < CALLS * 1.2


def test_what_the_keeper_has_taken_back_costs_nobody_a_call_more(flavour: str) -> None:
    """The jobs stand first in the line, the words about them come late, and the line is empty in the end."""
    who = worker()
    lanes = [LaneId(who, number) for number in range(LANES)]
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.enqueue(new_jobs(LANES))
        first = store.exchange_many(lanes, 1, settlements=[None] * LANES, want=Want(), ahead=LANES - 1)
        claims = [answer.claim for answer in first if answer.claim is not None]
        taken = tuple(range(2, LANES))
        store.recover(departure(who, bar=False, started={}, lanes=taken, claims=_meant(claims, taken)))
        words: list[Settlement | None] = [
            settlement(claim, Outcome.RETURNED if number in taken else Outcome.COMPLETED)
            for number, claim in enumerate(claims)
        ]
        server.call("CONFIG", "RESETSTAT")
        again = store.exchange_many(lanes, 2, settlements=words, want=Want(), ahead=LANES - 1)
        given = [answer.claim for answer in again if answer.claim is not None]
        words = [settlement(claim, started_at=1.0) for claim in given] + [None] * 2
        store.exchange_many(lanes, 3, settlements=words, want=Want(), ahead=LANES - 1)
        last = store.exchange_many(lanes, 4, settlements=[None] * LANES, want=Want(), ahead=LANES - 1)
        told = server.call("INFO", "commandstats")
        store.close()
    assert [answer.settled for answer in again] == [True] * 2 + [False] * (LANES - 2)
    assert [claim.claim for claim in given] == [2] * (LANES - 2)
    assert not any(answer.claim for answer in last)
    assert told["cmdstat_evalsha"]["calls"] == 3


def test_a_job_that_is_not_plain_parts_only_the_lead_from_the_others(flavour: str) -> None:
    who = worker()
    lanes = [LaneId(who, number) for number in range(LANES)]
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.enqueue(new_jobs(LANES))
        put(store, unique_key="odd")
        first = store.exchange_many(lanes, 1, settlements=[None] * LANES, want=Want(), ahead=LANES - 1)
        words = [settlement(answer.claim, started_at=1.0) for answer in first if answer.claim]
        server.call("CONFIG", "RESETSTAT")
        second = store.exchange_many(lanes, 2, settlements=words, want=Want(), ahead=LANES - 1)
        calls = server.call("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
        repeated = store.exchange_many(lanes, 2, settlements=words, want=Want(), ahead=LANES - 1)
        done = store.statistics().completed
        store.close()
    assert calls == 3, "together in vain, the others together, the lead"
    for answers in (second, repeated):
        assert [answer.settled for answer in answers] == [True] * LANES
        assert [bool(answer.claim) for answer in answers] == [True] + [False] * (LANES - 1)
    assert done == LANES


def _meant(claims: list[Claim], lanes: tuple[int, ...]) -> dict[int, tuple[str, int]]:
    return {number: (claims[number].job_id, claims[number].claim) for number in lanes}


def test_a_plain_job_is_stored_by_few_commands(flavour: str) -> None:
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.wait(Want(), 0)
        put(store)
        put(store)
        server.call("CONFIG", "RESETSTAT")
        for _ in range(STEPS):
            put(store)
        told = server.call("INFO", "commandstats")
        pending = [put(store), put(store, unique_key="odd"), put(store)]
        put(store, delay=60.0)
        states = [store.job(job_id).status for job_id in pending]
        (queue,) = store.queues()
        store.close()
    commands = sum(each["calls"] for name, each in told.items() if not name.startswith("cmdstat_config"))
    print(f"{commands / STEPS:.1f} commands per job")
    assert commands / STEPS < AT_MOST_TO_STORE
    assert states == [Status.PENDING] * 3
    assert (queue.pending, queue.scheduled) == (STEPS + 5, 1)


def test_a_queue_that_is_left_out_stays_left_out_wherever_it_stands(flavour: str) -> None:
    """Among the lowest bounds or behind them, alone or not."""
    want = Want(reserved=("b",))
    with running(flavour) as server:
        store = RedisBackend(server.url)
        for queue in ("a", "b", "c", "d"):
            store.enqueue(new_jobs(5, queue=queue, priority=50))
        put(store, queue="b", priority=100)
        hand = Hand(store)
        queues = [hand.take(want).queue]
        while (claim := hand.settle(want=want, started_at=1.0).claim) is not None:
            queues.append(claim.queue)
        left = {state.name: state.pending for state in store.queues()}
        store.close()
    assert sorted(queues) == ["a"] * 5 + ["c"] * 5 + ["d"] * 5
    assert left["b"] == 6


def test_the_names_of_many_queues_fit_into_a_claim(flavour: str) -> None:
    """More than 64 KiB of them: most lengths in the step's packed argument have two bytes."""
    want = Want(queues=tuple(f"a-queue-with-a-rather-long-name-{number:05}" for number in range(2000)))
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.enqueue(new_jobs(3, queue=want.queues[-1]))
        hand = Hand(store)
        hand.take(want)
        answers = [hand.settle(want=want, started_at=1.0) for _ in range(3)]
        store.close()
    assert [answer.settled for answer in answers] == [True] * 3
    assert [bool(answer.claim) for answer in answers] == [True, True, False]
