"""What the buttons do: each takes a form of ours, does one thing, and goes back to its page with a line about it."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from pool.backends.contract import Backend
from pool.errors import BackendUnavailable, CallerError
from pool.jobs.checks import checked_queue
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.logs import log
from pool.web import audit
from pool.web.dashboard import bulk
from pool.web.dashboard.entrance import back, dashboard_of, form_of
from pool.web.problems import Problem

Form = Mapping[str, str]
MOST_A_SECOND = 1000.0

router = APIRouter(include_in_schema=False)


@router.post("/ui/queues")
async def act_on_queue(request: Request) -> Response:
    """Pause, resume, or remove what waits."""
    form = await form_of(request)
    dashboard, queue, act = dashboard_of(request), checked_queue(_field(form, "queue")), _field(form, "act")
    if act == "purge":
        await _note(request, "purge", queue=queue)
        await _give(request, "purge", queue, f"Remove what waits in {queue}")
        said = f"Removing what waits in {queue}."
    elif act in ("pause", "resume"):
        await _note(request, act, queue=queue)
        await dashboard.services.desk.ask(lambda store: store.set_queue(queue, paused=act == "pause"))
        said = f"Queue {queue} is {'paused' if act == 'pause' else 'resumed'}."
    else:
        raise _unknown(act)
    return _done(request, form, "/ui/queues", said)


@router.post("/ui/jobs")
async def act_on_job(request: Request) -> Response:
    """Retry, cancel or discard one job."""
    form = await form_of(request)
    job_id, act = _field(form, "job"), _field(form, "act")
    step = _JOB_ACTS.get(act)
    if step is None:
        raise _unknown(act)
    try:
        await _note(request, f"jobs {act}", jobs=[job_id])
        job = await dashboard_of(request).services.desk.ask(lambda store: step(store, job_id))
        said = _job_words(act, job)
    except CallerError as error:
        said = f"Nothing was changed: {error}."
    return _done(request, form, f"/ui/jobs/{job_id}", said)


@router.post("/ui/dead")
async def act_on_group(request: Request) -> Response:
    """Retry or discard all dead letters of a fingerprint, at a rate."""
    form = await form_of(request)
    key, act = _field(form, "key"), _field(form, "act")
    if act not in ("retry", "discard"):
        raise _unknown(act)
    words = "Retry" if act == "retry" else "Discard"
    title = f"{words} dead letters of {form.get('title', key)[:80]}"
    rate = _rate(form.get("rate", ""))
    await _note(request, f"dead {act}", group=key, rate=rate or "all")
    await _give(request, act, key, title, rate)  # type: ignore[arg-type]
    return _done(request, form, "/ui/dead", f"{title}: begun.")


@router.post("/ui/work/stop")
async def stop_work(request: Request) -> Response:
    """An order under way is cancelled like any job."""
    form = await form_of(request)
    job_id = _field(form, "job")
    try:
        await dashboard_of(request).services.desk.ask(lambda store: bulk.stop(store, job_id))
        await _note(request, "jobs cancel", jobs=[job_id])
        said = "Stopped."
    except CallerError as error:
        said = f"Nothing was changed: {error}."
    return _done(request, form, "/ui/dead", said)


@router.post("/ui/pools")
async def act_on_pool(request: Request) -> Response:
    """Scale, restart a worker, drain or take jobs again: orders for the pool that this process belongs to.

    In the audit log once it is done: an order must not wait for a store that is away.
    """
    form = await form_of(request)
    act = _field(form, "act")
    if act not in ("scale", "restart", "drain", "undrain"):
        raise _unknown(act)
    numbers = {name: int(form[name]) for name in ("count", "slot") if form.get(name, "").isdigit()}
    group = {"group": form["group"]} if form.get("group") else {}
    code, answer = await dashboard_of(request).survey.order(act, {**numbers, **group})
    said = f"Done: {act}." if code < 300 else f"Refused: {answer.get('error', code)}"
    if code < 300:
        with contextlib.suppress(BackendUnavailable):
            await _note(request, act, **numbers, **group)
    return _done(request, form, "/ui/pools", said)


# ---------------------------------------------------------------- small things


def _retry(store: Backend, job_id: str) -> Job:
    return store.revive(job_id)


def _cancel(store: Backend, job_id: str) -> Job:
    return store.cancel(job_id)


def _discard(store: Backend, job_id: str) -> Job:
    return store.discard(job_id)


_JOB_ACTS: dict[str, Callable[[Backend, str], Job]] = {"retry": _retry, "cancel": _cancel, "discard": _discard}


def _job_words(act: str, job: Job) -> str:
    if act == "cancel" and job.status is Status.RUNNING:
        return "Asked it to stop; it runs until it notices."
    return {"retry": "It is pending again.", "cancel": "It is cancelled.", "discard": "It is discarded."}[act]


async def _note(request: Request, act: str, **details: Any) -> None:
    """In the audit log before it is done, so that nothing goes unrecorded."""
    caller, desk = request.state.caller, dashboard_of(request).services.desk
    await desk.ask(lambda store: audit.note(store, caller, "dashboard", act, **details))


async def _give(request: Request, act: bulk.Act, what: str, title: str, rate: float = 0.0) -> None:
    """An order for work on many jobs; begun here at once, unless another is under way."""
    dashboard, who = dashboard_of(request), request.state.caller.name
    await dashboard.services.desk.ask(lambda store: bulk.give(store, act, what, title, who, rate))
    dashboard.carrier.heard.set()


def _done(request: Request, form: Form, to: str, said: str) -> Response:
    log.info("ordered on the dashboard", by=request.state.caller.name, what=said)
    dashboard_of(request).survey.outdate()
    return back(form.get("back") or to, said)


def _field(form: Form, name: str) -> str:
    value = form.get(name, "")
    if not value:
        raise Problem(422, "invalid-request", f"the form lacks {name}")
    return value


def _rate(text: str) -> float:
    """Jobs a second; 0 = as fast as it goes."""
    try:
        return max(0.0, min(MOST_A_SECOND, float(text or 0)))
    except ValueError:
        raise Problem(422, "invalid-request", f"{text!r} is not a number of jobs a second") from None


def _unknown(act: str) -> Problem:
    return Problem(422, "invalid-request", f"{act!r} is nothing that can be done here")
