"""`logs JOB|SLOT [-f]`: what a job printed, or what a worker logged."""

import time
from typing import Annotated

import typer

from pool.backends.contract import Backend
from pool.cli.failures import Refused
from pool.cli.flags import load
from pool.cli.logfile import LogFile, of_job, of_slot
from pool.cli.output import remark, say
from pool.cli.store import BackendUrl, ConfigFile, opened
from pool.clock import as_rfc3339
from pool.config import Loaded
from pool.jobs.job import Attempt, Job
from pool.jobs.lifecycle import Status

LOOK_EVERY_S = 0.2
SHOWN_LINES = 200


def logs(
    what: Annotated[str, typer.Argument(metavar="JOB|SLOT", help="A job's id, or the slot of a worker.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job is over, or Ctrl-C.")] = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Show what a job printed (the end of each attempt is kept), or the log lines of a worker."""
    loaded = load(config, backend)
    if what.isdecimal():
        _logs_of_slot(int(what), loaded, follow=follow)
        return
    with opened(loaded) as store:
        _logs_of_job(store, what, loaded, follow=follow)


# ---------------------------------------------------------------- a job


def _logs_of_job(store: Backend, job_id: str, loaded: Loaded, *, follow: bool) -> None:
    """Ended attempts as the store keeps them; the running one from the log file, where there is one."""
    job = store.job(job_id)
    for attempt in job.attempts:
        _say_attempt(attempt)
    if job.status is Status.RUNNING or (follow and job.status.is_live):
        _say_running(store, job, loaded, follow=follow)
    elif not any(attempt.output for attempt in job.attempts):
        remark(f"job {job_id} is {job.status.value} and printed nothing that is kept")


def _say_attempt(attempt: Attempt) -> None:
    if attempt.number == 0:
        say(f"--- {as_rfc3339(attempt.ended_at)} {attempt.cause.text if attempt.cause else ''} by {attempt.worker}")
        return
    say(f"--- attempt {attempt.number}, {attempt.outcome.value} at {as_rfc3339(attempt.ended_at)} on {attempt.worker}")
    if attempt.output:
        say(attempt.output.rstrip("\n"))


def _say_running(store: Backend, job: Job, loaded: Loaded, *, follow: bool) -> None:
    file = _log_file(loaded)
    if file is None:
        remark("What a running attempt prints can be read here while it runs only from a log file: set [log] file")
        if follow:
            _follow_attempts(store, job)
        return
    attempt = job.retry_count + 1
    say(f"--- attempt {attempt}, running on {job.worker_id}" if job.worker_id else f"--- {job.status.value}")
    belongs = of_job(job.id)
    for line in file.last(SHOWN_LINES, lambda line: belongs(line) and f"attempt={attempt}" in line.replace('": ', "=")):
        say(line)
    while follow:
        is_over = not store.job(job.id).status.is_live
        for line in file.fresh(belongs):
            say(line)
        if is_over:
            return
        time.sleep(LOOK_EVERY_S)


def _follow_attempts(store: Backend, job: Job) -> None:
    """Each attempt once it has ended, until the job is over."""
    said = {(attempt.number, attempt.ended_at) for attempt in job.attempts}
    while job.status.is_live:
        time.sleep(LOOK_EVERY_S)
        job = store.job(job.id)
        for attempt in job.attempts:
            if (attempt.number, attempt.ended_at) not in said:
                said.add((attempt.number, attempt.ended_at))
                _say_attempt(attempt)


# ---------------------------------------------------------------- a worker


def _logs_of_slot(slot: int, loaded: Loaded, *, follow: bool) -> None:
    file = _log_file(loaded)
    if file is None:
        raise Refused(
            f"the pool {loaded.config.pool.name} logs to its standard error, which is not ours to read: "
            "see `journalctl -u jobpool`, or set [log] file"
        )
    for line in file.last(SHOWN_LINES, of_slot(slot)):
        say(line)
    while follow:
        time.sleep(LOOK_EVERY_S)
        for line in file.fresh(of_slot(slot)):
            say(line)


def _log_file(loaded: Loaded) -> LogFile | None:
    path = loaded.config.log.file
    return LogFile(path) if path else None
