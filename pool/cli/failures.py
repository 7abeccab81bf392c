"""How a failed command ends: one sentence, what to type next, and the exit code. Never our traceback."""

import os
import sys
import traceback
from collections.abc import Callable

from pool import errors
from pool.cli.output import remark

OK, NEGATIVE, USAGE, UNREACHABLE, BUG, BAD_CONFIG = 0, 1, 2, 69, 70, 78


class Refused(errors.CallerError):
    """The pool or a person said no."""


def run_guarded(command: Callable[[], int | None]) -> int:
    """Run a command and turn what it raises into words and an exit code."""
    try:
        code = command()
        if sys.stdout is not None:  # closed from the start
            sys.stdout.flush()
        return code or OK
    except errors.JobpoolError as error:
        remark(f"jobpool: {error}")
        for hint in (*getattr(error, "__notes__", ()), _hint(error)):
            if hint:
                remark(hint)
        return _code(error)
    except BrokenPipeError:
        _discard_stdout()
        return NEGATIVE
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _report_bug(error)


def _code(error: errors.JobpoolError) -> int:
    if isinstance(error, errors.ConfigError):
        return BAD_CONFIG
    return UNREACHABLE if isinstance(error, errors.WorldError) else NEGATIVE


def _hint(error: errors.JobpoolError) -> str:
    """The next command to type, where there is one."""
    if isinstance(error, errors.JobNotFound):
        return "See what is there with: jobpool jobs list"
    if isinstance(error, errors.QueueFull):
        return "See how it goes with: jobpool queues"
    return ""


def _report_bug(error: Exception) -> int:
    if os.environ.get("JOBPOOL_DEBUG"):
        traceback.print_exc()
    else:
        remark(f"jobpool: internal error, please report it: {type(error).__name__}: {error}")
        remark("For the details, run it again with JOBPOOL_DEBUG=1 in the environment")
    return BUG


def _discard_stdout() -> None:
    """The reader of our pipe has left; without this Python complains about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
