"""How a job looks to each caller: the document of `pool.jobs.documents`, less what is not its business.

Admins see the cleaned error texts and output, everybody else only the reason. A claim over HTTP is held by a lane whose
name is the secret of its claim token: it is never shown, only whose it is.
"""

from collections.abc import Collection
from typing import Any

from pool.jobs.documents import job_document
from pool.jobs.job import Job
from pool.web.auth import Caller

HOLDER_POOL = "http"
Document = dict[str, Any]


def document_for(job: Job, caller: Caller, redact: Collection[str]) -> Document:
    """The job as this caller may see it."""
    document = job_document(job, redact)
    document["worker_id"] = shown_holder(document["worker_id"])
    document["unique_key"] = _own_key(document["unique_key"], job.owner)
    document["attempts"] = [{**attempt, "worker": shown_holder(attempt["worker"])} for attempt in document["attempts"]]
    return document if caller.role == "admin" else _without_texts(document)


def shown_holder(lane: str | None) -> str | None:
    """`http@name` for a claim over HTTP, the lane itself for a worker of a pool."""
    if lane is None or not lane.startswith(f"{HOLDER_POOL}@"):
        return lane
    return lane.partition("#")[0]


def _without_texts(document: Document) -> Document:
    attempts = [
        {**attempt, "output": "", "cause": attempt["cause"] and _reason_only(attempt["cause"])}
        for attempt in document["attempts"]
    ]
    return {**document, "error": None, "exception": None, "attempts": attempts}


def _reason_only(cause: Document) -> Document:
    return {**dict.fromkeys(cause), "reason": cause["reason"]}


def _own_key(key: str | None, owner: str) -> str | None:
    return key.removeprefix(f"{owner}/") if key else key
