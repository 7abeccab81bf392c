"""A producer: a process that enqueues without end and writes down what it tried and what was accepted.

`python -m tests.chaos.producer URL BOOK SEED`. It may be killed at any moment: a line `try` without its `accepted`
says that the jobs may be in the store or not, but all of them or none.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool.client import Client
from pool.errors import BackendUnavailable, CallerError
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob

PAUSE_S = 0.08


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
        os.write(self._fd, json.dumps({"what": what, "jobs": entries}).encode() + b"\n")


def produce(url: str, book: Book, rng: random.Random) -> None:
    """Until killed, or until our parent is gone."""
    client, parent = Client(url), os.getppid()
    while os.getppid() == parent:
        jobs = rng.choice(KINDS)(rng)
        if jobs:
            offer(client, book, jobs)
        time.sleep(rng.uniform(0, 2 * PAUSE_S))


def offer(client: Client, book: Book, jobs: list[NewJob]) -> None:
    """One batch, all or none. A refusal or a doubt is not repeated: the verdict looks what became of it."""
    book.write("try", jobs)
    try:
        client.enqueue_drafts(jobs)
    except BackendUnavailable:
        return
    except CallerError as error:
        book.write(f"refused: {error}", jobs)
        raise
    book.write("accepted", jobs)


def read_book(path: Path) -> tuple[dict[str, dict[str, Any]], list[list[str]]]:
    """Accepted jobs by id, and the batches of which nobody knows."""
    accepted: dict[str, dict[str, Any]] = {}
    doubtful: dict[str, list[str]] = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        line = json.loads(text)
        ids = [job["id"] for job in line["jobs"]]
        if line["what"] == "try":
            doubtful[ids[0]] = ids
        elif line["what"] == "accepted":
            doubtful.pop(ids[0], None)
            accepted |= {job["id"]: job for job in line["jobs"]}
    return accepted, list(doubtful.values())


if __name__ == "__main__":
    produce(sys.argv[1], Book(sys.argv[2]), random.Random(sys.argv[3]))
