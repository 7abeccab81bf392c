"""A real pool for the demo: `jobpool start` in a process of its own, everything of it in a temporary directory."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from pool.cli import control
from pool.clock import monotonic_now
from pool.errors import WorldError

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 45.0
POLL_S = 0.05
LOG_TAIL_LINES = 20
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class PoolFailed(WorldError):
    """The demo's pool did not start or died."""


class DemoPool:
    """Use as a context: started and ready inside, stopped and removed after."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.folder = Path(tempfile.mkdtemp(prefix="jobpool-demo-"))
        self.url = f"sqlite:///{self.folder}/demo.db"
        self.socket = self.folder / "run" / "jobpool.sock"
        self._log = self.folder / "pool.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "DemoPool":
        end_by_signal_in_order()
        try:
            self._start()
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def status(self) -> dict[str, Any]:
        """The pool's own account."""
        document: dict[str, Any] = control.ask(self.socket, "GET", "/status", timeout=10)[1]
        return document

    def workers(self) -> list[dict[str, Any]]:
        return list(self.status()["workers"])

    def refuse_death(self) -> None:
        """PoolFailed with the end of its log when the supervisor is gone."""
        if self._process is None or self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
            raise PoolFailed(f"the demo's pool ended unexpectedly. The end of its log:\n{tail}")

    def stop(self) -> int:
        """Stop in order; the supervisor's exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            return self._process.wait(STOP_WITHIN_S)

    # ------------------------------------------------------------------

    def _start(self) -> None:
        settings = self.folder / "jobpool.toml"
        settings.write_text(
            f'[pool]\nname = "demo"\nruntime_dir = "{self.folder}/run"\nstate_dir = "{self.folder}/state"\n'
            f'[backend]\nurl = "{self.url}"\n[app]\nmodules = ["pool.cli.demo_jobs"]\npath = "{self.folder}"\n'
            f"[workers]\ncount = {self._workers}\n"
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith("JOBPOOL_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pool", "start", "--config", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean,
                preexec_fn=_stop_with_the_demo,
            )

    def _wait_until_ready(self) -> None:
        deadline = monotonic_now() + READY_WITHIN_S
        while not self._is_ready():
            self.refuse_death()
            if monotonic_now() > deadline:
                raise PoolFailed(f"the demo's pool was not ready within {READY_WITHIN_S:g} s")
            pause(POLL_S)

    def _is_ready(self) -> bool:
        try:
            return control.ask(self.socket, "GET", "/readyz", timeout=5)[0] == 200
        except control.PoolUnreachable:
            return False

    def _end(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def end_by_signal_in_order() -> None:
    """A demo that is told to end, or whose terminal is closed, takes its pool along; its exit code names the signal."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)


_ordered_to_end = 0  # the signal that said so


def _leave(number: int, frame: FrameType | None) -> None:
    global _ordered_to_end
    _ordered_to_end = number
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # the end takes a moment, and must not be cut short
    raise SystemExit(128 + number)


def _stop_with_the_demo() -> None:
    """In the child: SIGTERM when the demo is killed, for then nobody would ever stop its pool."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


def pause(seconds: float) -> None:
    """Between two looks at a pool; a signal handler may end it, or have tried to where Python lets nothing through (a finalizer)."""
    import select

    if _ordered_to_end:
        raise SystemExit(128 + _ordered_to_end)
    select.select([], [], [], seconds)
