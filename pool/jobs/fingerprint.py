"""Which failures are the same failure: dead letters that differ only in numbers, ids and names share a fingerprint."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pool.jobs.job import Job

_LONGEST = 2000
_SHAPES = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"[^\s@<>'\"]{1,200}@[\w.-]{1,200}"), "<address>"),
    (re.compile(r"'[^']{0,200}'|\"[^\"]{0,200}\""), "<text>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{6,}\b", re.IGNORECASE), "<n>"),
    (re.compile(r"\d+"), "<n>"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Failures with one fingerprint. `shape` is their error without what differs; times are wall seconds."""

    fingerprint: str
    type: str
    reason: str
    exception: str
    shape: str
    count: int
    first_at: float
    last_at: float
    example: str  # id of the newest


def shape_of(error: str) -> str:
    """The text of an error without what differs from job to job: numbers, ids, quoted names."""
    text = error[:_LONGEST]
    for pattern, sign in _SHAPES:
        text = pattern.sub(sign, text)
    return text.strip()


def fingerprint_of(job: Job) -> str:
    """Ten hexadecimal digits, the same for each failure of this type, reason, exception class and shape of error."""
    return hashlib.blake2b("\0".join(_parts(job)).encode("utf-8", "replace"), digest_size=5).hexdigest()


def families_of(jobs: Iterable[Job]) -> list[Family]:
    """The failures by fingerprint, the most frequent first."""
    members: dict[str, list[Job]] = {}
    for job in jobs:
        members.setdefault(fingerprint_of(job), []).append(job)
    return sorted((_family(fingerprint, of) for fingerprint, of in members.items()), key=lambda f: (-f.count, f.shape))


def _family(fingerprint: str, jobs: list[Job]) -> Family:
    newest = max(jobs, key=_ended_at)
    type_name, reason, exception, shape = _parts(newest)
    return Family(
        fingerprint=fingerprint,
        type=type_name,
        reason=reason,
        exception=exception,
        shape=shape,
        count=len(jobs),
        first_at=min(map(_ended_at, jobs)),
        last_at=_ended_at(newest),
        example=newest.id,
    )


def _parts(job: Job) -> tuple[str, str, str, str]:
    return job.type, job.reason.value if job.reason else "", job.exception or "", shape_of(job.error or "")


def _ended_at(job: Job) -> float:
    return job.finished_at or job.updated_at
