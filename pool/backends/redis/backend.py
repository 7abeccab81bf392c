"""The Redis and Valkey store: one script per step, one dedicated connection per object."""

from functools import partial

from pool.backends.moving import warning_of_mark
from pool.backends.redis.inspection import RedisInspection
from pool.backends.redis.keys import Keys
from pool.backends.redis.migrations import bring_up_to_date
from pool.backends.redis.session import Session
from pool.backends.redis.urls import parse_url
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable

OLDEST_SERVER = (6, 2)


class RedisBackend(RedisInspection):
    """Backend of the contract on a Redis or Valkey server, a Sentinel house or a Cluster.

    Belongs to one process and one thread; a fork is noticed by pid, the parent's socket is left alone.
    """

    kind = "redis"

    def __init__(self, url: str, namespace: str = "default") -> None:
        super().__init__()
        address = parse_url(url)
        self.url = address.masked
        self._keys = Keys(namespace)
        self._session = Session(address)
        self._session.welcome = partial(bring_up_to_date, self._keys, address.masked)

    def ping(self) -> float:
        begin = monotonic_now()
        self._session.command("PING")
        return monotonic_now() - begin

    def close(self) -> None:
        if self._ear is not None:
            self._ear.close()
        self._session.close()

    def startup_warnings(self) -> list[str]:
        """What about this server may lose jobs, in sentences; asked once at start."""
        info = self._info()
        said = [*_version_warnings(info), *_persistence_warnings(info), *self._eviction_warnings(info)]
        mark = self._session.command("HGET", self._keys.root.encode() + b"moving", "mark")
        return [*said, *([warning_of_mark(mark.decode())] if mark else [])]

    def _eviction_warnings(self, info: dict[str, str]) -> list[str]:
        policy = info.get("maxmemory_policy") or self._setting("maxmemory-policy")
        if policy in ("", "noeviction"):
            return []
        return [f"maxmemory-policy is {policy}: the server may drop jobs when memory is short; set it to noeviction"]

    def _setting(self, name: str) -> str:
        """A server setting; empty where our user may not ask for it."""
        try:
            answer = self._session.command("CONFIG", "GET", name)
        except BackendUnavailable:
            return ""
        return answer[1].decode() if len(answer) == 2 else ""


def _version_warnings(info: dict[str, str]) -> list[str]:
    text = info.get("redis_version", "0.0")
    major, minor = (int(part) for part in text.split(".")[:2])
    if (major, minor) >= OLDEST_SERVER:
        return []
    return [f"the server is version {text}: jobpool is tested from 6.2 on; upgrade it"]


def _persistence_warnings(info: dict[str, str]) -> list[str]:
    if info.get("aof_enabled") == "1":
        return []
    if info.get("rdb_last_save_time") and info.get("rdb_saves", "0") not in ("0", ""):
        return ["appendonly is off: a crash loses all jobs since the last snapshot; set appendonly yes"]
    return [
        "persistence is off or snapshots only (appendonly no): a restart of the server may lose accepted jobs, and "
        "an at-most-once claim is not on disk when it starts; set appendonly yes"
    ]
