"""`jobs cancel --force`: the worker that runs the job is killed by its own supervisor, and nobody else."""

import time

from pool.backends.contract import Backend
from pool.cli import control
from pool.cli.failures import Refused
from pool.clock import monotonic_now
from pool.config import socket_path
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.settings import Config

SETTLED_WITHIN_S = 15.0
ASK_TIMEOUT_S = 30.0


def kill_worker_of(store: Backend, config: Config, job: Job) -> Job:
    """Kill by order of this very claim, then wait until the store says what became of the job.

    Refused when another pool than the one configured here runs it.
    """
    code, answer = control.ask(socket_path(config), "POST", "/kill", {"job": job.id}, ASK_TIMEOUT_S)
    now = store.job(job.id)
    if code >= 300 and now.status is Status.RUNNING:
        said = answer.get("error") or answer.get("detail") or answer
        raise Refused(f"job {job.id} is flagged but was not killed: {said}. It runs on {now.worker_id}: ask that pool")
    deadline = monotonic_now() + SETTLED_WITHIN_S
    while now.status is Status.RUNNING and now.claim == job.claim and monotonic_now() < deadline:
        time.sleep(0.02)
        now = store.job(job.id)
    return now
