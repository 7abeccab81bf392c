"""Routes of workers in other languages: claim, heartbeat, complete, fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from pool.backends.contract import ANY_QUEUE, Backend, Want
from pool.cleaning import clean
from pool.clock import as_rfc3339
from pool.errors import ClaimLost
from pool.identity import LaneId
from pool.jobs.checks import checked_queue
from pool.jobs.internal import OWN_QUEUES
from pool.jobs.job import Job, Outcome, Settlement
from pool.web import holding, verdicts
from pool.web.auth import Caller
from pool.web.bodies import ClaimBody, CompleteBody, FailBody, HeartbeatBody, read
from pool.web.holding import Hold
from pool.web.jobs import header_key
from pool.web.openapi import documented
from pool.web.problems import Problem
from pool.web.services import Services, body_of, caller_of, services_of

router = APIRouter()
COMPLETED = frozenset({Outcome.COMPLETED})
NOT_COMPLETED = frozenset({Outcome.FAILED, Outcome.RETRIED, Outcome.CANCELLED})


# ---------------------------------------------------------------- claim


@router.post(
    "/jobs/claim",
    **documented("claim a job", body=ClaimBody, ok={200: "ClaimedJob", 204: None}, key=True, optional=True),
)
async def claim_job(request: Request) -> Response:
    """The next job, with its `claim_token` and lease; 204 when there is none. The same Idempotency-Key, the same job."""
    caller, services = caller_of(request, "worker"), services_of(request)
    body = read(ClaimBody, await body_of(request))
    want = _want(body, caller, services.lease_seconds)
    key = header_key(request)
    found = await _remembered(services, caller, key) or await _next(request, services, caller, want, key, body.wait)
    if found is None:
        return Response(status_code=204)
    job, hold = found
    if key is not None:
        services.remembered.put(caller.name, key, job.id, hold)
    return JSONResponse(_claimed(job, hold, caller, services))


def _want(body: ClaimBody, caller: Caller, lease_seconds: float) -> Want:
    """The asked queues, all of which the token must allow; else all that it allows."""
    for queue in map(checked_queue, body.queues or ()):
        if not caller.may_use_queue(queue):
            raise Problem(403, "queue-not-allowed", f"token {caller.name!r} may not claim from queue {queue!r}")
    queues = tuple(dict.fromkeys(body.queues or caller.queues))
    return Want(queues=queues or ANY_QUEUE, reserved=OWN_QUEUES, lease_seconds=lease_seconds)


async def _remembered(services: Services, caller: Caller, key: str | None) -> tuple[Job, Hold] | None:
    """What this key was answered before, unless the claim was lost without a word."""
    known = services.remembered.get(caller.name, key) if key else None
    if known is None:
        return None
    job_id, hold = known
    job = await services.desk.ask(lambda store: store.job(job_id))
    if holding.is_held(job, hold) or holding.has_said(job, hold, COMPLETED | NOT_COMPLETED):
        return job, hold
    return None


async def _next(
    request: Request, services: Services, caller: Caller, want: Want, key: str | None, seconds: float
) -> tuple[Job, Hold] | None:
    """Claim; while there is nothing, wait and claim again until the time is up or the client has left."""
    lane = holding.keyed_lane(caller.name, key) if key else holding.new_lane(caller.name)
    deadline = services.now() + min(seconds, services.config.web.long_poll)
    number = 1
    while True:
        found = await services.desk.ask(partial(_take, lane=lane, number=number, want=want))
        left = deadline - services.now()
        if found is not None or left <= 0:
            return await _unless_gone(request, services, found, key)
        if not await services.queue_watch.wait(want.queues, left) or await request.is_disconnected():
            return None
        number += 2


def _take(store: Backend, *, lane: LaneId, number: int, want: Want) -> tuple[Job, Hold] | None:
    found = holding.claim(store, lane, number, want)
    return None if found is None else (store.job(found[0].job_id), found[1])


async def _unless_gone(
    request: Request, services: Services, found: tuple[Job, Hold] | None, key: str | None
) -> tuple[Job, Hold] | None:
    """A client that left while it waited gets no job: it goes back at once. With a key it may come back for it."""
    if found is not None and key is None and await request.is_disconnected():
        job, hold = found
        await services.desk.ask(lambda store: holding.settle(store, hold, verdicts.returned(job, hold.claim)))
        return None
    return found


def _claimed(job: Job, hold: Hold, caller: Caller, services: Services) -> dict[str, Any]:
    held_since = job.claimed_at or services.wall_now()
    return {
        **services.work_document(job, caller),
        "attempt": job.retry_count + 1,
        "claim_token": hold.token(),
        "lease_seconds": services.lease_seconds,
        "lease_expires_at": as_rfc3339(held_since + services.lease_seconds),
    }


# ---------------------------------------------------------------- the holder's words


@router.post("/jobs/{id}/complete", **documented("complete a job", body=CompleteBody, ok={200: "Job"}, id=True))
async def complete_job(request: Request, id: str) -> JSONResponse:
    """The holder says that the job is done. Saying it again changes nothing; 409 for anybody else."""
    caller, services = caller_of(request, "worker"), services_of(request)
    body = read(CompleteBody, await body_of(request))
    hold = holding.read_token(body.claim_token, caller.name, id)
    result = verdicts.result_text(body.result, services.config.jobs.max_result)

    def step(store: Backend) -> Job:
        return _settled(store, id, hold, lambda job: verdicts.completed(job, hold.claim, result), COMPLETED)

    return JSONResponse(services.document(await services.desk.ask(step), caller))


@router.post("/jobs/{id}/fail", **documented("fail a job", body=FailBody, ok={200: "Job"}, id=True))
async def fail_job(request: Request, id: str) -> JSONResponse:
    """The holder says that the attempt failed: the job waits for its next try, or is failed for good."""
    caller, services = caller_of(request, "worker"), services_of(request)
    body = read(FailBody, await body_of(request))
    hold = holding.read_token(body.claim_token, caller.name, id)

    def verdict(job: Job) -> Settlement:
        return verdicts.failed(job, hold.claim, body, services.policy_of(job.type))

    def step(store: Backend) -> Job:
        return _settled(store, id, hold, verdict, NOT_COMPLETED)

    return JSONResponse(services.document(await services.desk.ask(step), caller))


@router.post("/jobs/{id}/heartbeat", **documented("keep a job", body=HeartbeatBody, ok={200: "Heartbeat"}, id=True))
async def keep_job(request: Request, id: str) -> JSONResponse:
    """The holder is still at work: renews the lease. `cancel_requested`: stop, and say /fail."""
    caller, services = caller_of(request, "worker"), services_of(request)
    body = read(HeartbeatBody, await body_of(request))
    hold = holding.read_token(body.claim_token, caller.name, id)
    note = None if body.note is None else clean(body.note)

    def step(store: Backend) -> Job:
        if not holding.is_held(job := store.job(id), hold):
            raise ClaimLost(id, hold.claim)
        store.report(hold.held(id), progress=body.progress, note=note)
        return store.job(job.id)

    job = await services.desk.ask(step)
    lease = services.lease_seconds
    document = services.document(job, caller)
    return JSONResponse(
        {**document, "lease_seconds": lease, "lease_expires_at": as_rfc3339(services.wall_now() + lease)}
    )


def _settled(
    store: Backend, id: str, hold: Hold, verdict: Callable[[Job], Settlement], outcomes: frozenset[Outcome]
) -> Job:
    """The job with its holder's last word taken, now or when it was said before; ClaimLost for anybody else."""
    job = store.job(id)
    if holding.is_held(job, hold) and holding.settle(store, hold, verdict(job)):
        return store.job(id)
    return _said_before(store, id, hold, outcomes)


def _said_before(store: Backend, job_id: str, hold: Hold, outcomes: frozenset[Outcome]) -> Job:
    """The job, if this claim ended so already; ClaimLost otherwise."""
    job = store.job(job_id)
    if holding.has_said(job, hold, outcomes):
        return job
    raise ClaimLost(job_id, hold.claim)
