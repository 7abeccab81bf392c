"""Server-sent events: what became of jobs, about once a second, for dashboards and clients.

Throttled by nature: each second the newest jobs are compared with what was sent before, so a job that changed five
times is told of once, as it is. One look serves all who may see the same jobs.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from pool.backends.contract import Backend, JobFilter
from pool.errors import BackendUnavailable
from pool.jobs.job import Job
from pool.web.openapi import documented
from pool.web.problems import Problem
from pool.web.services import Services, caller_of, services_of

router = APIRouter()
LOOK_EVERY_S = 1.0
NEWEST = 200
PING_EVERY = 15
MAX_LISTENERS = 100
MAX_BEHIND = 100

Seen = dict[str, tuple[Any, ...]]
Owner = str | None


@dataclass
class Channel:
    """Those who may see the jobs of one owner (None: of all), and what they have been told."""

    owner: Owner
    listeners: set["asyncio.Queue[str]"] = field(default_factory=set)
    seen: Seen | None = None
    lengths: dict[str, int] | None = None


class Events:
    """The channels and the task that looks for them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._channels: dict[Owner, Channel] = {}
        self._task: asyncio.Task[None] | None = None

    async def join(self, owner: Owner) -> "asyncio.Queue[str]":
        """A queue of all that happens from now on; Problem 503 when too many listen already."""
        if sum(len(channel.listeners) for channel in self._channels.values()) >= MAX_LISTENERS:
            raise Problem(503, "too-many-listeners", "too many listen already", headers={"Retry-After": "10"})
        queue: asyncio.Queue[str] = asyncio.Queue(MAX_BEHIND)
        channel = self._channels.setdefault(owner, Channel(owner))
        channel.listeners.add(queue)
        if channel.seen is None:
            await self._look(channel)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return queue

    def leave(self, owner: Owner, queue: "asyncio.Queue[str]") -> None:
        self._channels[owner].listeners.discard(queue)
        if not self._channels[owner].listeners:
            del self._channels[owner]

    async def _run(self) -> None:
        turn = 0
        while self._channels and not self._services.stopping.is_set():
            for channel in list(self._channels.values()):
                await self._look(channel)
                if turn % PING_EVERY == 0:
                    _tell(channel, ": still here\n\n")
            turn += 1
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, channel: Channel) -> None:
        try:
            jobs, lengths = await self._services.desk.ask(lambda store: _read(store, channel.owner))
        except BackendUnavailable:
            return  # the next look tells what happened meanwhile
        now: Seen = {job.id: _state(job) for job in jobs}
        before = now if channel.seen is None else channel.seen
        for job in reversed(jobs):
            if before.get(job.id) != now[job.id]:
                _tell(channel, _event("job", _line(job)))
        if channel.owner is None and lengths != channel.lengths:
            _tell(channel, _event("queues", lengths))
        channel.seen, channel.lengths = now, lengths


def _read(store: Backend, owner: Owner) -> tuple[tuple[Job, ...], dict[str, int]]:
    lengths = {state.name: state.pending for state in store.queues()} if owner is None else {}
    return store.jobs(JobFilter(owner=owner), limit=NEWEST).jobs, lengths


def _state(job: Job) -> tuple[Any, ...]:
    return job.status, job.claim, job.progress, job.cancel_requested


def _line(job: Job) -> dict[str, Any]:
    """Nothing that not every caller may see."""
    return {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "status": job.status.value,
        "reason": job.reason.value if job.reason else None,
        "retry_count": job.retry_count,
        "progress": job.progress,
    }


def _event(name: str, document: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(document)}\n\n"


def _tell(channel: Channel, text: str) -> None:
    """Who is too far behind to be told misses it, and is told that instead."""
    for queue in channel.listeners:
        if queue.full():
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait("event: missed\ndata: {}\n\n")
        queue.put_nowait(text)


@router.get("/events", **documented("follow jobs", ok={200: "text/event-stream"}))
async def follow(request: Request) -> StreamingResponse:
    """A stream of server-sent events: `job` for each change of the newest jobs, `queues` (admins) for lengths."""
    caller, services = caller_of(request, "producer", "admin"), services_of(request)
    owner = None if caller.role == "admin" else caller.name
    events: Events = request.app.state.events
    queue = await events.join(owner)
    return StreamingResponse(_stream(events, owner, queue, services), media_type="text/event-stream")


async def _stream(events: Events, owner: Owner, queue: "asyncio.Queue[str]", services: Services) -> AsyncIterator[str]:
    stop = asyncio.ensure_future(services.stopping.wait())
    try:
        yield "retry: 2000\n\n"
        while not stop.done():
            text = asyncio.ensure_future(queue.get())
            await asyncio.wait({text, stop}, return_when=asyncio.FIRST_COMPLETED)
            if text.done():
                yield text.result()
            else:
                text.cancel()
    finally:
        stop.cancel()
        events.leave(owner, queue)
