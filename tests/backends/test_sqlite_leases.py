"""Leases on SQLite: processes are judged by pid and start time; boots and other pid namespaces by what can be known."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pool.backends.contract import Want
from pool.backends.sqlite.backend import SqliteBackend
from pool.identity import LaneId, PoolId, ProcessMark, WorkerId, process_mark
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, beat, dead_mark, departure, numbers_of, put, some_pool, worker
from tests.helpers.stores import in_child, open_sqlite
from tests.helpers.until import until

LEASE_S = 60.0


@dataclass
class World:
    """A machine whose clock, boot and processes a test may turn."""

    path: str
    seconds: float = 1000.0
    boot: str = "first boot"
    house: PoolId = field(default_factory=some_pool)

    def open(self, mark: ProcessMark | None = None) -> SqliteBackend:
        """A client; `mark` is the process that the store will think it is."""
        here = mark or self.mark()
        return open_sqlite(self.path, boottime=lambda: self.seconds, boot=lambda: self.boot, mark=lambda: here)

    def mark(self, *, alive: bool = True, namespace: int | None = None) -> ProcessMark:
        mark = process_mark() if alive else dead_mark()
        return replace(mark, boot_id=self.boot, pid_namespace=namespace or mark.pid_namespace)

    def claimed_by(self, owner: ProcessMark) -> Hand:
        """A hand that holds a new job, in a process with this mark."""
        store = self.open(owner)
        put(store)
        hand = Hand(store, LaneId(WorkerId(self.house, 0, 1)))
        hand.take()
        return hand

    def beat(self, hand: Hand, supervisor: ProcessMark) -> None:
        hand.store.beat(beat(self.house, [hand.as_held()], mark=supervisor, lease_seconds=LEASE_S))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(str(tmp_path / "jobpool.db"))
    monkeypatch.setattr("pool.identity.boot_id", lambda: made.boot)
    return made


def _watched(world: World, keeper: SqliteBackend, seconds: float, step: float = 1.0) -> list:
    """What the keeper recovers while the world's clock advances second by second."""
    taken = []
    end = world.seconds + seconds
    while world.seconds < end:
        world.seconds += step
        taken += keeper.recover_expired()
    return taken


def test_a_living_process_is_never_robbed_however_long_its_pool_is_silent(world: World) -> None:
    hand = world.claimed_by(world.mark())
    world.beat(hand, world.mark(alive=False))
    assert _watched(world, world.open(), 10 * LEASE_S) == []
    assert hand.complete()


def test_a_dead_process_of_a_dead_supervisor_is_recovered_at_once(world: World) -> None:
    hand = world.claimed_by(world.mark(alive=False))
    world.beat(hand, world.mark(alive=False))
    [taken] = world.open().recover_expired()
    assert taken.status is Status.PENDING
    assert numbers_of(world.open().job(taken.job_id)) == (Status.PENDING, 0, 0, 1, 0)


def test_a_dead_process_whose_supervisor_lives_is_left_to_its_own_keeper_for_a_lease(world: World) -> None:
    """That keeper knows how the process died; the others only know that it did."""
    hand = world.claimed_by(world.mark(alive=False))
    world.beat(hand, world.mark())
    keeper = world.open()
    assert _watched(world, keeper, LEASE_S - 2) == []
    assert len(_watched(world, keeper, 4)) == 1


def test_a_pool_that_died_before_its_first_beat_is_recovered(world: World) -> None:
    world.claimed_by(world.mark(alive=False))
    assert len(_watched(world, world.open(), LEASE_S + 2)) == 1


def test_after_a_reboot_every_lease_is_void_at_once(world: World) -> None:
    hand = world.claimed_by(world.mark())
    world.beat(hand, world.mark())
    world.boot, world.seconds = "second boot", 20.0
    [taken] = world.open().recover_expired()
    assert taken.job_id == hand.held.job_id
    job = world.open().job(taken.job_id)
    assert (job.status, job.retry_count, job.loss_count) == (Status.PENDING, 0, 1)
    assert hand.complete() is False


def test_an_at_most_once_job_of_the_boot_before_is_failed(world: World) -> None:
    store = world.open()
    job_id = put(store, max_retries=0)
    Hand(store).take()
    world.boot = "second boot"
    world.open().recover_expired()
    assert (store.job(job_id).status, store.job(job_id).reason) == (Status.FAILED, Reason.WORKER_LOST)


def test_the_tenth_loss_ends_it(world: World) -> None:
    store = world.open()
    job_id = put(store, max_retries=50)
    for turn in range(10):
        assert store.job(job_id).status is Status.PENDING
        Hand(world.open()).take()
        world.boot = f"boot {turn}"
        world.open().recover_expired()
    assert (store.job(job_id).status, store.job(job_id).loss_count) == (Status.FAILED, 10)
    assert [attempt.outcome for attempt in store.job(job_id).attempts] == [Outcome.LOST] * 10


def test_a_process_of_another_pid_namespace_is_judged_by_watching(world: World) -> None:
    """A container on the same disk: its pids mean nothing here, dead or alive."""
    elsewhere = world.mark(alive=False, namespace=4)
    hand = world.claimed_by(elsewhere)
    world.beat(hand, elsewhere)
    keeper = world.open()
    assert _watched(world, keeper, LEASE_S - 1) == []
    world.beat(hand, elsewhere)
    assert _watched(world, keeper, LEASE_S - 1) == [], "it showed life in between"
    assert len(_watched(world, keeper, 5)) == 1


def test_after_a_suspend_no_lease_is_taken_by_its_date(world: World) -> None:
    """CLOCK_BOOTTIME has counted the night; every beat looks a night old."""
    elsewhere = world.mark(alive=False, namespace=4)
    hand = world.claimed_by(elsewhere)
    world.beat(hand, elsewhere)
    keeper = world.open()
    _watched(world, keeper, 10)
    world.seconds += 8 * 3600
    assert _watched(world, keeper, LEASE_S - 1) == []
    world.beat(hand, elsewhere)
    assert _watched(world, keeper, LEASE_S - 1) == []
    assert hand.complete()


def test_a_wall_clock_that_jumps_frees_nothing(world: World) -> None:
    hand = world.claimed_by(world.mark())
    keeper = open_sqlite(world.path, wall=lambda: 4e9, boottime=lambda: world.seconds, boot=lambda: world.boot)
    assert keeper.recover_expired() == []
    assert hand.complete()


def test_an_http_holder_is_kept_by_its_lease_alone(world: World) -> None:
    """The web process that took the claim for it lives; that proves nothing of the holder."""
    store = world.open()
    put(store)
    hand = Hand(store)
    hand.take(Want(lease_seconds=30.0))
    world.seconds += 29
    assert store.recover_expired() == []
    store.report(hand.as_held(), progress=0.5)
    world.seconds += 29
    assert store.recover_expired() == []
    world.seconds += 2
    assert len(store.recover_expired()) == 1


def test_a_lost_pool_that_holds_nothing_is_forgotten_and_a_living_one_is_not(world: World) -> None:
    keeper = world.open()
    gone, here = some_pool("gone"), some_pool("here")
    keeper.beat(beat(gone, mark=world.mark(alive=False)))
    keeper.beat(beat(here, mark=world.mark()))
    keeper.recover_expired()
    assert [pool.pool for pool in keeper.pools()] == [here]


# ---------------------------------------------------------------- with real processes


def _start(work: Callable[[], None]) -> int:
    ready_out, ready_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        work()
        os.write(ready_in, b"!")
        signal.pause()
    os.close(ready_in)
    os.read(ready_out, 1)
    os.close(ready_out)
    return pid


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_an_orphan_that_still_works_is_not_robbed_until_it_dies(tmp_path: Path) -> None:
    path, house = str(tmp_path / "jobpool.db"), some_pool()
    store = open_sqlite(path)
    job_id = put(store)
    supervisor = _start(lambda: None)
    mark = process_mark(supervisor)
    worker = _start(lambda: Hand(open_sqlite(path), LaneId(WorkerId(house, 0, 1))).take() and None)
    store.beat(beat(house, mark=mark))
    _end(supervisor)
    for _ in range(5):
        assert store.recover_expired() == []
    _end(worker)
    [taken] = until(store.recover_expired, "the rescue")
    assert (taken.job_id, taken.status) == (job_id, Status.PENDING)


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    path, house = str(tmp_path / "jobpool.db"), some_pool()
    store = open_sqlite(path)
    put(store)
    worker = _start(lambda: Hand(open_sqlite(path), LaneId(WorkerId(house, 0, 1))).take() and None)
    store.beat(beat(house, mark=dead_mark()))
    os.kill(worker, signal.SIGKILL)
    [taken] = until(store.recover_expired, "the rescue")
    assert taken.status is Status.PENDING
    os.waitpid(worker, 0)


def test_a_claim_repeated_by_the_same_lane_is_the_same_after_a_restart_of_the_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "jobpool.db")
    store = open_sqlite(path)
    put(store)
    hand = Hand(store)
    first = hand.take()
    store.close()
    again = store.exchange(hand.lane, hand.request, want=Want())
    assert again.claim is not None
    assert replace(again.claim, claimed_boottime=0.0) == replace(first, claimed_boottime=0.0)
    assert in_child(lambda: open_sqlite(path).queues()[0].running).result() == 1


def test_the_lanes_of_departed_workers_do_not_pile_up(tmp_path: Path) -> None:
    """A pool that replaces a worker after each job lives for years."""
    path = tmp_path / "jobpool.db"
    with closing(SqliteBackend(str(path))) as store:
        pool = some_pool()
        for generation in range(1, 40):
            hand = Hand(store, LaneId(worker(pool, slot=1, generation=generation)))
            put(store)
            hand.take()
            hand.complete()
            store.recover(departure(hand.lane.worker))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM lanes").fetchone()[0] <= 2
