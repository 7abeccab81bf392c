"""The child behind `start --watch`: asks the supervisor for a rolling reload when a source file changes.

For development. It compares modification times twice a second; no file is read, nothing is imported.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from pool.board.record import Exit, State
from pool.clock import monotonic_now
from pool.descriptors import readable
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config

LOOK_EVERY_S = 0.5
MAX_FILES = 20_000
_NOT_SOURCE = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})

Times = dict[str, int]


def run_watch(config: Config, seat: Seat) -> int:
    """The watcher's whole life: look, ask for a roll, until told to leave or the supervisor is gone."""
    woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    root = Path(config.app.path)
    seen = source_times(root)
    _show(seat, State.IDLE)
    os.write(seat.announce_fd, b"w")
    while not readable([woken], LOOK_EVERY_S) and os.getppid() == seat.parent.pid:
        seen = _look(root, seen, seat)
        _show(seat, State.IDLE)
    _show(seat, State.RETIRING, Exit.STOPPED)
    return 0


def source_times(root: Path) -> Times:
    """Modification times of the Python and TOML files below `root`; environments and hidden folders left out."""
    times: Times = {}
    for path in _sources(root):
        try:
            times[str(path)] = path.stat().st_mtime_ns
        except OSError:
            continue  # removed while we looked
        if len(times) >= MAX_FILES:
            break
    return times


def changed(before: Times, now: Times) -> list[str]:
    """Files that are new, gone or written since."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _look(root: Path, seen: Times, seat: Seat) -> Times:
    now = source_times(root)
    files = changed(seen, now)
    if files:
        log.info("source changed, rolling the workers", file=files[0], more=len(files) - 1 or None)
        os.kill(seat.parent.pid, signal.SIGUSR2)
    return now


def _sources(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _NOT_SOURCE and not name.startswith("."))
        yield from (Path(folder, name) for name in files if name.endswith((".py", ".toml")))


def _show(seat: Seat, state: State, leaving: Exit = Exit.NONE) -> None:
    now = monotonic_now()
    seat.record.process.write(state, leaving, now, now, 0.0, 0, 0, 0, 0)
