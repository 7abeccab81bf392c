"""Sentinel and Cluster: real families of servers, failed over and spread under load."""

import threading

import pytest

from pool.backends.contract import Held
from pool.backends.redis.backend import RedisBackend
from pool.errors import BackendUnavailable, OutcomeUnknown, RequestRefused
from pool.identity import LaneId, WorkerId
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, beat, new_job, put, settlement, some_pool
from tests.helpers.servers import cluster, cluster_url, sentinel_house, wait_until
from tests.helpers.until import until


def _work_through(store: RedisBackend, stop: threading.Event, done: set[str], troubles: list[str]) -> None:
    """A worker as the product has it: repeats a request until it is answered."""
    hand = Hand(store)
    request, word = 0, None
    while not stop.is_set():
        request += 1
        while not stop.is_set():
            try:
                answer = store.exchange(hand.lane, request, settlement=word, want=ANYTHING)
                break
            except RequestRefused as refusal:
                troubles.append(str(refusal))
                return
            except BackendUnavailable:
                stop.wait(0.05)
        else:
            return
        word = None
        if answer.claim is not None:
            done.add(answer.claim.job_id)
            word = settlement(answer.claim)
        else:
            store.wait(ANYTHING, 0.2)


def _enqueue_until_accepted(store: RedisBackend, count: int, stop: threading.Event, refused: list[int]) -> list[str]:
    accepted = []
    for _ in range(count):
        job = new_job()
        while not stop.is_set():
            try:
                store.enqueue([job])
                accepted.append(job.id)
                break
            except (OutcomeUnknown, BackendUnavailable):
                refused.append(1)
                stop.wait(0.05)
    return accepted


def test_workers_and_producers_follow_a_failover_under_load(flavour: str) -> None:
    """A failover may lose acknowledged writes (docs/redis.md), so what is asked: work goes on, and little is missing."""
    with sentinel_house(flavour) as house:
        stop, done, troubles, refused = threading.Event(), set(), [], []
        stores = [RedisBackend(house.url, "ha") for _ in range(3)]
        workers = [
            threading.Thread(target=_work_through, args=(store, stop, done, troubles), daemon=True)
            for store in stores[1:]
        ]
        for worker in workers:
            worker.start()
        first = _enqueue_until_accepted(stores[0], 200, stop, refused)
        until(lambda: set(first) <= done, "the first 200 jobs", within=60)
        house.primary.kill()
        second = _enqueue_until_accepted(stores[0], 200, stop, refused)
        assert refused, "the primary was away for a while"
        assert house.primary_port() == house.replica.port
        until(lambda: set(second) <= done, "the jobs after the failover", within=60)
        stop.set()
        for worker in workers:
            worker.join(20)
        assert troubles == []
        assert stores[0].statistics().completed >= 200
        for store in stores:
            store.close()


def test_a_claim_lost_in_a_failover_is_adopted_again_by_the_next_beat(flavour: str) -> None:
    """The replica never saw the claim: its holder beats, and keeps the job."""
    with sentinel_house(flavour) as house:
        store, pool = RedisBackend(house.url, "ha"), some_pool()
        job_id = put(store)
        wait_until(lambda: _acknowledged(house), "the replica to have the job")
        house.replica.call("REPLICAOF", "NO", "ONE")  # from here on it hears of nothing
        hand = Hand(store, LaneId(WorkerId(pool, 0, 1)))
        claim = hand.take()
        heir = RedisBackend(house.replica.url, "ha")
        assert heir.job(job_id).status is Status.PENDING
        held = Held(hand.lane, job_id, claim.claim)
        assert heir.beat(beat(pool, [held])).lost == ()
        assert heir.job(job_id).status is Status.RUNNING
        assert heir.exchange(hand.lane, 2, settlement=settlement(claim)).settled is True
        store.close()
        heir.close()


def test_the_settlement_of_a_claim_lost_in_a_failover_is_believed(flavour: str) -> None:
    with sentinel_house(flavour) as house:
        store = RedisBackend(house.url, "ha")
        put(store, priority=99)
        job_id = put(store)
        wait_until(lambda: _acknowledged(house), "the replica to have the jobs")
        house.replica.call("REPLICAOF", "NO", "ONE")
        hand = Hand(store)
        hand.take()
        hand.settle(want=ANYTHING)  # requests 1 and 2 are unknown to the replica
        claim = hand.held
        assert claim is not None and claim.job_id == job_id
        heir = RedisBackend(house.replica.url, "ha")
        assert heir.exchange(hand.lane, 3, settlement=settlement(claim)).settled is True
        assert heir.job(job_id).status is Status.COMPLETED
        store.close()
        heir.close()


def _acknowledged(house) -> bool:
    facts = house.primary.call("INFO", "replication")
    return facts["slave0"]["offset"] == facts["master_repl_offset"]


def test_a_service_that_no_sentinel_knows_is_named(flavour: str) -> None:
    with sentinel_house(flavour) as house:
        store = RedisBackend(house.url.replace("/house/", "/mansion/"))
        with pytest.raises(BackendUnavailable, match="mansion"):
            store.ping()
            put(store)


def test_namespaces_spread_over_a_cluster_and_each_works_whole(flavour: str) -> None:
    with cluster(3, flavour) as nodes:
        for name in ("a", "b", "c", "d", "e", "f"):
            store = RedisBackend(cluster_url(nodes), name)
            ids = [receipt.job_id for receipt in store.enqueue([new_job() for _ in range(20)])]
            store.wait(ANYTHING, 0)
            hand, seen = Hand(store), []
            while claim := hand.claim():
                seen.append(claim.job_id)
                assert hand.complete()
            assert seen == ids
            store.wait(ANYTHING, 1.1)
            store.close()
        sizes = [node.call("DBSIZE") for node in nodes]
        assert sum(size > 0 for size in sizes) >= 2, sizes


def test_a_namespace_that_moves_to_another_node_is_followed(flavour: str) -> None:
    with cluster(3, flavour) as nodes:
        store = RedisBackend(cluster_url(nodes), "mover")
        put(store)
        slot = nodes[0].call("CLUSTER", "KEYSLOT", "{jobpool:mover}:jobs")
        source = next(node for node in nodes if node.call("DBSIZE") > 0)
        target = next(node for node in nodes if node is not source)
        ids = {node.port: node.call("CLUSTER", "MYID") for node in nodes}
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
        keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        half = sorted(keys)[: len(keys) // 2]
        _migrate(source, target, half)
        with pytest.raises(BackendUnavailable):
            put(store)
        _migrate(source, target, sorted(set(keys) - set(half)))
        for node in (target, source, *nodes):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
        assert store.statistics().enqueued == 1, "half moved: nothing changes"
        put(store)
        hand = Hand(store)
        hand.take()
        assert hand.complete() and hand.claim() is not None
        assert target.call("DBSIZE") > 0 and source.call("DBSIZE") == 0
        store.close()


def _migrate(source, target, keys: list[str]) -> None:
    with source.client() as client:
        client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
