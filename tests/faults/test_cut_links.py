"""The link to Redis is cut after each single byte of a request and of its reply; then the step is repeated.

The step has happened or it has not; the repetition must not make it happen twice.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

from pool.backends.redis.backend import RedisBackend
from pool.errors import BackendUnavailable, IllegalMove
from pool.identity import LaneId
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Status
from tests.faults.proxy import Proxy
from tests.helpers.builders import ANYTHING, Hand, died_working, new_job, put, settlement, worker
from tests.helpers.servers import running

LANES = 3
STRIDE = 9  # bytes of a request are all alike to the server: it runs whole commands only
Act = Callable[[], Any]


@pytest.fixture(scope="module")
def link() -> Iterator[Proxy]:
    with running() as server, Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def store(link: Proxy, request: pytest.FixtureRequest) -> Iterator[RedisBackend]:
    link.heal()
    with closing(RedisBackend(f"redis://127.0.0.1:{link.port}/0", request.node.name)) as backend:
        yield backend


class Cutter:
    """Runs an act, with the link cut after so many bytes of one direction, until it succeeds."""

    def __init__(self, link: Proxy) -> None:
        self.link = link
        self.cuts = 0

    def bytes_of(self, act: Act) -> tuple[int, int]:
        """Of its requests and of its replies, undisturbed."""
        before = self.link.requests.passed, self.link.replies.passed
        act()
        return self.link.requests.passed - before[0], self.link.replies.passed - before[1]

    def act(self, act: Act, *, refuse: bool = False, **after: int) -> Any:
        self.link.cut_after(**after, refuse=refuse)
        try:
            return act()
        except BackendUnavailable:
            self.cuts += 1
            self.link.heal()
            return act()
        finally:
            self.link.heal()


def places(cutter: Cutter, act: Act, stride: int) -> list[dict[str, int]]:
    """Every place at which a call like this one can be cut."""
    requests, replies = cutter.bytes_of(act)
    return [{"requests": n} for n in range(1, requests, stride)] + [{"replies": n} for n in range(1, replies)]


def one_claim(store: RedisBackend, cutter: Cutter | None = None, **after: Any) -> None:
    """A job is enqueued, claimed over a bad link, settled over a good one."""
    job_id = put(store)
    hand = Hand(store)
    hand.request = 1

    def act() -> Any:
        return store.exchange(hand.lane, 1, want=ANYTHING).claim

    claim = cutter.act(act, **after) if cutter else act()
    assert claim is not None, "a claim that was cut off is given again"
    assert (claim.job_id, claim.claim) == (job_id, 1)
    hand.held = claim
    assert hand.complete()
    assert store.job(job_id).status is Status.COMPLETED


@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.timeout(600)
def test_a_claim_cut_at_any_byte_is_given_again(store: RedisBackend, link: Proxy, stride: int) -> None:
    cutter = Cutter(link)
    one_claim(store)
    put(store)
    hand = Hand(store)
    for place in places(cutter, lambda: hand.take(), stride):
        one_claim(store, cutter, **place)
    assert hand.complete()


def test_a_claim_is_given_again_after_the_link_was_away(store: RedisBackend, link: Proxy) -> None:
    cutter = Cutter(link)
    one_claim(store)
    for place in ({"requests": 5}, {"replies": 1}, {"replies": 50}):
        one_claim(store, cutter, refuse=True, **place)
    assert cutter.cuts == 3


@pytest.mark.timeout(600)
def test_a_settlement_cut_at_any_byte_counts_once_and_brings_its_children_once(
    store: RedisBackend, link: Proxy
) -> None:
    cutter = Cutter(link)
    hand = Hand(store)

    def settled(**after: Any) -> None:
        parent = put(store, priority=100)
        hand.take()
        children = (new_job(parent_id=parent), new_job(parent_id=parent, queue="other"))
        hand.request += 1
        assert hand.held is not None
        word = settlement(hand.held, Outcome.COMPLETED, started_at=1.0, children=children)

        def act() -> Any:
            return store.exchange(hand.lane, hand.request, settlement=word)

        before = store.statistics()
        answer = cutter.act(act, **after) if after else act()
        now = store.statistics()
        assert answer.settled
        assert store.job(parent).status is Status.COMPLETED
        assert (now.completed - before.completed, now.enqueued - before.enqueued) == (1, 2)

    for place in places(cutter, settled, STRIDE):
        if place.get("requests", 0) < 1500 and place.get("replies", 0) < 200:
            settled(**place)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("key", [None, "a key"], ids=["plain", "one by one"])
def test_a_call_of_several_lanes_cut_at_any_byte_settles_and_hands_out_once(
    store: RedisBackend, link: Proxy, key: str | None
) -> None:
    cutter = Cutter(link)
    who = worker()
    lanes = [LaneId(who, number) for number in range(LANES)]
    numbers = count(1)

    def called(**after: Any) -> None:
        first = [put(store, priority=100), *(put(store) for _ in lanes[1:])]
        request = next(numbers)
        claims = [store.exchange(lane, request, want=ANYTHING) for lane in lanes]
        words = [each.claim and settlement(each.claim, started_at=1.0) for each in claims]
        assert [word and word.job_id for word in words] == first
        following = [put(store, unique_key=key and new_job().id) for _ in lanes]
        request = next(numbers)

        def act() -> Any:
            return store.exchange_many(lanes, request, settlements=words, want=ANYTHING, ahead=LANES - 1)

        answers = cutter.act(act, **after) if after else act()
        assert [answer.settled for answer in answers] == [True] * LANES
        given = [answer.claim.job_id for answer in answers if answer.claim]
        assert given == (following[:1] if key else following)
        assert store.queues()[0].running == len(given)
        rest = [answer.claim and settlement(answer.claim, started_at=1.0) for answer in answers]
        store.exchange_many(lanes, next(numbers), settlements=rest)
        for job_id in following[len(given) :]:
            store.cancel(job_id)

    for place in places(cutter, called, 3 * STRIDE):
        if place.get("requests", 0) < 3000 and place.get("replies", 0) < 900:
            called(**place)


@pytest.mark.timeout(600)
def test_a_batch_cut_at_any_byte_is_there_once_and_whole(store: RedisBackend, link: Proxy) -> None:
    cutter = Cutter(link)
    for place in places(cutter, lambda: store.enqueue([new_job(), new_job()]), STRIDE):
        jobs = [new_job(), new_job(idempotency_key=new_job().id)]
        before = store.statistics().enqueued
        cutter.act(lambda jobs=jobs: store.enqueue(jobs), **place)
        assert store.statistics().enqueued - before == 2
        assert [store.job(job.id).status for job in jobs] == [Status.PENDING] * 2


@pytest.mark.timeout(600)
def test_a_recovery_cut_at_any_byte_costs_one_retry(store: RedisBackend, link: Proxy) -> None:
    cutter = Cutter(link)

    def lost(**after: Any) -> None:
        job_id = put(store, priority=100)
        hand = Hand(store)
        hand.take()

        def act() -> Any:
            store.recover(died_working(hand))

        cutter.act(act, **after) if after else act()
        job = store.job(job_id)
        assert (job.status, job.retry_count, job.kill_count) == (Status.PENDING, 1, 1)
        store.cancel(job_id)

    for place in places(cutter, lost, STRIDE):
        if place.get("requests", 0) < 1500 and place.get("replies", 0) < 200:
            lost(**place)


@pytest.mark.parametrize("order", ["cancel", "revive", "discard"])
def test_an_order_that_was_obeyed_is_not_called_illegal_because_its_answer_was_lost(
    store: RedisBackend, link: Proxy, order: str
) -> None:
    """The command is sent again on a new connection; by then the job is where the first copy has brought it."""
    job_id = put(store)
    if order != "cancel":
        hand = Hand(store)
        hand.take()
        hand.fail()
    link.cut_after(replies=1)
    told = getattr(store, order)(job_id)
    assert told.status is (Status.PENDING if order == "revive" else Status.CANCELLED)
    with pytest.raises(IllegalMove):
        getattr(store, order)(job_id)
