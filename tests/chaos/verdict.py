"""The comparison at the end: what the ledger and the books say against what the store says. Pure; one rule, one function."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pool.jobs.job import Job, Outcome
from tests.chaos.town import LEASE_S, Absence

Line = dict[str, Any]
LONGEST_JOB_S = 4.0
OVER = ("completed", "failed", "cancelled")
MAY_FAIL_AS = {"hopeless": {"fatal_error"}, "once": {"worker_lost", "interrupted"}}


@dataclass
class Evidence:
    """All that is known. `jobs` are all of the store, by id; `cancels` the answers to a person's cancels."""

    kind: str
    accepted: dict[str, Line]
    doubtful: list[list[str]]
    notes: list[Line]
    jobs: dict[str, Job]
    cancels: list[Line] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    boards_lost: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.starts: dict[str, list[Line]] = defaultdict(list)
        self.ended_well: set[str] = set()
        for line in self.notes:
            if line["what"] == "start":
                self.starts[line["job"]].append(line)
            elif line["what"] == "end" and line["ok"]:
                self.ended_well.add(line["run"])


def nothing_lost(seen: Evidence) -> Iterator[str]:
    for job_id in seen.accepted.keys() - seen.jobs.keys():
        yield f"accepted job {job_id} is not in the store"


def batches_whole(seen: Evidence) -> Iterator[str]:
    for batch in seen.doubtful:
        found = sum(job_id in seen.jobs for job_id in batch)
        if found not in (0, len(batch)):
            yield f"{found} of {len(batch)} jobs of a batch are in the store: {batch}"


def one_job_for_a_key(seen: Evidence) -> Iterator[str]:
    """However often a producer had to say it, and through whichever web child."""
    keys = Counter(job.idempotency_key for job in seen.jobs.values() if job.idempotency_key)
    for key, count in keys.items():
        if count > 1:
            yield f"{count} jobs have the idempotency key {key}"


def all_over(seen: Evidence) -> Iterator[str]:
    for job in seen.jobs.values():
        if job.status not in OVER:
            yield f"job {job.id} ({job.type}) is still {job.status}"


def completed_jobs_ended(seen: Evidence) -> Iterator[str]:
    """The result names the run that made it, and that run came to its end."""
    for job in seen.jobs.values():
        run = json.loads(job.result) if job.result else None
        if job.status == "completed" and run not in seen.ended_well:
            yield f"job {job.id} is completed with the result of run {run}, which never ended"


def failures_are_the_jobs_own(seen: Evidence) -> Iterator[str]:
    for job in seen.jobs.values():
        allowed = MAY_FAIL_AS.get(job.type.removeprefix("tasks."), set())
        if job.status == "failed" and job.reason not in allowed:
            yield f"job {job.id} ({job.type}) failed: {job.reason} {job.error}"


def at_most_once(seen: Evidence) -> Iterator[str]:
    for job in seen.jobs.values():
        if job.max_retries == 0 and len(seen.starts[job.id]) > 1:
            yield f"at-most-once job {job.id} started {len(seen.starts[job.id])} times"


def unstarted_ones_not_failed(seen: Evidence) -> Iterator[str]:
    """Claimed is not started: only when a pool's board is lost may a job fail that never ran."""
    for job in seen.jobs.values():
        if job.type == "tasks.once" and job.status == "failed" and not seen.starts[job.id] and not seen.boards_lost:
            yield f"at-most-once job {job.id} failed ({job.reason}) without a start"


def no_two_runs_at_once(seen: Evidence) -> Iterator[str]:
    for line in seen.notes:
        if line["what"] == "overlap" and not _owner_was_away(seen, line):
            yield f"two runs of job {line['job']} at once: {line['other']} and pid {line['pid']} of pool {line['pool']}"


def _owner_was_away(seen: Evidence, line: Line) -> bool:
    """Allowed only on Redis, when the first owner's pool was away for a lease (a stopped owner proves nothing there)."""
    return seen.kind == "redis" and any(
        absence.pool == line["other"].get("pool")
        and absence.since + 0.8 * LEASE_S <= line["at"] <= absence.until + LONGEST_JOB_S + 2
        for absence in seen.absences
    )


def robbed_owners_settle_nothing(seen: Evidence) -> Iterator[str]:
    """Where an overlap is allowed, the word of the run that lost its claim was refused."""
    for line in seen.notes:
        job = seen.jobs.get(line["job"])
        if line["what"] == "overlap" and job is not None and job.result == json.dumps(line["other"].get("run")):
            yield f"job {job.id} has the result of run {line['other']}, which had lost its claim"


def families_are_complete(seen: Evidence) -> Iterator[str]:
    """A completed parent has all its children once, any other has none."""
    children = Counter(job.parent_id for job in seen.jobs.values() if job.parent_id)
    for job in (job for job in seen.jobs.values() if job.type == "tasks.family"):
        due = json.loads(job.payload)["children"] if job.status == "completed" else 0
        if children[job.id] != due:
            yield f"family {job.id} ({job.status}) has {children[job.id]} children, not {due}"


def cancelled_jobs_rest(seen: Evidence) -> Iterator[str]:
    """Who was told `cancelled` is right: nothing starts after that."""
    for line in seen.cancels:
        if line["status"] == "cancelled" and seen.jobs[line["job"]].status != "cancelled":
            yield f"job {line['job']} was cancelled and is {seen.jobs[line['job']].status}"
        late = [start for start in seen.starts[line["job"]] if start["at"] > line["at"]]
        if line["status"] == "cancelled" and late:
            yield f"job {line['job']} started after it was cancelled: {late}"


def cancelled_only_by_a_person(seen: Evidence) -> Iterator[str]:
    asked = {line["job"] for line in seen.cancels}
    for job in seen.jobs.values():
        if job.status == "cancelled" and job.id not in asked:
            yield f"job {job.id} ({job.type}) is cancelled, and nobody asked for it: {job.reason}"


def delays_kept(seen: Evidence) -> Iterator[str]:
    for job in seen.jobs.values():
        first = seen.starts[job.id][:1]
        if first and not job.retry_count and not job.claim > 1 and first[0]["wall"] < job.run_at - 0.05:
            yield f"job {job.id} started {job.run_at - first[0]['wall']:.2f} s before it was due"


def one_settlement(seen: Evidence) -> Iterator[str]:
    """The history ends once."""
    final = (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED)
    for job in seen.jobs.values():
        ends = [attempt for attempt in job.attempts if attempt.outcome in final]
        if len(ends) > 1:
            yield f"job {job.id} was settled {len(ends)} times: {[attempt.outcome.value for attempt in ends]}"


def no_run_unaccounted(seen: Evidence) -> Iterator[str]:
    """Nothing runs that nobody enqueued."""
    for job_id in seen.starts.keys() - seen.jobs.keys():
        if seen.starts[job_id]:
            yield f"job {job_id} ran and is not in the store"


RULES = (
    nothing_lost, batches_whole, one_job_for_a_key, all_over, completed_jobs_ended, failures_are_the_jobs_own, at_most_once,
    unstarted_ones_not_failed, no_two_runs_at_once, robbed_owners_settle_nothing, families_are_complete, cancelled_jobs_rest,
    cancelled_only_by_a_person, delays_kept, one_settlement,
    no_run_unaccounted,
)  # fmt: skip


def complaints(seen: Evidence) -> list[str]:
    """Every broken promise, in words; empty is the verdict hoped for."""
    return [f"{rule.__name__}: {complaint}" for rule in RULES for complaint in rule(seen)]
