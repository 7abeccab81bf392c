"""Damage to stored records, done behind the back of the backend: a disk, a person or another program wrote there."""

import sqlite3
import uuid
from contextlib import closing

import redis

from tests.helpers.stores import Place


def spoil(place: Place, job_id: str) -> None:
    """Make the job's stored record unreadable."""
    raw = uuid.UUID(job_id).bytes
    if place.kind == "sqlite":
        path = place.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            changed = connection.execute("UPDATE jobs SET payload = x'ff00636f' WHERE id = ?", (raw,)).rowcount
        assert changed == 1, "no such record"
        return
    with redis.Redis.from_url(place.url) as client:
        key = f"{{jobpool:{place.namespace}}}:jobs"
        assert client.hexists(key, raw), "no such record"
        client.hset(key, raw, b"\xff\x00cut off")
