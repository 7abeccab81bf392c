"""The queue for the write lock: bounded, named, fair, and free again when its holder dies."""

import os
import signal
import sqlite3
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.backends.sqlite.lock import Turn, lock_of, open_side_file
from pool.clock import monotonic_now
from pool.errors import BackendBusy
from tests.helpers.builders import ANYTHING, Hand, drain, new_jobs, put
from tests.helpers.stores import in_child, open_sqlite, together
from tests.helpers.until import until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobpool.db")


class Holder:
    """A process that has the write lock until it is let go or killed."""

    def __init__(self, path: str) -> None:
        ready, self._ready = os.pipe()
        self._gate, gate = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(gate)
            lock_of(path, os.stat(path)).acquire(30)
            os.write(self._ready, b"!")
            os.read(self._gate, 1)
            os._exit(0)
        os.close(self._gate)
        self._let_go_fd = gate
        os.read(ready, 1)
        os.close(ready)
        os.close(self._ready)

    def let_go(self) -> None:
        os.close(self._let_go_fd)
        os.waitpid(self.pid, 0)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._let_go_fd)


@pytest.fixture
def holder(path: str) -> Iterator[Holder]:
    open_sqlite(path).enqueue(new_jobs(1))
    yield Holder(path)


def test_a_busy_store_is_reported_after_the_wait_and_names_who_holds_it(path: str, holder: Holder) -> None:
    store = open_sqlite(path, lock_wait=0.3)
    begin = monotonic_now()
    with pytest.raises(BackendBusy, match=f"process {holder.pid} holds it") as busy:
        put(store)
    assert busy.value.holder_pid == holder.pid
    assert monotonic_now() - begin >= 0.3
    holder.let_go()
    put(store)


def test_reading_does_not_wait_for_the_write_lock(path: str) -> None:
    store = open_sqlite(path, lock_wait=0.3)
    put(store)
    holder = Holder(path)
    assert store.queues()[0].pending == 1
    assert store.ping() < 5
    holder.let_go()


def test_the_lock_of_a_killed_process_is_free_at_once(path: str, holder: Holder) -> None:
    store = open_sqlite(path, lock_wait=20.0)
    done = threading.Event()

    def work() -> None:
        put(store)
        done.set()

    waiter = threading.Thread(target=work)
    waiter.start()
    assert not done.wait(0.2)
    holder.kill()
    assert done.wait(10), "a dead holder wakes nobody: waiters look again by themselves"
    waiter.join()


def turns(folder: Path, count: int) -> list[Turn]:
    """As so many processes have them."""
    return [Turn(open_side_file(str(folder / "lock"), folder.stat())) for _ in range(count)]


def test_who_watches_sees_the_next_release(tmp_path: Path) -> None:
    mine, other = turns(tmp_path, 2)
    seen = mine.now()
    assert not mine.watch(seen), "nothing was released"
    other.pass_on()
    until(lambda: mine.watch(seen), "it is seen")


def test_who_dies_while_it_watches_keeps_nobody_asleep(tmp_path: Path) -> None:
    """Its mark is left behind: the next release but for a moment wakes who sleeps as ever."""
    mine, other = turns(tmp_path, 2)

    def watch_for_ever() -> None:
        while True:
            other.watch(other.now())

    pid = os.fork()
    if pid == 0:
        watch_for_ever()
    until(lambda: mine._words[2], "it watches")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    mine.mark_waiting()
    until(lambda: (mine.pass_on(), mine._words[1] == 0)[1], "a release wakes")


def test_a_process_outside_our_queue_is_waited_for(path: str) -> None:
    """Somebody writes with the sqlite3 shell: no call of ours fails with "database is locked"."""
    store = open_sqlite(path)
    put(store)
    foreign = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.7, lambda: foreign.execute("COMMIT"))
    timer.start()
    begin = monotonic_now()
    put(store)
    assert monotonic_now() - begin > 0.3
    timer.join()
    foreign.close()


def test_a_process_outside_our_queue_that_never_ends_is_a_busy_store(path: str) -> None:
    store = open_sqlite(path, lock_wait=0.3)
    put(store)
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendBusy):
        put(store)
    foreign.execute("COMMIT")
    foreign.close()
    put(store)


def test_threads_and_objects_of_one_process_share_its_place(path: str) -> None:
    """fcntl locks do not exclude the own process, and closing one descriptor frees the lock of another."""
    shared = open_sqlite(path)
    put(shared)
    problems: list[BaseException] = []

    def work(number: int) -> None:
        store = shared if number % 2 else open_sqlite(path)
        try:
            for _ in range(50):
                put(store)
            if store is not shared:
                store.close()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert shared.statistics().enqueued == 301


def test_a_store_made_in_one_thread_is_used_in_another(path: str) -> None:
    store = open_sqlite(path)
    put(store)
    answers: list[list[str]] = []
    thread = threading.Thread(target=lambda: answers.append(drain(Hand(store))))
    thread.start()
    thread.join()
    assert len(answers[0]) == 1


def test_many_processes_that_make_the_store_at_once_make_one(path: str) -> None:
    assert sum(len(each) == 36 for each in together(30, lambda number: put(open_sqlite(path, lock_wait=30.0)))) == 30
    assert open_sqlite(path).queues()[0].pending == 30


@pytest.mark.serial
def test_eight_processes_get_fair_shares(path: str) -> None:
    open_sqlite(path).enqueue(new_jobs(8_000))

    def work(number: int) -> tuple[int, float]:
        store = open_sqlite(path)
        hand, worst = Hand(store), 0.0
        done = 0
        answer = hand.exchange(want=ANYTHING)
        while answer.claim is not None:
            begin = monotonic_now()
            answer = hand.settle(want=ANYTHING)
            worst = max(worst, monotonic_now() - begin)
            done += 1
        return done, worst

    shares = together(8, work)
    counts = [count for count, _ in shares]
    assert sum(counts) == 8_000
    assert min(counts) >= statistics.mean(counts) * 0.4, shares
    assert max(worst for _, worst in shares) < 6.0, shares


def test_nothing_is_lost_when_holders_are_killed_in_the_middle(path: str) -> None:
    """SIGKILL at any moment of a transaction: the next one finds a sound database and every accepted job."""
    store = open_sqlite(path)
    put(store)
    for _ in range(10):
        accepted_out, accepted_in = os.pipe()
        pid = os.fork()
        if pid == 0:
            mine = open_sqlite(path)
            while True:
                os.write(accepted_in, put(mine).encode())
        os.close(accepted_in)
        first = os.read(accepted_out, 36 * 3)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        accepted = first + os.read(accepted_out, 65_536)
        os.close(accepted_out)
        ids = [accepted[at : at + 36].decode() for at in range(0, len(accepted), 36)]
        assert [store.job(job_id).id for job_id in ids] == ids
    assert _integrity(path) == "ok"
    assert store.queues()[0].pending == len(drain(Hand(store)))


def _integrity(path: str) -> str:
    def check() -> str:
        return str(sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0])

    return until(lambda: in_child(check).result())
