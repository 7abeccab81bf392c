"""The only place that forks. What a child must not inherit is dropped here, and here is the one door it leaves by.

Danger: between fork and `spec.run` the child runs with all signals blocked and must touch nothing that belongs to the
parent, above all its wake-up pipe: a byte written there would be read as a signal of the parent's.

Each page that a child is the first to write becomes its own, and to use an object is to write it: so what is the same for
all children is made before the fork, and the plainest call is taken where there is a choice.
"""

import _signal  # type: ignore[import-not-found]  # its functions make no enum members: a tenth of what a child copies here
import contextlib
import ctypes
import errno
import faulthandler
import functools
import gc
import mmap
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from pool.board.record import Role
from pool.cleaning import clean
from pool.logs import log
from pool.seat import ChildSpec, Seat

EXIT_CRASHED = 70  # EX_SOFTWARE: the child's own code raised

MARK_VARIABLE = "_JOBPOOL_WORKER"
"""Set in every child and inherited by what it executes: tells whose a process is that has left the process group."""

# People send these by name to everything called jobpool; by default each would kill or stop the child.
_IGNORED = frozenset(
    int(number)
    for number in (
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGWINCH,
        signal.SIGPIPE,
        signal.SIGTTIN,
        signal.SIGTTOU,
    )
)
_RESETTABLE = tuple(sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})))
_STACKS = int(signal.SIGUSR2)
PARENTS_VARIABLES = ("NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID")
# The kernel takes a worker before the keeper, and any child before the parent.
_OOM_BIAS = {Role.WORKER: 300, Role.WEB: 200, Role.WATCH: 200, Role.KEEPER: 50}

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class _Stack(ctypes.Structure):
    """`stack_t` of sigaltstack(2)."""

    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


# Taken from the machine only where it is used, and by each process for itself.
_SIGNAL_STACK_BYTES = 1 << 20
_signal_stack = mmap.mmap(-1, _SIGNAL_STACK_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
_wide_stack = _Stack(ctypes.addressof(ctypes.c_char.from_buffer(_signal_stack)), 0, _SIGNAL_STACK_BYTES)
_use_the_wide_stack = functools.partial(_libc.sigaltstack, ctypes.byref(_wide_stack), None)
_get_sigterm_when_the_parent_dies = functools.partial(_libc.prctl, _PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


class Closable(Protocol):
    """What has a descriptor and an end."""

    def close(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What a child does with what it finds: `keep` these descriptors beyond the standard ones and close all others,
    first the objects that are the `parents_own`, and take the `parents_variables` from the environment;
    `descriptor_limit` is its soft limit.
    """

    keep: Set[int]
    parents_own: Sequence[Closable]
    parents_variables: Sequence[str]
    descriptor_limit: int


def adopt_orphans() -> None:
    """Parent, once: descendants whose own parent ends become our children, so that they can be found and reaped."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cradle:
    """All that is ready for a child before it is born: it will run `spec.run(seat)` and nothing else ever after."""

    spec: ChildSpec
    seat: Seat
    inheritance: Inheritance


def fork_children(cradles: Sequence[Cradle]) -> list[int | OSError]:
    """A new process for each, in a row; for each its pid, or why the system refused it (EAGAIN, ENOMEM).

    None is forked when this process has more than one thread: a lock that another thread holds now would stay locked in
    the child for ever. Between two forks next to nothing is done: each page written here is copied for each child.
    """
    threads = _thread_count()
    if threads > 1:
        return [_refusal_for(threads) for _ in cradles]
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        born = [_forked(cradle) for cradle in cradles]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
    for pid in born:
        if not isinstance(pid, OSError):
            with contextlib.suppress(OSError):  # the child does it too; whoever comes first
                os.setpgid(pid, pid)
    return born


def _forked(cradle: Cradle) -> int | OSError:
    try:
        pid = os.fork()
    except OSError as error:
        return error
    if pid == 0:
        _live(cradle.spec, cradle.seat, cradle.inheritance)
    return pid


def _thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _refusal_for(threads: int) -> OSError:
    return OSError(
        errno.EDEADLK, f"the supervisor has {threads} threads; remove from app.preload what starts threads at import"
    )


# ---------------------------------------------------------------- from here on: the child


def _live(spec: ChildSpec, seat: Seat, inheritance: Inheritance) -> NoReturn:
    code = EXIT_CRASHED
    try:
        _settle_in(seat, inheritance)
        code = _run(spec, seat)
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        _leave(code)


def _settle_in(seat: Seat, inheritance: Inheritance) -> None:
    gc.freeze()  # what was there before is not looked at, and so not copied, when this child collects its own
    signal.set_wakeup_fd(-1)
    os.setpgid(0, 0)
    _die_with(seat.parent.pid)
    _reset_signals(seat.stack_fd)
    _close_what_is_the_parents(inheritance)
    _drop_variables(seat, inheritance)
    _reseed()
    _offer_to_the_oom_killer(seat.role)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _die_with(parent_pid: int) -> None:
    _get_sigterm_when_the_parent_dies()
    if os.getppid() != parent_pid:  # it died before the line above, and no signal will come
        os._exit(0)


def _reset_signals(stack_fd: int) -> None:
    for number in _RESETTABLE:
        with contextlib.suppress(OSError, ValueError):  # two real-time signals belong to the C library
            _signal.signal(number, _signal.SIG_IGN if number in _IGNORED else _signal.SIG_DFL)
    faulthandler.register(_STACKS, file=stack_fd, all_threads=True, chain=False)
    # faulthandler brings a small stack for signals, and Python's own handlers run on it too. With AVX-512 or AMX one
    # frame takes 3 to 11 KB, so that a few signals at once, each interrupting the one before, overflowed it: SIGSEGV.
    _use_the_wide_stack()


def _close_what_is_the_parents(inheritance: Inheritance) -> None:
    # Objects first: one that still believed in its number would later close a stranger's descriptor.
    for thing in inheritance.parents_own:
        thing.close()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # each Path would be a page or two
        fd = int(name)
        if fd > 2 and fd not in inheritance.keep:
            with contextlib.suppress(OSError):
                os.close(fd)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (inheritance.descriptor_limit, hard))


def _drop_variables(seat: Seat, inheritance: Inheritance) -> None:
    for name in inheritance.parents_variables:
        del os.environ[name]
    os.environ[MARK_VARIABLE] = str(seat.worker)


def _reseed() -> None:
    """What Python does not by itself, as it does `random`."""
    numpy_random = sys.modules.get("numpy.random")  # only where `preload` brought it
    if numpy_random is not None:
        numpy_random.seed()


def _offer_to_the_oom_killer(role: Role) -> None:
    bias = _OOM_BIAS.get(role, 0)
    with contextlib.suppress(OSError, ValueError):
        fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(fd, b"%d" % min(1000, int(os.read(fd, 16)) + bias), 0)
        finally:
            os.close(fd)


def _run(spec: ChildSpec, seat: Seat) -> int:
    try:
        return int(spec.run(seat))
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:
        _say_why(seat, error)
        return EXIT_CRASHED


def _say_why(seat: Seat, error: BaseException) -> None:
    text = "".join(traceback.format_exception(error))
    seat.record.remark.write(clean(text).encode(errors="replace")[-4000:])
    log.error("child crashed", role=seat.role.name.lower(), slot=seat.worker.slot, trace=text)


def _leave(code: int) -> NoReturn:
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    finally:
        os._exit(code & 0xFF)
