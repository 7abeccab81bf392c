"""The story of `jobpool demo`: a pool at work on real files, a worker killed in mid-job, an account of every job.

The story is told by `Story`; how it looks is `demo_view`'s matter; the pool is a real one (`demo_pool`).
"""

import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pool.backends.contract import Backend, JobFilter
from pool.cli.demo_files import find_files
from pool.cli.demo_pool import DemoPool, PoolFailed, pause
from pool.cli.demo_view import View, make_view
from pool.cli.failures import NEGATIVE, OK
from pool.cli.listing import matching
from pool.client import Client
from pool.clock import monotonic_now, wall_now
from pool.identity import parse_lane
from pool.jobs.job import Job, NewJob, Outcome
from pool.jobs.lifecycle import Status

LOOK_EVERY_S = 0.1
LOOK_CLOSELY_S = 0.01
STALLED_AFTER_S = 90.0
CAREFUL_SECONDS = 2.5
KILL_AFTER_S = 0.7
FLAKY = 3


def tell(path: Path, workers: int) -> int:
    """The whole demo; 0 when every job is accounted for."""
    found = find_files(path)
    view = make_view()
    view.say(f"{len(found.files):,} files under {path.absolute()}")
    for words in found.said:
        view.say(words)
    with DemoPool(workers) as pool, Client(pool.url) as client:
        view.say(f"a pool of {workers} workers and a keeper is ready, everything of it in {pool.folder}")
        story = Story(pool, client, view)
        story.enqueue(found.files)
        with view:
            story.watch()
        account = story.account()
        exit_code = pool.stop()
    view.say_summary(account)
    return OK if account.is_whole and exit_code == 0 else NEGATIVE


@dataclass(slots=True)
class Account:
    """What became of every job, as counted in the store."""

    enqueued: int
    completed: int
    failed: Counter[str]
    retried: int
    unaccounted: int
    killed: str
    recovered: str
    recovery_s: float | None
    checksums: int
    checksum_seconds: float
    problems: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Enqueued = completed + failed, and the killed worker's job completed on another one."""
        is_even = self.enqueued == self.completed + sum(self.failed.values())
        return is_even and not self.unaccounted and not self.problems and bool(self.recovered)


class Story:
    """Enqueue, watch, kill one worker on the way, count."""

    def __init__(self, pool: DemoPool, client: Client, view: View) -> None:
        self.pool, self.client, self.view = pool, client, view
        self.job_ids: list[str] = []
        self.careful_id = ""
        self.victim: dict[str, Any] | None = None
        self.killed_wall = self.enqueued_wall = 0.0
        self.is_seen_again = False

    @property
    def store(self) -> Backend:
        return self.client.backend()

    def enqueue(self, files: list[str]) -> None:
        """All jobs in batches; the one whose worker will be killed goes first."""
        self.enqueued_wall = wall_now()
        receipts = self.client.enqueue_many(drafts(files), chunked=True)
        self.job_ids = [receipt.job_id for receipt in receipts]
        self.careful_id = self.job_ids[0]
        self.view.say(
            f"enqueued {len(receipts):,} jobs: {len(files):,} checksums, {FLAKY} that fail at first, "
            "1 that never can, and 1 slow one whose worker will be killed"
        )

    def watch(self) -> None:
        """Look until nothing is left to do; PoolFailed when nothing moves any more."""
        done, moved_at = -1, monotonic_now()
        while done < len(self.job_ids):
            self.pool.refuse_death()
            workers = self.pool.workers()
            self._follow_the_slow_job(workers)
            before, done = done, self._count_done()
            moved_at = monotonic_now() if done != before else moved_at
            if monotonic_now() - moved_at > STALLED_AFTER_S:
                raise PoolFailed(f"{done} of {len(self.job_ids)} jobs are done and nothing moves any more")
            self.view.show(done, len(self.job_ids), workers)
            pause(LOOK_CLOSELY_S if self.victim and not self.is_seen_again else LOOK_EVERY_S)

    def account(self) -> Account:
        """Every job looked up in the store."""
        jobs = {job.id: job for job in matching(self.store, JobFilter(), None)}
        ours = [jobs[job_id] for job_id in self.job_ids if job_id in jobs]
        slow = self.client.get(self.careful_id)
        finished = [job.finished_at or 0.0 for job in ours if job.type == "demo.checksum"]
        seconds = max(finished, default=self.enqueued_wall) - self.enqueued_wall
        return Account(
            enqueued=len(self.job_ids),
            completed=sum(job.status is Status.COMPLETED for job in ours),
            failed=Counter(str(job.reason) for job in ours if job.status is Status.FAILED),
            retried=sum(job.retry_count for job in ours),
            unaccounted=len(set(self.job_ids) - jobs.keys()) + sum(job.status.is_live for job in ours),
            killed=f"worker {self.victim['slot']} (pid {self.victim['pid']})" if self.victim else "",
            recovered=recovery_words(slow),
            recovery_s=slow.started_at - self.killed_wall if slow.started_at and self.killed_wall else None,
            checksums=len(finished),
            checksum_seconds=seconds,
            problems=problems(slow),
        )

    # ------------------------------------------------------------------

    def _follow_the_slow_job(self, workers: list[dict[str, Any]]) -> None:
        holder = next((w for w in workers if any(job["id"] == self.careful_id for job in w["jobs"])), None)
        if holder is None:
            return
        if self.victim is None and holder["jobs"][0]["seconds"] >= KILL_AFTER_S:
            self._kill(holder)
        elif self.victim is not None and holder["pid"] != self.victim["pid"] and not self.is_seen_again:
            self.is_seen_again = True
            self.view.say(f"its job runs again on worker {holder['slot']} (pid {holder['pid']})")

    def _kill(self, holder: dict[str, Any]) -> None:
        self.victim, self.killed_wall = holder, wall_now()
        os.kill(holder["pid"], signal.SIGKILL)
        self.view.say(f"killed worker {holder['slot']} (pid {holder['pid']}) with SIGKILL in the middle of a job")

    def _count_done(self) -> int:
        return sum(state.completed + state.failed for state in self.store.queues())


def drafts(files: list[str]) -> list[NewJob]:
    """The jobs of the demo, the slow one first."""
    from pool.cli import demo_jobs  # it declares job types, which only a program that runs the demo should have

    own = str(Path(demo_jobs.__file__))
    first = files[0] if files else own
    return [
        demo_jobs.careful_checksum.draft(path=own, seconds=CAREFUL_SECONDS),
        *(demo_jobs.flaky_checksum.draft(path=first, fails=1 + n % 2) for n in range(FLAKY)),
        demo_jobs.hopeless_checksum.draft(path=f"{first}.not-there"),
        *(demo_jobs.checksum.draft(path=file) for file in files),
    ]


def recovery_words(slow: Job) -> str:
    """Where the killed worker's job was completed; empty when it was not, or on the same process."""
    lost = [attempt.worker for attempt in slow.attempts if attempt.outcome is Outcome.LOST]
    done = [
        attempt.worker
        for attempt in slow.attempts
        if attempt.outcome is not None and attempt.outcome.value == "completed"
    ]
    return f"{_short(lost[-1])} → {_short(done[-1])}" if lost and done and lost[-1] != done[-1] else ""


def _short(worker_id: str) -> str:
    """`worker 3, generation 1` from the lane's full name."""
    worker = parse_lane(worker_id).worker
    return f"worker {worker.slot}.{worker.generation}"


def problems(slow: Job) -> list[str]:
    """What did not go as it must."""
    if slow.status is not Status.COMPLETED:
        return [f"the killed worker's job is {slow.status.value}, not completed"]
    if not recovery_words(slow):
        return ["the killed worker's job was not run again on another worker"]
    return []
