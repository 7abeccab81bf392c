"""Exactly one supervisor per runtime directory: a lock on a file in it, which the kernel frees with the process."""

import fcntl
import os
from pathlib import Path

from pool.errors import ConfigError

LOCK_NAME = "jobpool.lock"


class RuntimeLock:
    """Held from `take` to `release`. Children close their copy and never unlock: flock belongs to the open file."""

    def __init__(self, runtime_dir: Path) -> None:
        self._dir, self._path, self._fd = runtime_dir, runtime_dir / LOCK_NAME, -1

    def take(self) -> None:
        """ConfigError when another supervisor has the directory, or it cannot be made or written."""
        try:
            self._dir.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        except OSError as error:
            raise ConfigError(
                f"the runtime directory {self._dir} cannot be used: {error.strerror}; set pool.runtime_dir"
            ) from error
        self._lock_or_name_the_holder()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Empty the file and free it. It is not removed: a waiting starter would hold a lock on a file nobody sees."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def _lock_or_name_the_holder(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            self._fd = -1
            raise ConfigError(
                f"another jobpool supervisor (pid {holder or 'unknown'}) runs in {self._dir}: "
                "stop it, or set pool.runtime_dir to another directory"
            ) from error
