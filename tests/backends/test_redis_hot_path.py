"""The step that workers make all day takes the short road: counted in commands of the server, so load cannot blur it."""

import pytest

from pool.backends.contract import Want
from pool.backends.redis.backend import RedisBackend
from pool.settings import Config
from pool.worker.process import want_of
from tests.helpers.builders import Hand, new_jobs, put
from tests.helpers.servers import running

STEPS = 50
AT_MOST = 26  # commands of the server per settle-and-claim; the long road takes twice as many

WANTS = {
    "as a worker comes": want_of(Config(), Config().workers),
    "every queue": Want(),
    "some left out": Want(reserved=("jobpool.webhooks", "external")),
    "a list": Want(queues=("high", "default")),
}


@pytest.mark.parametrize("kind", WANTS)
def test_settle_and_claim_takes_the_short_road(flavour: str, kind: str) -> None:
    with running(flavour) as server:
        store = RedisBackend(server.url)
        store.enqueue(new_jobs(STEPS + 10))
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
