"""The control: the same work by the barest loop there is, N processes, one step per job that ends the last and takes the next.

L1 is redis-py with hiredis and one EVALSHA a job; `raw` the same through a bare socket; L3 one transaction a job on SQLite.
"""

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import hiredis
import redis

from tests.helpers.stores import in_child, together

PAYLOAD = json.dumps({"fn": "jobs.noop", "args": [12345], "kw": {}, "meta": "x" * 60})
KEYS = ("bare:pending", "bare:running", "bare:jobs")
FUSED = """
if ARGV[1] ~= '' then redis.call('HDEL', KEYS[2], ARGV[1]); redis.call('HDEL', KEYS[3], ARGV[1]) end
local r = redis.call('ZPOPMIN', KEYS[1])
if #r == 0 then return false end
redis.call('HSET', KEYS[2], r[1], ARGV[2])
return {r[1], redis.call('HGET', KEYS[3], r[1])}
"""
Loop = Callable[[], int]


def noop(number: int) -> None:
    """The job."""


class Speed(NamedTuple):
    """Jobs per second, and what a job costs its process in CPU: that depends less on what else the machine does.

    `fairness`: what the process with the fewest jobs did, in parts of the mean. `server_us`: CPU of the server per job."""

    per_s: float
    cpu_us: float
    fairness: float = 1.0
    server_us: float = 0.0

    def __str__(self) -> str:
        return f"{self.per_s:,.0f}/s {self.cpu_us:.0f} us"


def speed(processes: int, jobs: int, loop: Loop) -> Speed:
    """From the first process that began to the last that ended. In a session of its own, as a pool is: Linux shares
    its processors out among sessions first, and one that shares the server's would be served better."""

    def in_own_session() -> Speed:
        os.setsid()
        return _speed(processes, jobs, loop)

    found = in_child(in_own_session).result()
    assert isinstance(found, Speed)
    return found


def _speed(processes: int, jobs: int, loop: Loop) -> Speed:
    def work(_: int) -> tuple[float, float, int, float]:
        began, cpu = time.monotonic(), time.process_time()
        done = loop()
        return began, time.process_time() - cpu, done, time.monotonic()

    told = together(processes, work)
    done = sum(count for _, _, count, _ in told)
    assert done == jobs, f"the bare loop did {done} of {jobs} jobs"
    seconds = max(end for *_, end in told) - min(begin for begin, *_ in told)
    return Speed(jobs / seconds, sum(cpu for _, cpu, *_ in told) / jobs * 1e6)


# ---------------------------------------------------------------- Redis


def fill_redis(port: int, jobs: int) -> None:
    with closing(redis.Redis(port=port)) as client:
        client.delete(*KEYS)
        for start in range(0, jobs, 1000):
            batch = client.pipeline(transaction=False)
            for number in range(start, min(start + 1000, jobs)):
                batch.zadd(KEYS[0], {f"job-{number}": number})
                batch.hset(KEYS[2], f"job-{number}", PAYLOAD)
            batch.execute()


def redis_py(port: int) -> Loop:
    """`redis.Redis.evalsha`."""

    def loop() -> int:
        client = redis.Redis(port=port)
        digest = client.script_load(FUSED)
        last, me, done = b"", f"w{os.getpid()}", 0
        while (found := client.evalsha(digest, 3, *KEYS, last, me)) is not None:
            last, done = found[0], done + 1
            noop(json.loads(found[1])["args"][0])
        return done

    return loop


def raw_socket(port: int) -> Loop:
    """A bare socket and hiredis' packer and reader: as lean as Python gets."""

    def loop() -> int:
        with closing(redis.Redis(port=port)) as client:
            digest = client.script_load(FUSED).encode()
        plug = socket.create_connection(("127.0.0.1", port))
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, last, me, done = hiredis.Reader(), b"", b"w%d" % os.getpid(), 0
        while True:
            plug.sendall(hiredis.pack_command((b"EVALSHA", digest, b"3", *KEYS, last, me)))
            while (found := reader.gets()) is False:
                reader.feed(plug.recv(65536))
            if found is None:
                return done
            last, done = found[0], done + 1
            noop(json.loads(found[1])["args"][0])

    return loop


# ---------------------------------------------------------------- SQLite

CLAIM = (
    "UPDATE jobs SET state = 1, owner = ?, at = ? WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY prio, id LIMIT 1) "
    "RETURNING id, payload"
)


def fill_sqlite(path: Path, jobs: int) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with closing(_open(path)) as db:
        db.execute(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INT NOT NULL, prio INT NOT NULL, payload TEXT, owner TEXT, at REAL)"
        )
        db.execute("CREATE INDEX pending ON jobs (prio, id) WHERE state = 0")
        db.execute("BEGIN")
        db.executemany("INSERT INTO jobs (state, prio, payload) VALUES (0, 0, ?)", [(PAYLOAD,)] * jobs)
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def sqlite_fused(path: Path) -> Loop:
    """Delete the last and take the next in one transaction, NORMAL, SQLite's own waiting."""

    def loop() -> int:
        me, last, done = str(os.getpid()), -1, 0
        with closing(_open(path)) as db:
            while True:
                db.execute("BEGIN IMMEDIATE")
                db.execute("DELETE FROM jobs WHERE id = ?", (last,))
                found = db.execute(CLAIM, (me, time.time())).fetchall()
                db.execute("COMMIT")
                if not found:
                    return done
                last, done = found[0][0], done + 1
                noop(json.loads(found[0][1])["args"][0])

    return loop


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


# ---------------------------------------------------------------- enqueue

PUT = "redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]); redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])"
INSERT = "INSERT INTO jobs (state, prio, payload) VALUES (0, 0, ?)"


class Producer(NamedTuple):
    """Puts down so many payloads one by one, or all in one step."""

    one_by_one: Callable[[list[str]], None]
    at_once: Callable[[list[str]], None]


@contextmanager
def redis_producer(port: int) -> Iterator[Producer]:
    """One EVALSHA a job on a bare socket; a pipeline of redis-py."""
    with closing(redis.Redis(port=port)) as client, closing(socket.create_connection(("127.0.0.1", port))) as plug:
        client.delete(*KEYS)
        digest, reader = client.script_load(PUT).encode(), hiredis.Reader()
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def one_by_one(payloads: list[str]) -> None:
            for number, payload in enumerate(payloads):
                words = (b"EVALSHA", digest, b"3", *KEYS, number, f"job-{number}", payload)
                plug.sendall(hiredis.pack_command(words))
                while reader.gets() is False:
                    reader.feed(plug.recv(65536))

        def at_once(payloads: list[str]) -> None:
            batch = client.pipeline(transaction=False)
            for number, payload in enumerate(payloads):
                batch.zadd(KEYS[0], {f"job-{number}": number})
                batch.hset(KEYS[2], f"job-{number}", payload)
            batch.execute()

        yield Producer(one_by_one, at_once)


@contextmanager
def sqlite_producer(path: Path) -> Iterator[Producer]:
    """One durable transaction a job, or one for all."""
    fill_sqlite(path, 0)
    with closing(_open(path)) as db:
        db.execute("PRAGMA synchronous = FULL")

        def one_by_one(payloads: list[str]) -> None:
            for payload in payloads:
                db.execute(INSERT, (payload,))

        def at_once(payloads: list[str]) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(INSERT, [(payload,) for payload in payloads])
            db.execute("COMMIT")

        yield Producer(one_by_one, at_once)
