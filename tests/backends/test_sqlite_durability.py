"""What is on disk when a call returns: seen from outside, in the system calls of the process that made it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.backends.sqlite.backend import SqliteBackend
from pool.errors import BackendUnavailable, OutcomeUnknown
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, beat, died_working, new_job, put, some_pool
from tests.helpers.stores import in_child, open_sqlite

Act = Callable[[SqliteBackend, Hand], object]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobpool.db")


def _syncs_during(path: str, prepare: Act, act: Act) -> int:
    """How many times a process syncs a file inside `act`, counted by strace between two marks."""
    if shutil.which("strace") is None:
        if os.environ.get("CI"):
            pytest.fail("no strace on this machine, and CI never skips")
        pytest.skip("no strace on this machine")
    go_out, go_in = os.pipe()
    ready_out, ready_in = os.pipe()

    def work() -> None:
        store = open_sqlite(path)
        hand = Hand(store)
        prepare(store, hand)
        os.write(ready_in, b"!")
        os.read(go_out, 1)
        _mark("begin")
        act(store, hand)
        _mark("end")

    child = in_child(work)
    os.read(ready_out, 1)
    trace = Path(path).with_suffix(".trace")
    tracer = subprocess.Popen(
        [
            "strace",
            "-f",
            "-y",
            "-e",
            "trace=fdatasync,fsync,access,faccessat,faccessat2",
            "-o",
            trace,
            "-p",
            str(child.pid),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    while "attached" not in tracer.stderr.readline():
        assert tracer.poll() is None, "strace could not attach"
    os.write(go_in, b"!")
    child.result()
    tracer.wait(30)
    tracer.stderr.close()
    between = trace.read_text().partition("mark-begin")[2].partition("mark-end")[0]
    assert "mark-end" in trace.read_text()
    return between.count("sync(")


def _mark(name: str) -> None:
    os.access(f"/mark-{name}", os.F_OK)


def _nothing(store: SqliteBackend, hand: Hand) -> None:
    put(store)


def _holding(**fields: object) -> Act:
    def prepare(store: SqliteBackend, hand: Hand) -> None:
        put(store, **fields)
        hand.take()

    return prepare


def _waiting(**fields: object) -> Act:
    return lambda store, hand: put(store, **fields)


def _cancel_first(store: SqliteBackend) -> None:
    store.cancel(store.jobs(JobFilter()).jobs[0].id)


SYNCED: dict[str, tuple[Act, Act]] = {
    "enqueue": (_nothing, lambda store, hand: put(store)),
    "batch": (_nothing, lambda store, hand: store.enqueue([new_job(), new_job()])),
    "cancel": (_waiting(), lambda store, hand: _cancel_first(store)),
    "pause": (_nothing, lambda store, hand: store.set_queue("default", paused=True)),
    "purge": (_waiting(), lambda store, hand: store.purge("default", statuses=frozenset({Status.PENDING}))),
    "claim at most once": (_waiting(max_retries=0), lambda store, hand: hand.take()),
    "settle at most once": (_holding(max_retries=0), lambda store, hand: hand.complete()),
    "settle with children": (_holding(), lambda store, hand: hand.settle(children=(new_job(),))),
    "settle with a follower": (_holding(on_success=new_job()), lambda store, hand: hand.complete()),
}
NOT_SYNCED: dict[str, tuple[Act, Act]] = {
    "claim": (_waiting(), lambda store, hand: hand.take()),
    "settle": (_holding(), lambda store, hand: hand.complete()),
    "settle and claim": (_holding(), lambda store, hand: hand.settle(want=ANYTHING)),
    "retry": (_holding(), lambda store, hand: hand.settle(Outcome.RETRIED, delay=60.0)),
    "recover": (_holding(), lambda store, hand: store.recover(died_working(hand))),
    "beat": (_nothing, lambda store, hand: store.beat(beat(some_pool()))),
    "look": (_nothing, lambda store, hand: store.queues()),
}


@pytest.mark.parametrize("name", SYNCED, ids=lambda name: name.replace(" ", "-"))
def test_what_a_person_or_a_promise_depends_on_is_synced(path: str, name: str) -> None:
    assert _syncs_during(path, *SYNCED[name]) >= 1


@pytest.mark.parametrize("name", NOT_SYNCED, ids=lambda name: name.replace(" ", "-"))
def test_what_can_safely_happen_twice_is_not(path: str, name: str) -> None:
    assert _syncs_during(path, *NOT_SYNCED[name]) == 0


def test_a_sync_that_fails_says_that_the_outcome_is_unknown_and_of_what(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row may be stored all the same: the same ids can be enqueued again."""
    store = open_sqlite(path)
    put(store)
    jobs = [new_job(), new_job()]

    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(OutcomeUnknown) as unknown:
            store.enqueue(jobs)
    assert unknown.value.job_ids == tuple(job.id for job in jobs)
    again = store.enqueue([*jobs, replace(jobs[0])])
    assert [receipt.job_id for receipt in again] == [jobs[0].id, jobs[1].id, jobs[0].id]
    assert store.statistics().enqueued == 3


def test_a_claim_whose_sync_failed_is_synced_before_it_is_given_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job that may start at most once would start on a claim that a power cut undoes."""
    store = open_sqlite(path)
    hand = Hand(store)
    put(store, max_retries=0)
    synced: list[int] = []

    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        for _ in range(2):
            with pytest.raises(BackendUnavailable):
                store.exchange(hand.lane, 1, want=ANYTHING)
        patch.setattr(os, "fdatasync", synced.append)
        claim = store.exchange(hand.lane, 1, want=ANYTHING).claim
    assert claim is not None
    assert synced
