"""A producer: a process that enqueues without end and writes down what it tried and what was accepted.

`python -m tests.chaos.producer URL BOOK SEED`. It may be killed at any moment: a line `try` without its `accepted`
says that the jobs may be in the store or not, but all of them or none. A URL that is a path is the socket of a pool's
web child: there each job has an idempotency key and is said again until it is answered.
"""

import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import httpx

from pool.client import Client
from pool.errors import BackendUnavailable, CallerError
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.helpers.house import whole_lines

PAUSE_S = 0.08
TOKEN = "token-of-a-customer"
NOT_NOW = (429, 503, 504, 507)


def draft(rng: random.Random, kind: str, **payload: Any) -> NewJob:
    """A job of our application that nothing but its own rules can use up."""
    times = {"max_retries": 0 if kind == "once" else 100, "max_kills": 100}
    delay = rng.choice([0.0, 0.0, 0.0, rng.uniform(0.1, 3.0)])
    priority = rng.choice([0, 10, 20, 30])
    return NewJob(
        id=new_job_id(), type=f"tasks.{kind}", payload=json.dumps(payload), delay=delay, priority=priority, **times
    )


KINDS: tuple[Callable[[random.Random], list[NewJob]], ...] = (
    lambda rng: [draft(rng, "nap")],
    lambda rng: [draft(rng, "nap", seconds=round(rng.uniform(0, 0.3), 3))],
    lambda rng: [draft(rng, "nap", seconds=round(rng.uniform(0, 0.01), 4)) for _ in range(rng.randint(2, 12))],
    lambda rng: [draft(rng, "once", seconds=round(rng.uniform(0, 0.1), 3)) for _ in range(rng.randint(1, 4))],
    lambda rng: [draft(rng, "flaky", fails=rng.randint(1, 3))],
    lambda rng: [draft(rng, "family", children=rng.randint(1, 4))],
    lambda rng: [draft(rng, "talker")],
    lambda rng: [draft(rng, "hopeless")],
    lambda rng: [draft(rng, "parent_of_process", seconds=0.1)],
    lambda rng: [draft(rng, "nap", seconds=round(rng.uniform(1, 2.5), 2))] if rng.random() < 0.3 else [],
)


class Book:
    """What this producer did; another process reads it after our death."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, what: str, jobs: list[NewJob]) -> None:
        entries = [{"id": job.id, "type": job.type, "payload": job.payload} for job in jobs]
        os.write(self._fd, b"\n" + json.dumps({"what": what, "jobs": entries}).encode() + b"\n")


class Door(Protocol):
    """A way in."""

    def offer(self, book: Book, jobs: list[NewJob]) -> None:
        """Try to have them accepted, and write down what is known."""


class StoreDoor:
    """The library: one batch, all or none. A refusal or a doubt is not repeated: the verdict looks what became of it."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)

    def offer(self, book: Book, jobs: list[NewJob]) -> None:
        book.write("try", jobs)
        try:
            self._client.enqueue_drafts(jobs)
        except BackendUnavailable:
            return
        except CallerError as error:
            book.write(f"refused: {error}", jobs)
            raise
        book.write("accepted", jobs)


class WebDoor:
    """HTTP: one by one, said again under its key until it is answered, and sometimes once more."""

    def __init__(self, socket: str, rng: random.Random, is_over: Callable[[], bool]) -> None:
        self._rng, self._is_over = rng, is_over
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=socket),
            base_url="http://pool",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=5,
        )

    def offer(self, book: Book, jobs: list[NewJob]) -> None:
        for job in jobs:
            answer = self._answered(job)
            if answer is not None:
                accepted = replace(job, id=answer["id"])
                book.write("accepted", [accepted])
                self._sometimes_again(job, accepted.id)

    def _sometimes_again(self, job: NewJob, expected: str) -> None:
        again = self._answered(job) if self._rng.random() < 0.2 else None
        if again is not None and again["id"] != expected:
            raise AssertionError(f"key {job.id} was answered with {expected}, then with {again['id']}")

    def _answered(self, job: NewJob) -> dict[str, Any] | None:
        """The job as the server has it; None when there was no time for an answer."""
        body = {"type": job.type, "payload": json.loads(job.payload), "priority": job.priority,
                "max_retries": job.max_retries, "delay": job.delay, "idempotency_key": job.id}  # fmt: skip
        while not self._is_over():
            with contextlib.suppress(httpx.TransportError):
                answer = self._client.post("/jobs", json=body)
                if answer.status_code in (200, 201):
                    return dict(answer.json())
                if answer.status_code not in NOT_NOW:
                    raise AssertionError(f"{answer.status_code} {answer.text}")
            time.sleep(0.2)
        return None


def produce(url: str, book: Book, rng: random.Random) -> None:
    """Until killed, or until our parent is gone."""
    parent = os.getppid()

    def is_over() -> bool:
        return os.getppid() != parent

    door: Door = WebDoor(url, rng, is_over) if url.startswith("/") else StoreDoor(url)
    while not is_over():
        jobs = rng.choice(KINDS)(rng)
        if jobs:
            door.offer(book, jobs)
        time.sleep(rng.uniform(0, 2 * PAUSE_S))


def read_book(path: Path) -> tuple[dict[str, dict[str, Any]], list[list[str]]]:
    """Accepted jobs by id, and the batches of which nobody knows."""
    accepted: dict[str, dict[str, Any]] = {}
    doubtful: dict[str, list[str]] = {}
    for line in whole_lines(path):
        ids = [job["id"] for job in line["jobs"]]
        if line["what"] == "try":
            doubtful[ids[0]] = ids
        elif line["what"] == "accepted":
            doubtful.pop(ids[0], None)
            accepted |= {job["id"]: job for job in line["jobs"]}
    return accepted, list(doubtful.values())


if __name__ == "__main__":
    produce(sys.argv[1], Book(sys.argv[2]), random.Random(sys.argv[3]))
