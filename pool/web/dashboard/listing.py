"""Lists of jobs within a bounded time, whatever is asked for: what no index answers is looked for in newest jobs first.

A look stops when the page is full or its budget is used up, and says how far it came (`searched` of `total`) and where
to go on. Dead letters are grouped by fingerprint: the same type, reason and error but for numbers and names in it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pool.backends.contract import Backend, JobFilter, QueueState
from pool.clock import monotonic_now
from pool.jobs.documents import as_value, without
from pool.jobs.fingerprint import fingerprint_of
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status

PAGE = 50
CHUNK = 500
MOST_LOOKED_AT = 2000
WITHIN_S = 0.15
Hidden = Callable[[str], Collection[str]]  # type → its payload fields that are never shown
FEW = 20_000  # so many jobs of one state and queue the stores find by their indexes
GROUPED = 2000
COUNTED = ("pending", "scheduled", "running", "completed", "failed")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the search form says; empty means any."""

    status: str = ""
    type: str = ""
    queue: str = ""
    text: str = ""

    @property
    def needs_scan(self) -> bool:
        """Whether something is asked for that the store has no cheap way to find."""
        return bool(self.type or self.queue or self.text)


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of jobs. `after` goes on from here; `searched` is how many were looked at since the first page."""

    jobs: tuple[Job, ...]
    after: str | None
    searched: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one kind."""

    key: str
    sample: Job
    count: int
    first: float
    last: float


def find(store: Backend, asked: Asked, after: str | None, searched: int, hidden: Hidden = lambda _: ()) -> Listing:
    """One page, newest first. What is `hidden` is not found either, or it could be guessed letter by letter."""
    which = JobFilter(status=Status(asked.status) if asked.status else None)
    if not asked.needs_scan:
        page = store.jobs(which, after=after, limit=PAGE, within_s=WITHIN_S)
        return Listing(page.jobs, page.after)
    states = store.queues()
    total = stored(states, asked)
    of_queue = stored((state for state in states if state.name == asked.queue), asked)
    if asked.status in COUNTED and asked.queue and of_queue < FEW:
        which, total = replace(which, queue=asked.queue), of_queue
    found = _scan(store, which, _fits(asked, hidden), after)
    return replace(found, searched=searched + found.searched, total=total)


def _scan(store: Backend, which: JobFilter, fits: Callable[[Job], bool], after: str | None) -> Listing:
    found: list[Job] = []
    looked, deadline = 0, monotonic_now() + WITHIN_S
    while looked < MOST_LOOKED_AT and monotonic_now() < deadline:
        page = store.jobs(which, after=after, limit=CHUNK, within_s=deadline - monotonic_now())
        for job in page.jobs:
            looked, after = looked + 1, job.id
            if fits(job):
                found.append(job)
            if len(found) == PAGE:
                return Listing(tuple(found), after, looked)
        after = page.after
        if after is None:
            break
    return Listing(tuple(found), after, looked)


def _fits(asked: Asked, hidden: Hidden) -> Callable[[Job], bool]:
    text, bare = asked.text.lower(), asked.text.lower().replace("-", "")

    def fits(job: Job) -> bool:
        if (asked.type and job.type != asked.type) or (asked.queue and job.queue != asked.queue):
            return False
        if not text or any(
            text in said.lower() for said in (job.type, job.error or "", _payload(job, hidden(job.type)))
        ):
            return True
        return bool(bare) and bare in job.id.replace("-", "")

    return fits


def _payload(job: Job, hidden: Collection[str]) -> str:
    """Its text as people may see it."""
    return json.dumps(without(as_value(job.payload), hidden), ensure_ascii=False) if hidden else job.payload


def stored(states: Iterable[QueueState], asked: Asked) -> int:
    """How many jobs there are to look through."""
    names = (asked.status,) if asked.status in COUNTED else COUNTED
    return sum(getattr(state, name) for state in states for name in names)


# ---------------------------------------------------------------- dead letters


def groups(jobs: Iterable[Job]) -> list[Group]:
    """By fingerprint, the largest first. The sample is the newest of its kind."""
    found: dict[str, Group] = {}
    for job in jobs:
        key, at = fingerprint_of(job), job.finished_at or job.updated_at
        group = found.get(key)
        found[key] = (
            replace(group, count=group.count + 1, first=min(group.first, at), last=max(group.last, at))
            if group
            else Group(key, job, 1, at, at)
        )
    return sorted(found.values(), key=lambda group: (-group.count, -group.last))


def newest_dead(store: Backend, query: Mapping[str, str]) -> tuple[list[Group], int]:
    """The groups among the newest dead letters, and how many were looked at."""
    jobs = store.last_failed(GROUPED)
    reason, text = query.get("reason", ""), query.get("q", "").lower()
    kept = [
        job
        for job in jobs
        if (not reason or job.reason == reason) and (not text or text in f"{job.type} {job.error}".lower())
    ]
    return groups(kept), len(jobs)
