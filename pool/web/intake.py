"""From a producer's body to a checked `NewJob`: allowlist of types, cap on priority, list of queues. Pure.

The same function judges single jobs, batches, follow-ups and edits, so that no way in is wider than another.
"""

from collections.abc import Mapping
from dataclasses import replace

from pool.errors import InvalidJob
from pool.jobs import checks
from pool.jobs.checks import Options, Terms
from pool.jobs.job import NewJob
from pool.jobs.priority import label_of, parse_priority
from pool.jobs.published import PublishedType
from pool.web.auth import Caller
from pool.web.bodies import FollowUp, JobBody
from pool.web.problems import Problem
from pool.web.typebook import TypeBook


def draft(body: JobBody, caller: Caller, book: TypeBook, max_payload: int, header_key: str | None = None) -> NewJob:
    """The job as it will be stored. InvalidJob (422) for what can never be, Problem 403 for what this token may not."""
    options = Options(
        run_at=body.run_at, expires_in=body.expires_in, idempotency_key=_key(body.idempotency_key, header_key)
    )
    job = _draft(body, options, caller, book, max_payload, body.unique_key)
    if body.on_success is None and body.on_failure is None:
        return job
    return replace(
        job,
        on_success=_follow_up(body.on_success, caller, book, max_payload),
        on_failure=_follow_up(body.on_failure, caller, book, max_payload),
    )


def _follow_up(body: FollowUp | None, caller: Caller, book: TypeBook, max_payload: int) -> NewJob | None:
    return None if body is None else _draft(body, Options(), caller, book, max_payload)


def checked_edit(job_type: str, payload: Mapping[str, object], caller: Caller, book: TypeBook, max_payload: int) -> str:
    """The text of a payload that replaces another one of this type."""
    found = book.get(job_type, caller)
    text = checks.checked_payload(checks.payload_text(payload), max_payload)
    book.check(found, payload)
    return text


def _draft(
    body: FollowUp, more: Options, caller: Caller, book: TypeBook, max_payload: int, unique_key: str | None = None
) -> NewJob:
    found = book.get(body.type, caller)
    terms = _capped(found.terms, caller)
    options = Options(**more, queue=body.queue, priority=body.priority, max_retries=body.max_retries, delay=body.delay)
    text = checks.payload_text(body.payload)
    options["limit_key"] = found.limit_key_of(body.payload)
    job = checks.new_job(found.name, text, terms, options, owner=caller.name, max_payload=max_payload, is_ours=True)
    _refuse_beyond(job, body, caller)
    book.check(found, body.payload)
    key = _unique_key(unique_key, found, body, caller)
    return job if key is None else replace(job, unique_key=key)


def _capped(terms: Terms, caller: Caller) -> Terms:
    """What the type says where the caller says nothing, but never above the caller's cap."""
    if terms.priority <= caller.max_priority:
        return terms
    return replace(terms, priority=min(terms.priority, caller.max_priority))


def _refuse_beyond(job: NewJob, body: FollowUp, caller: Caller) -> None:
    if not caller.may_use_queue(job.queue):
        raise Problem(403, "queue-not-allowed", f"token {caller.name!r} may not use queue {job.queue!r}")
    if body.priority is not None and parse_priority(body.priority) > caller.max_priority:
        cap = label_of(caller.max_priority)
        raise Problem(403, "priority-not-allowed", f"token {caller.name!r} may use priorities up to {cap}")


def _key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body is not None and in_header is not None and in_body != in_header:
        raise InvalidJob("idempotency_key and the Idempotency-Key header differ; send one of the two")
    return in_body if in_header is None else in_header


def _unique_key(asked: str | None, found: PublishedType, body: FollowUp, caller: Caller) -> str | None:
    """A caller's own key is kept in a room of its own: nobody learns what keys another producer uses."""
    if asked is not None:
        return f"{caller.name}/{checks.checked_name(asked, 'unique_key')}"
    return found.unique_key_of(body.payload)
