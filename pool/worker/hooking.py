"""Calling the application's hooks so that none of them can cost a worker or a job anything."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from pool.jobs.hooks import hooks
from pool.jobs.job import Outcome
from pool.logs import log
from pool.worker.causes import cause_from


def boot() -> None:
    for hook in hooks.boot:
        _safely("on_worker_boot", hook)


def stop() -> None:
    for hook in hooks.stop:
        _safely("on_worker_stop", hook)


def tell(outcome: Outcome, job: Any, error: BaseException) -> None:
    """on_retry or on_dead, by how the attempt ended."""
    if outcome is Outcome.RETRIED:
        for hook in hooks.retry:
            _safely("on_retry", hook, job, error)
    elif outcome is Outcome.FAILED:
        for hook in hooks.dead:
            _safely("on_dead", hook, job, error)


class Around:
    """The around_job hooks of one attempt: entered in order, left in reverse, shown the job's error."""

    __slots__ = ("_entered", "_error", "_job")

    def __init__(self, job: Any) -> None:
        self._job = job
        self._entered: list[AbstractContextManager[Any]] = []
        self._error: BaseException | None = None

    def __enter__(self) -> "Around":
        for hook in hooks.around:
            manager = _safely("around_job", hook, self._job)
            if manager is not _FAILED and _safely("around_job", manager.__enter__) is not _FAILED:
                self._entered.append(manager)
        return self

    def saw(self, error: BaseException | None) -> None:
        self._error = error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        seen = self._error or error
        for manager in reversed(self._entered):
            _leave(manager, seen)


_FAILED = object()


def _leave(manager: AbstractContextManager[Any], seen: BaseException | None) -> None:
    try:
        manager.__exit__(type(seen) if seen else None, seen, seen.__traceback__ if seen else None)
    except BaseException as broken:
        if broken is not seen:
            _complain("around_job", broken)


def _safely(name: str, hook: Any, *arguments: Any) -> Any:
    try:
        return hook(*arguments)
    except BaseException as broken:
        _complain(name, broken)
        return _FAILED


def _complain(name: str, broken: BaseException) -> None:
    cause = cause_from(broken)
    log.error(f"hook {name} failed", exception=cause.exception, error=cause.text, trace=cause.stack)
