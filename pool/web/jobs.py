"""Routes of producers and admins: enqueue, look up, list, cancel, retry."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from pool.backends.contract import MAX_BATCH, Backend, JobFilter, Page
from pool.errors import CallerError, JobNotFound
from pool.jobs.checks import checked_name
from pool.jobs.job import Job, NewJob, Receipt
from pool.jobs.lifecycle import Status
from pool.web import audit, intake
from pool.web.arrivals import enqueue_surely
from pool.web.auth import Caller
from pool.web.bodies import JobBody, RetryBody, read, read_batch
from pool.web.callbacks import with_callback
from pool.web.openapi import documented
from pool.web.problems import Problem
from pool.web.services import Services, body_of, caller_of, services_of

router = APIRouter()
LIST_WITHIN_S = 1.0
ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ListQuery(Strict):
    """Which jobs to list."""

    status: Status | None = None
    type: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    queue: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    after: Annotated[str, Field(pattern=ID_PATTERN, description="cursor of the page before")] | None = None


class WaitQuery(Strict):
    """How long to wait for the job to be over."""

    wait: Annotated[float, Field(ge=0, le=30, allow_inf_nan=False)] = 0.0


# ---------------------------------------------------------------- enqueue


@router.post("/jobs", **documented("enqueue", body=JobBody, ok={201: "NewJob", 200: "NewJob"}, key=True))
async def enqueue(request: Request) -> JSONResponse:
    """Store one job. 201 for a new one, 200 for one that was there under the same key."""
    caller, services = caller_of(request, "producer"), services_of(request)
    status, document = await enqueue_one(services, caller, await body_of(request), header_key(request))
    return JSONResponse(document, status)


async def enqueue_one(services: Services, caller: Caller, raw: bytes, key: str | None) -> tuple[int, dict[str, Any]]:
    """Status and document of the answer."""
    job = _drafted(read(JobBody, raw), caller, services, key)
    receipt, stored = await services.arrivals.enqueue(job)
    return 200 if receipt.replayed else 201, _answer(receipt, stored, caller, services)


@router.post("/jobs/batch", **documented("enqueue many", body="Batch", ok={201: "BatchAnswer"}))
async def enqueue_batch(request: Request) -> JSONResponse:
    """Store all jobs or none. Ids come back in the order of the jobs; an empty list does nothing."""
    caller, services = caller_of(request, "producer"), services_of(request)
    raw = await body_of(request)

    def store_all(store: Backend) -> list[Receipt]:  # reading 10,000 jobs takes a while: in the thread too
        batch = read_batch(raw)
        if len(batch.jobs) > MAX_BATCH:
            raise CallerError(f"{len(batch.jobs):,} jobs are more than {MAX_BATCH:,}, the most that enter in one step")
        jobs = [_drafted(body, caller, services) for body in batch.jobs]
        return enqueue_surely(store, jobs, batch.refuse_above)

    receipts = await services.desk.ask(store_all)
    return JSONResponse({"ids": [each.job_id for each in receipts], "jobs": [_line(each) for each in receipts]}, 201)


def _drafted(body: JobBody, caller: Caller, services: Services, key: str | None = None) -> NewJob:
    job = intake.draft(body, caller, services.types, services.config.jobs.max_payload, key)
    return with_callback(job, body.callback_url, services.config.web)


def _answer(receipt: Receipt, job: Job | None, caller: Caller, services: Services) -> dict[str, Any]:
    """The job, and whether an older one answered. Another producer's job is not told about."""
    if job is not None and job.owner != caller.name:
        raise Problem(409, "unique-conflict", "another live job has the same unique key")
    document = _line(receipt) if job is None else services.document(job, caller)
    return {**document, "replayed": receipt.replayed, "payload_differs": receipt.payload_differs}


def _line(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.job_id,
        "status": receipt.status.value,
        "replayed": receipt.replayed,
        "payload_differs": receipt.payload_differs,
    }


def header_key(request: Request) -> str | None:
    """The Idempotency-Key header, checked as the field is."""
    return one_key(request.headers.getlist("idempotency-key"))


def one_key(given: list[str]) -> str | None:
    """The one key that was given, if any."""
    if len(given) > 1:
        raise CallerError("several Idempotency-Key headers; send one")
    return checked_name(given[0], "Idempotency-Key") if given else None


# ---------------------------------------------------------------- look up


@router.get("/jobs", **documented("list jobs", ok={200: "JobPage"}))
async def list_jobs(request: Request, query: Annotated[ListQuery, Query()]) -> JSONResponse:
    """Jobs, newest first: a producer's own, or all for an admin. `after` is the cursor of the next page.

    `partial`: the page is not full although there may be more, for the time is up in which jobs are looked through.
    """
    caller, services = caller_of(request, "producer", "admin"), services_of(request)
    which = JobFilter(
        status=query.status, type=query.type, queue=query.queue, owner=None if caller.role == "admin" else caller.name
    )
    page = await services.desk.ask(lambda store: page_of(store, which, query.after, query.limit))
    documents = [services.document(job, caller) for job in page.jobs]
    is_partial = page.after is not None and len(documents) < query.limit
    return JSONResponse({"jobs": documents, "after": page.after, "partial": is_partial})


def page_of(store: Backend, which: JobFilter, after: str | None, limit: int, within_s: float = LIST_WITHIN_S) -> Page:
    """What can be found in this time. Few jobs of an owner among many others cost a store without an index a long look."""
    return store.jobs(which, after=after, limit=limit, within_s=within_s)


@router.get("/jobs/claim", include_in_schema=False)
@router.get("/jobs/batch", include_in_schema=False)
async def not_a_job(request: Request) -> JSONResponse:
    """These words are no job ids."""
    raise Problem(405, "method-not-allowed", "use POST", headers={"Allow": "POST"})


@router.get("/jobs/{id}", **documented("look up a job", ok={200: "Job"}, id=True))
async def show_job(request: Request, id: str, query: Annotated[WaitQuery, Query()]) -> JSONResponse:
    """The job with its attempts. With `wait`, answers when it is over, or as it is when the time is up."""
    caller, services = caller_of(request, "producer", "admin"), services_of(request)
    job = await services.desk.ask(lambda store: visible_job(store, id, caller))
    if query.wait and job.status.is_live:
        await services.job_watch.wait(job.id, min(query.wait, services.config.web.long_poll))
        job = await services.desk.ask(lambda store: visible_job(store, id, caller))
    return JSONResponse(services.document(job, caller))


def visible_job(store: Backend, job_id: str, caller: Caller) -> Job:
    """The job, if this caller may know that it exists; JobNotFound otherwise."""
    job = store.job(job_id)
    if caller.role != "admin" and job.owner != caller.name:
        raise JobNotFound(job_id)
    return job


# ---------------------------------------------------------------- change


@router.post("/jobs/{id}/cancel", **documented("cancel a job", ok={200: "Job"}, id=True))
async def cancel_job(request: Request, id: str) -> JSONResponse:
    """A waiting job never runs; a running one is asked to stop (`cancel_requested`). 409 when it is over.

    The audit log is for what operators do: a producer that cancels its own jobs by the thousand must not drive that out.
    """
    caller, services = caller_of(request, "producer", "admin"), services_of(request)
    owner = None if caller.role == "admin" else caller.name

    def cancel(store: Backend) -> Job:
        if owner is None:
            store.job(id)  # or it would be noted what was never there
            audit.note(store, caller, "http", "jobs cancel", jobs=[id])
        return store.cancel(id, owner=owner)

    return JSONResponse(services.document(await services.desk.ask(cancel), caller))


@router.post(
    "/jobs/{id}/retry", **documented("run a job again", body=RetryBody, ok={200: "Job"}, id=True, optional=True)
)
async def retry_job(request: Request, id: str) -> JSONResponse:
    """A failed or cancelled job is pending again, with another payload if one is given. 409 for any other state."""
    caller, services = caller_of(request, "admin"), services_of(request)
    body = read(RetryBody, await body_of(request))

    def revive(store: Backend) -> Job:
        text = None
        if body.payload is not None:
            limit = services.config.jobs.max_payload
            text = intake.checked_edit(store.job(id).type, body.payload, caller, services.types, limit)
        edit = {} if text is None else {"payload": "replaced"}
        store.job(id)
        audit.note(store, caller, "http", "jobs retry", jobs=[id], **edit)
        return store.revive(id, payload=text, by=caller.name)

    return JSONResponse(services.document(await services.desk.ask(revive), caller))
