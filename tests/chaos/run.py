"""One run of chaos from a seed: a town, accidents for some minutes, quiet, and the verdict."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pool.backends.contract import JobFilter
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from tests.chaos.accidents import drawn
from tests.chaos.town import LEASE_S, PRODUCERS, ChaosHouse, Town, founded, now
from tests.chaos.verdict import Evidence, complaints
from tests.helpers.until import until

PAUSE_S = 1.0
DRAIN_S = 120.0
FORGET_S = 15 * LEASE_S  # a lost pool is remembered for ten leases, for claims still on the wire
SPARE_FDS = {"web": 24}  # a connection to the store for each of its threads
FEW_FDS = 2
KEPT = ("jobpool.lock", "types.json", "types.made-from", "dashboard.key")
SETTLED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


@dataclass
class Report:
    """What happened and what was wrong."""

    seed: int
    backend: str
    accidents: Counter[str] = field(default_factory=Counter)
    numbers: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        happened = ", ".join(f"{name} {count}" for name, count in sorted(self.accidents.items()))
        numbers = ", ".join(f"{count} {name}" for name, count in self.numbers.items())
        verdict = "\n".join(f"WRONG {line}" for line in self.wrong) or "every promise was kept"
        return f"seed {self.seed}, {self.backend}\naccidents: {happened}\n{numbers}\n{verdict}"


@dataclass(frozen=True)
class Order:
    """What the person asked for."""

    seed: int
    seconds: float
    backend: str = "sqlite"
    pools: int = 2
    workers: int = 2
    only: str = ""
    say: Callable[[str], None] = lambda line: print(line, flush=True)


def run(order: Order, folder: Path) -> Report:
    """All of it; the folder keeps ledger, books and logs."""
    report = Report(order.seed, order.backend)
    with founded(folder, order.backend, order.pools, order.workers, random.Random(f"{order.seed} town")) as town:
        first = {house: descriptors(house) for house in town.pools}
        rage(town, order, report)
        quiet(town, report)
        look_at_residents(town, first, report)
        stop_all(town, report)
        judge(town, report)
        look_at_remains(town, report)
    return report


def rage(town: Town, order: Order, report: Report) -> None:
    """Accident after accident; the n-th of a seed is always the same, with the same chances."""
    began, number = now(), 0
    while now() - began < order.seconds:
        rng = random.Random(f"{order.seed} {number}")
        accident = drawn(town.kind, rng, order.only)
        order.say(f"{now() - began:6.1f} s  {number:4} {accident.__name__}")
        try:
            accident(town, rng)
        except Exception as error:
            report.wrong.append(f"{accident.__name__} (number {number}) met {type(error).__name__}: {error}")
            town.heal()
        report.accidents[accident.__name__] += 1
        report.wrong += town.start_who_ended() + town.fallen_producers()
        while len(town.producers) < PRODUCERS:
            town.hire_producer(rng)
        number += 1
        time.sleep(rng.uniform(0, PAUSE_S))


def quiet(town: Town, report: Report) -> None:
    """No more accidents and producers: every pool becomes ready and every job comes to its end."""
    town.heal()
    for producer in list(town.producers):
        town.dismiss_producer(producer)
    try:
        for house in town.pools:
            house.wait_ready()
            house.configure(workers=2)
            house.send_signal(signal.SIGHUP)
            house.ask("POST", "/scale", {"count": 2})  # an unchanged file leaves what `scale` has set
        for house in town.pools:
            house.wait_ready()
        until(lambda: is_drained(town), "all jobs over", within=DRAIN_S)
    except AssertionError as error:
        report.wrong.append(str(error).splitlines()[0])


def is_drained(town: Town) -> bool:
    with town.store() as store:
        live = sum(queue.pending + queue.scheduled + queue.running for queue in store.queues())
    return live == 0 and not any(live_jobs(town))


def live_jobs(town: Town) -> list[Job]:
    with town.store() as store:
        return [job for status in Status if status.is_live for job in store.jobs(JobFilter(status=status)).jobs]


def all_jobs(town: Town) -> dict[str, Job]:
    """Every job of the store with its attempts."""
    found: dict[str, Job] = {}
    with town.store() as store:
        after: str | None = None
        while True:
            page = store.jobs(JobFilter(), after=after, limit=500)
            found |= {job.id: store.job(job.id) for job in page.jobs}
            if (after := page.after) is None:
                return found


def judge(town: Town, report: Report) -> None:
    """The ledger against the store."""
    accepted, doubtful = town.books()
    cancels = town.folder / "cancels.txt"
    lines = [json.loads(line) for line in cancels.read_text().splitlines()] if cancels.exists() else []
    seen = Evidence(town.kind, accepted, doubtful, town.notes(), all_jobs(town), lines, town.absences, town.boards_lost)
    report.wrong += complaints(seen)
    states = Counter(job.status.value for job in seen.jobs.values())
    runs = sum(map(len, seen.starts.values()))
    allowed = sum(note["what"] == "overlap" for note in seen.notes)
    report.numbers = {"accepted": len(accepted), **states, "runs": runs, "overlaps": allowed}
    report.wrong += counted_right(town, states)


def counted_right(town: Town, states: Counter[str]) -> list[str]:
    """The counters that the store keeps agree with its jobs."""
    with town.store() as store:
        queues = store.queues()
    kept = {
        name: sum(getattr(queue, name) for queue in queues) for name in ("completed", "failed", "running", "pending")
    }
    return [
        f"{count} jobs are counted as {name}, there are {states[name]}"
        for name, count in kept.items()
        if count != states[name]
    ]


# ---------------------------------------------------------------- the base line


def descriptors(house: ChaosHouse) -> Counter[str]:
    """How many the supervisor and its people have, by role, whoever has the most."""
    held = Counter({"supervisor": open_files(house.pid)})
    for role in ("worker", "keeper", "web"):
        held[role] = max(map(open_files, house.members(role)), default=0)
    return held


def open_files(pid: int) -> int:
    """0 when there is no such process."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return 0


def look_at_residents(town: Town, first: dict[ChaosHouse, Counter[str]], report: Report) -> None:
    """Nobody holds more descriptors than at the start, and each pool has exactly its people."""
    for house in town.pools:
        try:
            until(lambda house=house: len(house.pids()) == people(house), "supervisor, keeper, two workers", within=30)  # type: ignore[misc]
        except AssertionError:
            report.wrong.append(
                f"processes of a pool with two workers: {house.pids()} of {house.ask('GET', '/status')}"
            )
        for role, count in descriptors(house).items():
            if count > first[house][role] + SPARE_FDS.get(role, FEW_FDS):
                report.wrong.append(f"a {role} holds {count} descriptors, {first[house][role]} at the start")


def people(house: ChaosHouse) -> int:
    """Supervisor, keeper, two workers, and the web child where there is one."""
    return 4 + house.has_web


def stop_all(town: Town, report: Report) -> None:
    """In order, and nothing is left: no process, no socket, no spool."""
    for house in town.pools:
        code = house.stop()
        if code:
            report.wrong.append(f"a quiet pool stopped with {code}")
        left = sorted(str(path.relative_to(house.folder)) for path in leftovers(house))
        if house.pids() or left:
            report.wrong.append(f"left behind: {house.pids()} {left}")
    if town.server is not None:
        report.wrong += strangers(town)


def leftovers(house: ChaosHouse) -> list[Path]:
    """What a stopped pool has no use for: sockets, kept words, halves of files."""
    found = [*(house.folder / "run").rglob("*"), *(house.folder / "state").rglob("*")]
    return [path for path in found if not path.is_dir() and path.name not in KEPT]


def strangers(town: Town) -> list[str]:
    """The server has no connection any more but the one that asks."""
    assert town.server is not None
    server = town.server
    try:
        until(lambda: server.call("CLIENT", "LIST").count(" cmd=") <= 1, "no connection left", within=20)
    except AssertionError:
        return [f"connections are left: {server.call('CLIENT', 'LIST')}"]
    return []


def look_at_remains(town: Town, report: Report) -> None:
    """Purged, the store is as empty as a new one."""
    with town.store() as store:
        for queue in store.queues():
            while store.purge(queue.name, statuses=SETTLED):
                pass
        while store.forget(completed_s=0, failed_s=0, idempotency_s=0):
            pass
        try:
            until(lambda: store.recover_expired() or not store.pools(), "killed pools forgotten", within=FORGET_S)
        except AssertionError:
            report.wrong.append(f"still known: {[str(state.pool) for state in store.pools()]}")
    report.wrong += (remains_of_redis if town.server else remains_of_sqlite)(town)


def remains_of_sqlite(town: Town) -> list[str]:
    with contextlib.closing(sqlite3.connect(town.folder / "disk" / "jobs.db")) as database:
        verdict = database.execute("PRAGMA integrity_check").fetchone()[0]
        rows = {
            table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("jobs", "pools", "lanes", "bars", "idempotency")
        }
    wrong = [f"{count} rows are left in {table}" for table, count in rows.items() if count]
    return wrong + ([] if verdict == "ok" else [f"integrity check: {verdict}"])


def remains_of_redis(town: Town) -> list[str]:
    """Only settings and statistics outlive the jobs, and for ten leases of a minute a pool that was killed before its first
    beat: nobody knows its own lease."""
    assert town.server is not None
    call = town.server.call
    left = [key for key in call("KEYS", "*") if key.rpartition(":")[2] not in ("stats", "queues", "bells", "settings")]
    known = [key for key in left if ":pool:" in key and not call("HEXISTS", key, "beat")]
    listed = [key for key in left if key.endswith(":pools") and call("ZCARD", key) == len(known)]
    return [f"keys are left: {sorted(extra)}"] if (extra := {*left} - {*known, *listed}) else []
