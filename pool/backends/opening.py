"""From a URL to a backend. Only the backend that is asked for is imported."""

import re
from urllib.parse import unquote

from pool.backends.contract import Backend
from pool.errors import ConfigError

_REDIS_SCHEMES = ("redis", "rediss", "unix", "valkey", "valkeys")
_QUERY_SECRET = re.compile(r"([?&][a-z_]*(?:password|secret|token)=)[^&#]*", re.IGNORECASE)
_CHOICES = "sqlite:///relative/path, sqlite:////absolute/path, redis://host:6379/0, rediss://… (TLS), redis+sentinel://…, redis+cluster://…"


def open_backend(
    url: str, *, namespace: str = "default", producer: bool = False, create: bool = True, lock_wait: float = 5.0
) -> Backend:
    """The backend of a URL, not connected yet. `producer`: all it commits survives a power cut (SQLite).

    `create=False` refuses to make a missing SQLite database; `lock_wait` is how long a write stands in line there (s).
    ConfigError for a URL that names no backend.
    """
    scheme = url.partition("://")[0].lower()
    if scheme == "sqlite":
        from pool.backends.sqlite.backend import SqliteBackend

        return SqliteBackend(sqlite_path(url), producer=producer, create=create, lock_wait=lock_wait)
    if scheme.partition("+")[0] in _REDIS_SCHEMES:
        from pool.backends.redis.backend import RedisBackend

        return RedisBackend(url, namespace=namespace)
    raise ConfigError(f"backend URL {mask_url(url)!r} names no backend; choose one of {_CHOICES}")


def sqlite_path(url: str) -> str:
    """The file of an sqlite URL: three slashes for a relative path, four for an absolute one."""
    rest = url[len("sqlite://") :].partition("?")[0]
    if not rest.startswith("/") or rest in ("/", "//"):
        raise ConfigError(
            f"backend URL {url!r} names no file: write sqlite:///relative/path or sqlite:////absolute/path"
        )
    return unquote(rest[1:])


def mask_url(url: str) -> str:
    """The URL without its passwords, safe to print; also for what is no URL at all."""
    scheme, mark, rest = _QUERY_SECRET.sub(r"\1***", url).partition("://")
    if not mark and "@" in scheme:  # mistyped: nobody can tell where the password begins
        return f"***@{scheme.rpartition('@')[2]}"
    login, at, place = rest.rpartition("@")
    if not at:
        return scheme + mark + rest
    user, colon, _ = login.partition(":")
    return f"{scheme}{mark}{user}{colon}{'***' if colon else ''}@{place}"
