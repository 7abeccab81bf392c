"""Running one program to its end: its own process group, dead with us, killed whole when its job is interrupted."""

import codecs
import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from pool.errors import JobpoolError
from pool.worker.timeouts import wait_interruptibly

MAX_STDOUT = 16 * 1024 * 1024
KEPT_STDERR = 4096
CHUNK = 65_536
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class TooMuchOutput(JobpoolError):
    """The program wrote more to standard output than a result may have."""


@dataclass(frozen=True, slots=True)
class Ended:
    """`code` below 0: ended by that signal."""

    code: int
    stdout: bytes
    stderr_end: str


def run_program(argv: Sequence[str], stdin: bytes, folder: str, environment: Mapping[str, str]) -> Ended:
    """Its exit code and output; OSError when it cannot be started. Whatever is raised here, no process of it is left."""
    with _started(argv, folder, environment) as process:
        talk = _Talk(process, stdin)
        talk.until_it_ended()
        return Ended(_code_of(process.pid), bytes(talk.stdout), talk.stderr_end)


@contextmanager
def _started(argv: Sequence[str], folder: str, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        process_group=0,
        preexec_fn=_die_with_the_worker,
        bufsize=0,
    )
    try:
        yield process
    except BaseException:
        _kill_group(process.pid)
        raise
    finally:
        if _is_running(process.pid) or _code_of(process.pid) != 0:
            _kill_group(process.pid)  # its zombie still pins the number
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _die_with_the_worker() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    for number in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)


class _Talk:
    """The three pipes of a running program, none of which may hold up another."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self.stdout = bytearray()
        self.stderr_end = ""
        self._process, self._unsent = process, memoryview(stdin)
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._selector = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(process.pid)

    def until_it_ended(self) -> None:
        """Until the program itself has ended; what its children still hold open is not waited for."""
        with self._selector:
            try:
                self._register()
                while not self._turn():
                    pass
                self._drain()
            finally:
                os.close(self._pidfd)

    def _register(self) -> None:
        process = self._process
        self._watch(process.stdin, selectors.EVENT_WRITE, self._send)
        self._watch(process.stdout, selectors.EVENT_READ, self._take_stdout)
        self._watch(process.stderr, selectors.EVENT_READ, self._take_stderr)
        self._selector.register(self._pidfd, selectors.EVENT_READ, None)

    def _watch(self, pipe: IO[bytes] | None, events: int, act: Any) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, events, act)

    def _turn(self) -> bool:
        """One round of what is ready; whether the program has ended."""
        ready = wait_interruptibly(self._selector)
        for key, _ in ready:
            if key.data is not None:
                key.data(key.fileobj)
        return any(key.data is None for key, _ in ready)

    def _drain(self) -> None:
        """What it wrote before its end is in the pipes already."""
        for key in list(self._selector.get_map().values()):
            if key.data in (self._take_stdout, self._take_stderr):
                while key.data(key.fileobj):
                    pass

    def _send(self, pipe: IO[bytes]) -> None:
        try:
            self._unsent = self._unsent[os.write(pipe.fileno(), self._unsent[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # a program need not read its input
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._selector.unregister(pipe)
            pipe.close()

    def _take_stdout(self, pipe: IO[bytes]) -> bool:
        data = self._read(pipe)
        self.stdout += data
        if len(self.stdout) > MAX_STDOUT:
            raise TooMuchOutput(f"the program wrote more than {MAX_STDOUT:,} bytes to standard output")
        return bool(data)

    def _take_stderr(self, pipe: IO[bytes]) -> bool:
        data = self._read(pipe)
        text = self._decode(data)
        self.stderr_end = (self.stderr_end + text)[-KEPT_STDERR:]
        if text:
            sys.stderr.write(text)  # into the job's transcript
        return bool(data)

    def _read(self, pipe: IO[bytes]) -> bytes:
        """What is there; at the end of the file the pipe is given up."""
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self._selector.unregister(pipe)
        return data


def _is_running(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _code_of(pid: int) -> int:
    """Of an ended process, left unreaped."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if ended is None:
        raise JobpoolError("the program has not ended")
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
