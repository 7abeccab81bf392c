"""Stored records: one field anywhere is spoilt behind the store's back. The queue goes on, and nobody meets an error that
is not ours; a job that cannot be read is set aside as failed and shown.
"""

import contextlib
import random
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from pool.backends.contract import Backend, JobFilter
from pool.errors import JobNotFound, JobpoolError
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.lifecycle import Reason, Status
from tests.fuzz.nasty import NUMBERS, TEXTS, spoilt
from tests.fuzz.runner import Attempt
from tests.helpers.builders import ANYTHING, Hand, beat, departure, new_job, put, some_pool
from tests.helpers.full_store import fill
from tests.helpers.servers import DEFAULT_FLAVOUR, running
from tests.helpers.stores import Place

MOST_STEPS = 300
PROBES = 3


@dataclass
class Patient:
    """A full store, of which one record has been spoilt: what it was, and which job it was of (if it was a job's)."""

    store: Backend
    house: PoolId
    jobs: dict[str, str]
    wound: str = ""
    victim: str | None = None
    must_be_set_aside: bool = False
    failures: list[str] = field(default_factory=list)


@contextlib.contextmanager
def sqlite_ground(folder: Path) -> Iterator[Attempt]:
    house, origin = some_pool("full"), folder / "origin.db"
    jobs = _filled(Place("sqlite", f"sqlite:///{origin}"), house)

    def attempt(rng: random.Random) -> None:
        shutil.rmtree(folder / "ward", ignore_errors=True)
        path = folder / "ward" / f"{secrets.token_hex(6)}.db"
        path.parent.mkdir()
        shutil.copy(origin, path)
        patient = Patient(Place("sqlite", f"sqlite:///{path}").open(), house, jobs)
        if _spoil_row(path, patient, rng):
            _examine(patient, rng)
        patient.store.close()

    yield attempt


@contextlib.contextmanager
def redis_ground(folder: Path) -> Iterator[Attempt]:
    with running(DEFAULT_FLAVOUR) as server, server.client() as client:
        place, house = Place("redis", server.url), some_pool("full")
        jobs = _filled(place, house)
        dumps = {key: client.dump(key) for key in client.keys("*")}

        def attempt(rng: random.Random) -> None:
            client.flushdb()
            for key, dump in dumps.items():
                client.restore(key, 0, dump)
            patient = Patient(place.open(), house, jobs)
            _spoil_key(client, sorted(dumps), patient, rng)
            _examine(patient, rng)
            place.close()

        yield attempt


def _filled(place: Place, house: PoolId) -> dict[str, str]:
    jobs = fill(place.open(), house)
    place.close()
    return jobs


# ---------------------------------------------------------------- wounds


def _spoil_row(path: Path, patient: Patient, rng: random.Random) -> bool:
    """Another value in one column of one row; False when SQLite itself refuses it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT NULL")]
        table = "jobs" if rng.random() < 0.6 else rng.choice(sorted(tables))
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        rows = db.execute(f"SELECT * FROM {table}").fetchall()
        if not rows or table.startswith("sqlite_"):
            return False
        row, column = rng.choice(rows), rng.choice(columns)
        old, new = row[columns.index(column)], _other_value(row[columns.index(column)], rng)
        where = " AND ".join(f"{name} IS ?" for name in columns)
        try:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (new, *row))
        except (sqlite3.IntegrityError, OverflowError):
            return False
        patient.wound = f"{table}.{column}: {old!r:.200} became {new!r:.200}"
        if table == "jobs":
            patient.victim = next(
                (name for name, id_ in patient.jobs.items() if bytes.fromhex(id_.replace("-", "")) == row[1]), None
            )
            patient.must_be_set_aside = column == "payload" and isinstance(new, bytes) and row[2] in (0, 1)
        return True


def _other_value(old: Any, rng: random.Random) -> Any:
    match rng.randrange(6):
        case 0:
            return None
        case 1:
            return rng.choice([n for n in NUMBERS if -(2**63) <= n < 2**63])
        case 2:
            return rng.choice([text.encode("utf-8", "replace").decode() for text in TEXTS])
        case 3:
            return rng.randbytes(rng.choice((0, 3, 16, 17)))
        case 4 if isinstance(old, str):
            return spoilt(rng, old.encode()).decode(errors="replace")
        case _:
            return spoilt(rng, old) if isinstance(old, bytes) else b"\xff\x00"


def _spoil_key(client: "redis.Redis", keys: list[bytes], patient: Patient, rng: random.Random) -> None:
    weights = [8 if key.endswith((b":jobs", b":state", b":past")) else 1 for key in keys]
    key = rng.choices(keys, weights)[0]
    kind = client.type(key)
    if kind == b"hash":
        name, old = rng.choice(sorted(client.hgetall(key).items()))
        new = _other_bytes(old, rng)
        client.hset(key, name, new) if new is not None else client.hdel(key, name)
        patient.wound = f"{key!r} {name!r}: {old!r:.300} became {new!r:.300}"
        patient.victim = next(
            (n for n, id_ in patient.jobs.items() if bytes.fromhex(id_.replace("-", "")) == name), None
        )
    elif kind == b"zset":
        member, score = rng.choice(client.zrange(key, 0, -1, withscores=True))
        new_score = rng.choice((0, -1, 1e18, score + 1e6, float("inf"), float("-inf")))
        client.zadd(key, {member: new_score}) if rng.random() < 0.6 else client.zrem(key, member)
        if rng.random() < 0.3:
            client.zadd(key, {rng.randbytes(16): score})
        patient.wound = f"{key!r} {member!r}: score {score}, {new_score}, removed or a stranger beside it"
    else:
        add = {b"list": client.rpush, b"set": client.sadd}.get(kind, client.set)
        add(key, rng.randbytes(rng.choice((0, 16))))
        patient.wound = f"{key!r} ({kind!r}) got a stranger"


def _other_bytes(old: bytes, rng: random.Random) -> bytes | None:
    match rng.randrange(5):
        case 0:
            return None
        case 1:
            return b""
        case 2:
            return rng.randbytes(rng.choice((1, 16, 80)))
        case 3:
            return old[: rng.randrange(len(old) + 1)]
        case _:
            return spoilt(rng, old)


# ---------------------------------------------------------------- examination


def _examine(patient: Patient, rng: random.Random) -> None:
    try:
        _look(patient)
        _keep_house(patient)
        probes = [put(patient.store, queue="probes", priority=0) for _ in range(PROBES)]
        served = _work_off(patient)
        assert set(probes) <= served, "the queue has stopped"
        _look(patient)
        if patient.must_be_set_aside and patient.victim:
            job = patient.store.job(patient.jobs[patient.victim])
            assert job.status is not Status.PENDING or job.reason is Reason.INVALID_RECORD
        _order(patient, rng)
        _clear(patient)
    except BaseException as error:
        error.add_note(f"wound: {patient.wound} (job: {patient.victim})")
        raise


def _ours(call: Callable[[], Any]) -> Any:
    """Its answer; an error of ours is an answer too."""
    try:
        return call()
    except JobpoolError as error:
        assert str(error)
        return None


def _look(patient: Patient) -> None:
    store = patient.store
    for ask in (
        store.queues,
        store.statistics,
        store.pools,
        store.limits,
        store.audit,
        store.last_failed,
        store.ageing,
    ):
        _ours(ask)
    for job_id in patient.jobs.values():
        _ours(lambda job_id=job_id: store.job(job_id))
        _ours(lambda job_id=job_id: store.ahead(job_id))
    for which in (
        JobFilter(),
        JobFilter(status=Status.FAILED),
        JobFilter(text="a"),
        JobFilter(queue="mail"),
        JobFilter(owner="shop"),
    ):
        _page_through(store, which)
    _ours(lambda: store.last_tick("nightly"))
    _ours(lambda: store.setting("alarm"))


def _page_through(store: Backend, which: JobFilter) -> None:
    after, pages = None, 0
    while pages < 50:
        page = _ours(lambda after=after: store.jobs(which, after=after, limit=5))
        if page is None or page.after is None:
            return
        after, pages = page.after, pages + 1
    raise AssertionError("paging does not end")


def _keep_house(patient: Patient) -> None:
    store = patient.store
    _ours(lambda: store.beat(beat(patient.house)))
    for slot in range(12):
        _ours(lambda slot=slot: store.recover(departure(WorkerId(patient.house, slot, 1))))
    _ours(store.recover_expired)
    _ours(store.promote)
    _ours(lambda: store.set_queue("mail", paused=False))
    _ours(lambda: store.enqueue([new_job(unique_key="weekly"), new_job(idempotency_key="once", owner="shop")]))
    _ours(lambda: store.tick("nightly", "v2", 2_000.0, new_job()))


def _work_off(patient: Patient) -> set[str]:
    """A healthy worker takes and completes all there is; its calls never fail."""
    hand, served = Hand(patient.store, LaneId(WorkerId(some_pool("fresh"), 0, 1))), set()
    idle = 0
    for _ in range(MOST_STEPS):
        claim = hand.claim() if hand.held is None else hand.settle(want=ANYTHING).claim
        if claim is not None:
            served.add(claim.job_id)
        idle = 0 if claim else idle + 1
        if idle > 3:
            return served
    raise AssertionError(f"after {MOST_STEPS} steps there is still work")


def _order(patient: Patient, rng: random.Random) -> None:
    names = [patient.victim] if patient.victim else rng.sample(sorted(patient.jobs), 3)
    for name in names:
        job_id = patient.jobs[name]
        for order in rng.sample((patient.store.cancel, patient.store.revive, patient.store.discard), 3):
            _ours(lambda order=order, job_id=job_id: order(job_id))
    _work_off(patient)


def _clear(patient: Patient) -> None:
    """What is over can be forgotten, and all can be removed."""
    store = patient.store
    for _ in range(20):
        if not _ours(lambda: store.forget(completed_s=0, failed_s=0, idempotency_s=0, limit=10)):
            break
    for queue in ("default", "mail", "next", "after", "members", "probes"):
        for _ in range(20):
            if not _ours(lambda queue=queue: store.purge(queue, statuses=frozenset(Status), limit=5)):
                break
    _ours(lambda: store.delete(list(patient.jobs.values())))
    if patient.victim:
        with contextlib.suppress(JobNotFound):
            store.job(patient.jobs[patient.victim])
