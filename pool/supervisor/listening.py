"""Sockets to listen on: the Unix socket file, with everything that may be in its place, and a TCP address."""

import contextlib
import os
import socket
import stat
from pathlib import Path

from pool.errors import ConfigError

LONGEST_PATH_BYTES = 107  # sockaddr_un has 108, the last is NUL
BACKLOG = 128


class UnixListener:
    """A listening Unix socket with its file. The leftover of a dead pool is replaced, anything else is left alone.

    ConfigError, with the remedy, when the path cannot be used.
    """

    def __init__(self, path: Path, mode: int) -> None:
        self.path = path
        check_path(path)
        make_way(path)
        self.socket = _bound(path, mode)
        self.socket.setblocking(False)
        self.socket.listen(BACKLOG)
        self._inode = _inode(path)
        self._owner_pid = os.getpid()

    def is_in_place(self) -> bool:
        """Whether the file at the path is still this socket."""
        return self._inode is not None and _inode(self.path) == self._inode

    def close(self) -> None:
        """Stop listening; the file is removed only by the process that made it, and only if it is still this one."""
        if os.getpid() == self._owner_pid and self.is_in_place():
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.socket.close()


def check_path(path: Path) -> None:
    """ConfigError when the path is too long or its directory is open to everyone."""
    length = len(os.fsencode(path))
    if length > LONGEST_PATH_BYTES:
        raise ConfigError(
            f"the socket path {path} has {length} bytes, the kernel allows {LONGEST_PATH_BYTES}: set a shorter runtime_dir in [pool]"
        )
    with contextlib.suppress(FileNotFoundError):
        if path.parent.stat().st_mode & stat.S_IWOTH:
            raise ConfigError(
                f"the status socket may not stand in {path.parent}, where everyone may write: set runtime_dir in [pool] to a directory of its own"
            )


def make_way(path: Path) -> None:
    """Make the directory if needed and remove the socket of a dead pool. ConfigError for anything else at the path."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot use {path} for the status socket: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path} is in the way and is not a socket: remove it, or set another runtime_dir in [pool]")
    if is_answered(path):
        raise ConfigError(f"another pool answers at {path}: stop it, or set another runtime_dir in [pool]")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def is_answered(path: Path) -> bool:
    """Whether a process listens at the socket file; when in doubt, yes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


def _bound(path: Path, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The file gets its mode at birth; a chmod afterwards would leave a moment with another one.
    old_umask = os.umask(~mode & 0o777)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot make the status socket {path}: {error.strerror}") from None
    finally:
        os.umask(old_umask)
    return listener


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def tcp_listener(address: str) -> socket.socket:
    """A listening TCP socket at `host:port` or `[v6]:port`; ConfigError when that cannot be had."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        if int(port) > 65535:
            raise ValueError("a port is at most 65535")
        family, _, _, _, place = socket.getaddrinfo(
            host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST
        )[0]
        return _tcp_bound(family, place)
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(f"cannot listen on {address} ([status] listen, such as 127.0.0.1:8421): {error}") from None


def _tcp_bound(family: int, place: object) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(place)  # type: ignore[arg-type]  # getaddrinfo's own address
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
