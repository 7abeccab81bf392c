"""Functions that an application asks to be called: when a worker boots and stops, around each job, at retry and death.

A hook that fails is logged and costs nothing: neither the worker nor a job.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

BootHook = Callable[[], Any]
StopHook = Callable[[], Any]
AroundHook = Callable[[Any], AbstractContextManager[Any]]
ErrorHook = Callable[[Any, BaseException], Any]


class Hooks:
    """The hooks of one process, in the order they were declared."""

    def __init__(self) -> None:
        self.boot: list[BootHook] = []
        self.stop: list[StopHook] = []
        self.around: list[AroundHook] = []
        self.retry: list[ErrorHook] = []
        self.dead: list[ErrorHook] = []


hooks = Hooks()


def on_worker_boot(function: F) -> F:
    """Call `function()` in each worker after the app's modules are imported: open pools, set up tracing."""
    hooks.boot.append(function)
    return function


def on_worker_stop(function: F) -> F:
    """Call `function()` in each worker that leaves in order (not when it is killed): flush, close."""
    hooks.stop.append(function)
    return function


def around_job(function: Callable[[Any], Generator[Any, None, None]]) -> Callable[[Any], Generator[Any, None, None]]:
    """Run each job inside the generator `function(job)`, which yields once; an error of the job is raised at the yield.

    It cannot swallow the error. Several nest in the order they were declared.
    """
    hooks.around.append(contextmanager(function))
    return function


def on_retry(function: F) -> F:
    """Call `function(job, error)` when an attempt failed and will be tried again, before that is stored."""
    hooks.retry.append(function)
    return function


def on_dead(function: F) -> F:
    """Call `function(job, error)` when a job is given up, before that is stored. Not called for a lost worker's job."""
    hooks.dead.append(function)
    return function
