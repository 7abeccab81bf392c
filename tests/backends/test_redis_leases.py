"""Leases on Redis are judged by watching a counter, never by dates: outages and clocks free no job (PROTOCOL 8)."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pool.backends.redis.backend import RedisBackend
from pool.backends.redis.watching import Silence, Watch, Watched, WatchedLane
from pool.clock import boottime_now
from pool.errors import BackendUnavailable, LaneBarred
from pool.identity import LaneId, PoolId, WorkerId, process_mark
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, beat, dead_mark, put, some_pool
from tests.helpers.servers import Server, running
from tests.helpers.until import until

LEASE_SECONDS = 8.0
HOUSE = PoolId("house", "far", "abc")
HOLDS = WatchedLane("0.1/0", 0.0, "0", None)


def pool_row(beats: int = 7, *, lanes: tuple[WatchedLane, ...] = (HOLDS,), **fields: object) -> Watched:
    row = Watched(HOUSE, str(beats), LEASE_SECONDS, None, 0.0, False, b"{}", lanes)
    return replace(row, **fields)  # type: ignore[arg-type]


def watched(readings: list[tuple[float, int | None]]) -> list[list[Silence]]:
    """Verdicts of a watch that reads the beat counter at these moments; None = the read failed."""
    watch, verdicts = Watch(), []
    for moment, beats in readings:
        if beats is None:
            watch.read_failed()
            verdicts.append([])
        else:
            verdicts.append(watch.judge([pool_row(beats)], moment))
    return verdicts


def test_a_counter_that_stands_for_a_whole_lease_is_a_lost_pool() -> None:
    verdicts = watched([(float(second), 7) for second in range(9)])
    assert verdicts[:8] == [[]] * 8
    assert verdicts[8] == [Silence(HOUSE, "7")]


def test_a_moving_counter_is_never_lost() -> None:
    assert watched([(float(second), second // 3) for second in range(100)]) == [[]] * 100


def test_a_whole_lease_in_fewer_than_five_reads_proves_nothing() -> None:
    assert watched([(0.0, 7), (3.5, 7), (7.0, 7), (10.5, 7)]) == [[]] * 4


def test_a_failed_read_starts_the_watch_anew() -> None:
    readings: list[tuple[float, int | None]] = [(float(second), 7) for second in range(8)]
    readings += [(8.0, None), *((float(second), 7) for second in range(9, 17))]
    assert watched(readings) == [[]] * len(readings)


def test_a_gap_longer_than_two_periods_starts_the_watch_anew() -> None:
    """The watcher itself was stopped or suspended: it cannot know who beat meanwhile."""
    readings = [(float(second), 7) for second in range(7)] + [(60.0, 7), (61.0, 7), (62.0, 7)]
    assert watched(readings) == [[]] * 10


def test_a_silent_pool_that_holds_nothing_is_forgotten_later() -> None:
    watch = Watch()
    found = [watch.judge([pool_row(lanes=())], float(second)) for second in range(100)]
    assert found[50] == [], "its bars are still wanted for claims on the wire"
    assert Silence(HOUSE, "7", is_forgotten=True) in found[99]


def test_a_holder_with_a_lease_of_its_own_is_judged_by_its_renewals() -> None:
    watch = Watch()
    kept, silent = WatchedLane("0.1/0", 4.0, "1", None), WatchedLane("0.2/0", 4.0, "1", None)
    found: list[Silence] = []
    for second in range(7):
        lanes = (replace(kept, renewals=str(second)), silent)
        found += watch.judge([pool_row(second, lanes=lanes)], float(second))
    assert set(found) == {Silence(HOUSE, "1", lane="0.2/0")}


def test_a_death_on_this_machine_is_proven_at_once() -> None:
    gone = replace(HOLDS, mark=dead_mark())
    assert Watch().judge([pool_row(mark=dead_mark(), lanes=(gone,))], 0.0) == [Silence(HOUSE, worker="0.1")]


@pytest.mark.parametrize(
    ("supervisor", "worker"),
    [
        (process_mark(), dead_mark()),
        (dead_mark(), process_mark()),
        (dead_mark(), None),
        (None, dead_mark()),
        (replace(dead_mark(), boot_id="another"), dead_mark()),
        (dead_mark(), replace(dead_mark(), pid_namespace=1)),
    ],
)
def test_half_a_proof_or_one_from_elsewhere_proves_nothing(supervisor, worker) -> None:
    assert Watch().judge([pool_row(mark=supervisor, lanes=(replace(HOLDS, mark=worker),))], 0.0) == []


# ---------------------------------------------------------------- with a server


@pytest.fixture
def server(flavour: str) -> Iterator[Server]:
    with running(flavour, aof=True) as found:
        yield found


def _working(server: Server, house: PoolId) -> tuple[RedisBackend, Hand]:
    store = RedisBackend(server.url, "lease")
    put(store)
    hand = Hand(store, LaneId(WorkerId(house, 0, 1)))
    hand.take()
    store.beat(beat(house, [hand.as_held()], lease_seconds=2.0))
    return store, hand


def test_a_server_that_was_away_longer_than_the_lease_frees_no_job(server: Server) -> None:
    """Neither pool could beat; the watcher's reads failed, so it has seen nothing."""
    house = some_pool()
    store, hand = _working(server, house)
    watcher = RedisBackend(server.url, "lease")
    assert watcher.recover_expired() == []
    server.stop()
    end = boottime_now() + 5.0
    while boottime_now() < end:
        with pytest.raises(BackendUnavailable):
            watcher.recover_expired()
    server.start()
    assert watcher.recover_expired() == []
    for _ in range(10):
        assert store.beat(beat(house, [hand.as_held()], lease_seconds=2.0)).lost == ()
        assert watcher.recover_expired() == []
    assert hand.complete()
    store.close()
    watcher.close()


def test_a_pool_stopped_past_its_lease_comes_back_to_one_outcome(server: Server) -> None:
    """The job moved on; the late settlement is refused, its worker barred, its beat told what it lost."""
    house = some_pool()
    store, hand = _working(server, house)
    held = hand.as_held()
    watcher = RedisBackend(server.url, "lease")
    [taken] = until(watcher.recover_expired, "the take-over", within=40)
    heir = Hand(watcher)
    claim = heir.take()
    assert claim.job_id == taken.job_id
    assert store.beat(beat(house, [held], lease_seconds=2.0)).lost == (held,)
    assert hand.settle(Outcome.COMPLETED).settled is False
    with pytest.raises(LaneBarred):
        hand.claim()
    assert heir.complete()
    assert store.job(claim.job_id).status is Status.COMPLETED
    successor = Hand(store, LaneId(WorkerId(house, 0, 2)))
    put(store)
    assert successor.claim() is not None
    store.close()
    watcher.close()


def test_a_beat_between_the_last_look_and_the_take_over_saves_the_job(server: Server) -> None:
    house = some_pool()
    store, hand = _working(server, house)
    [row] = [Watched.read(row) for row in store._session.run("watch", store._keys.fixed)]
    store.beat(beat(house, [hand.as_held()], lease_seconds=2.0))
    assert store._end_silence(Silence(row.pool, row.beats)) == []
    assert hand.complete()
    store.close()


def test_two_rescuers_take_a_job_back_once(server: Server) -> None:
    store, hand = _working(server, some_pool())
    rescuers = [RedisBackend(server.url, "lease") for _ in range(2)]
    taken: list[object] = []

    def both_look() -> bool:
        for rescuer in rescuers:
            taken.extend(rescuer.recover_expired())
        return bool(taken)

    until(both_look, "the rescue", within=40)
    for _ in range(3):
        both_look()
    assert len(taken) == 1
    assert store.job(hand.held.job_id).loss_count == 1
    for each in (store, *rescuers):
        each.close()


def test_a_look_at_pools_that_beat_reads_none_of_their_lanes(server: Server) -> None:
    store = RedisBackend(server.url, "glance")
    for number in range(20):
        house = some_pool(f"house-{number}")
        store.beat(beat(house, [], lease_seconds=60.0))
        for slot in range(3):
            Hand(store, LaneId(WorkerId(house, slot, 1))).claim()
    server.call("CONFIG", "RESETSTAT")
    for _ in range(3):
        assert store.recover_expired() == []
    stats = server.call("INFO", "commandstats")
    assert stats["cmdstat_hmget"]["calls"] == 3 * 20
    assert "cmdstat_hgetall" not in stats
    store.close()


def test_one_job_costs_one_round_trip(server: Server) -> None:
    store = RedisBackend(server.url, "trip")
    jobs = 200
    for _ in range(jobs):
        put(store)
    hand = Hand(store)
    hand.take()
    server.call("CONFIG", "RESETSTAT")
    while hand.settle(want=ANYTHING).claim:
        pass
    stats = server.call("INFO", "commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == jobs
    assert "cmdstat_eval" not in stats
    assert store.statistics().completed == jobs
    store.close()
