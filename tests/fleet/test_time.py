"""Leases over many pools: absences of the server, of a keeper, of a whole pool, and a clock that jumps. Nothing is taken
from those who live; what moved on has one outcome."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from tests.fleet.fleet import Fleet, FleetHouse, fleet
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, running
from tests.helpers.until import until

LEASE_S = 3.0  # a keeper that waits for a processor must not look like one that is gone


@contextmanager
def two_pools(tmp_path: Path, server: Server, workers: int = 1, lease: float = LEASE_S) -> Iterator[Fleet]:
    with fleet(server.url, tmp_path / "shared", workers=workers, lease=lease) as group:
        yield group


def hold_on_each(group: Fleet, count: int) -> list[str]:
    """Long jobs, all of them running."""
    jobs = [group.first.enqueue("tasks.hold", {"gate": f"g{n}"}) for n in range(count)]
    until(lambda: set(group.starts()) >= set(jobs), "all of them running")
    return jobs


def release_all(group: Fleet, jobs: list[str]) -> None:
    for number in range(len(jobs)):
        group.first.release(f"g{number}")


def holder_of(group: Fleet, job: str) -> FleetHouse:
    return until(lambda: next((h for h in group.pools if any(job in w.jobs for w in h.workers())), None), "its holder")


def runs_of(group: Fleet, jobs: list[str]) -> list[int]:
    starts = group.starts()
    return [starts[job] for job in jobs]


@pytest.mark.parametrize("absence", ["stopped", "frozen"])
def test_a_server_away_for_three_leases_makes_no_job_run_twice(tmp_path: Path, absence: str) -> None:
    with running(DEFAULT_FLAVOUR, aof=True) as server, two_pools(tmp_path, server, workers=2) as group:
        jobs = hold_on_each(group, 4)
        (server.kill if absence == "stopped" else server.freeze)()
        time.sleep(3 * LEASE_S)
        (server.start if absence == "stopped" else server.thaw)()
        time.sleep(2 * LEASE_S)  # whoever would rob a job does it by now
        assert runs_of(group, jobs) == [1] * 4
        release_all(group, jobs)
        for job in jobs:
            assert group.first.wait_until(job, "completed").retry_count == 0
        assert runs_of(group, jobs) == [1] * 4


def test_a_keeper_stopped_past_the_lease_costs_no_job(tmp_path: Path) -> None:
    """The supervisor has another one at work before the lease is over."""
    lease = 3 * LEASE_S
    with running(DEFAULT_FLAVOUR) as server, two_pools(tmp_path, server, lease=lease) as group:
        jobs = hold_on_each(group, 2)
        victim = group.first.keeper_pid()
        os.kill(victim, signal.SIGSTOP)
        time.sleep(1.5 * lease)
        assert runs_of(group, jobs) == [1, 1]
        release_all(group, jobs)
        for job in jobs:
            group.first.wait_until(job, "completed")
        assert runs_of(group, jobs) == [1, 1]


def test_a_pool_stopped_past_its_lease_finds_its_job_moved_on(tmp_path: Path) -> None:
    with running(DEFAULT_FLAVOUR) as server, two_pools(tmp_path, server) as group:
        job = group.first.enqueue("tasks.hold", {"gate": "g0"})
        first = holder_of(group, job)
        frozen = first.pids()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: group.starts()[job] == 2, "the second run, in the other pool")
        group.first.release("g0")
        done = until(lambda: _over(group, job), "its end")
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        until(lambda: _knows(first), "the refusal in its log")
        again = group.first.job(job)
        assert (again.status, again.finished_at) == (Status.COMPLETED, done.finished_at)
        assert [attempt.outcome.value for attempt in again.attempts] == ["lost", "completed"]
        next_job = [group.first.enqueue("tasks.quick") for _ in range(20)]
        for each in next_job:
            group.first.wait_until(each, "completed")


def _knows(house: FleetHouse) -> bool:
    return any(word in house.log_text() for word in ("claim lost", "declared dead"))


def _over(group: Fleet, job: str) -> Job | None:
    found = group.first.job(job)
    return found if found.status is Status.COMPLETED else None


# ---------------------------------------------------------------- the server's clock

_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class DreamingServer(Server):
    """A server whose wall clock is set by a file."""

    def dream(self, shift: str) -> None:
        part = self.directory / "clock.part"
        part.write_text(shift)
        part.replace(self.directory / "clock")

    def _spawn(self) -> None:
        before = dict(os.environ)
        self.dream("+0")
        os.environ |= {
            "LD_PRELOAD": str(_LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.directory / "clock"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        try:
            super()._spawn()
        finally:
            os.environ.clear()
            os.environ |= before


@pytest.mark.parametrize("shift_s", [3600, -3600])
def test_a_server_clock_that_jumps_an_hour_frees_nothing(tmp_path: Path, shift_s: int) -> None:
    if not _LIBRARIES:
        assert os.environ.get("CI", "").lower() not in ("1", "true"), "CI installs libfaketime"
        pytest.skip("libfaketime is not installed")
    (tmp_path / "server").mkdir()
    server = DreamingServer("valkey", tmp_path / "server")  # Debian's redis-server and libfaketime do not go together
    try:
        server.start()
        with two_pools(tmp_path, server) as group:
            jobs = hold_on_each(group, 2)
            before = group.first.store.server_now()
            server.dream(f"{shift_s:+d}")
            until(lambda: abs(group.first.store.server_now() - before - shift_s) < 60, "the jump")
            time.sleep(3 * LEASE_S)
            assert runs_of(group, jobs) == [1, 1]
            release_all(group, jobs)
            for job in jobs:
                group.first.wait_until(job, "completed")
            assert runs_of(group, jobs) == [1, 1]
            group.first.wait_until(group.first.enqueue("tasks.quick"), "completed")
    finally:
        server.kill()
