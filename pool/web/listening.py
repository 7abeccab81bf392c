"""Where the server listens, and where it refuses to: beyond loopback only with TLS or behind a proxy that adds it.

SO_REUSEPORT lets a new web process listen before the old one leaves. That two strangers would silently share a port
this way is ruled out by a look before: only a port that nobody has, or our own predecessor, is taken.
"""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from pathlib import Path

from pool.errors import ConfigError
from pool.settings import Config

BACKLOG = 1024
UNIX_MODE = 0o660


def refuse_unsafe(config: Config) -> None:
    """ConfigError unless this configuration may be served: tokens there, address fit for the wire."""
    web = config.web
    if not config.tokens:
        raise ConfigError(
            "the HTTP API needs at least one [[tokens]] entry: make one with `jobpool token new NAME --role producer`"
        )
    if is_unix(web.listen):
        return
    host, _ = host_and_port(web.listen)
    if not (web.tls_cert or web.behind_proxy or _is_loopback(host)):
        raise ConfigError(
            f"web.listen {web.listen!r} is reachable from other machines: set tls_cert and tls_key, or "
            "behind_proxy = true where a proxy in front adds TLS"
        )


def is_unix(listen: str) -> bool:
    """Whether the address is the path of a Unix socket."""
    return "/" in listen


def host_and_port(listen: str) -> tuple[str, int]:
    """`127.0.0.1:8420`, `[::1]:8420` or `:8420`; ConfigError for anything else."""
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ConfigError(f"web.listen {listen!r} is no address: write host:port, or the path of a Unix socket")
    return host.strip("[]") or "0.0.0.0", int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def listen_at(listen: str, *, beside_predecessor: bool = False) -> socket.socket:
    """A listening socket. `beside_predecessor`: our own older process may still have the port."""
    if is_unix(listen):
        return _unix_socket(Path(listen))
    host, port = host_and_port(listen)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if port and not beside_predecessor:
            _refuse_taken(family, address)
        return _tcp_socket(family, address)
    except OSError as error:
        raise ConfigError(f"cannot listen on web.listen {listen!r}: {error.strerror or error}") from error


def _refuse_taken(family: int, address: object) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)  # type: ignore[arg-type]
        probe.listen(1)


def _tcp_socket(family: int, address: object) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio sets no TCP_NODELAY
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)  # type: ignore[arg-type]
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _unix_socket(path: Path) -> socket.socket:
    """Made beside its place and moved there: a client finds the old one or the new one, never none."""
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise ConfigError(f"web.listen {path}: there is a file that is no socket")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(fresh))
        fresh.chmod(UNIX_MODE)
        made.listen(BACKLOG)
        fresh.replace(path)
    except OSError as error:
        made.close()
        reason = "the path is too long" if error.errno == errno.ENAMETOOLONG else error.strerror or str(error)
        raise ConfigError(f"cannot listen on web.listen {path}: {reason}") from error
    return made


def file_of(listen: str) -> tuple[int, int] | None:
    """Which file is at a Unix socket's place now: device and inode; None for TCP, or when there is none."""
    with contextlib.suppress(OSError):
        status = Path(listen).lstat()
        return (status.st_dev, status.st_ino) if is_unix(listen) else None
    return None


def remove_file(listen: str, mine: tuple[int, int] | None) -> None:
    """Take our Unix socket away when we leave, but not the one that an heir has put in its place."""
    if mine is not None and file_of(listen) == mine:
        Path(listen).unlink(missing_ok=True)
