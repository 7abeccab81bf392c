"""What may happen, one function per kind. Each takes the town and a source of chance that belongs to this accident
alone, so that a seed gives the same accidents again whatever the machine does in between.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable

from pool.errors import BackendUnavailable, IllegalMove, JobNotFound
from tests.chaos.disk import filled
from tests.chaos.town import Absence, ChaosHouse, Town, now

Accident = Callable[[Town, random.Random], None]
BROKEN = "import pool\n\nraise RuntimeError('a broken deploy')\n"


def hit(pid: int, number: int) -> None:
    """It may have ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def somebody(house: ChaosHouse, role: str, rng: random.Random) -> list[int]:
    """One of them, if the pool can name any."""
    found = house.members(role)
    return [rng.choice(found)] if found else []


def away(town: Town, house: ChaosHouse, seconds: float) -> None:
    """Sleep, and note that this pool was away from the store meanwhile."""
    since = now()
    time.sleep(seconds)
    town.absences.append(Absence(str(town.pools.index(house)), since, now()))


# ---------------------------------------------------------------- processes


def kill_worker(town: Town, rng: random.Random) -> None:
    for pid in somebody(rng.choice(town.pools), "worker", rng):
        hit(pid, rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]))


def kill_all_workers(town: Town, rng: random.Random) -> None:
    for pid in rng.choice(town.pools).members("worker"):
        hit(pid, signal.SIGKILL)


def end_worker(town: Town, rng: random.Random) -> None:
    """Somebody sends TERM to a worker by hand."""
    for pid in somebody(rng.choice(town.pools), "worker", rng):
        hit(pid, signal.SIGTERM)


def kill_keeper(town: Town, rng: random.Random) -> None:
    for pid in somebody(rng.choice(town.pools), "keeper", rng):
        hit(pid, signal.SIGKILL)


def kill_keeper_and_worker(town: Town, rng: random.Random) -> None:
    house = rng.choice(town.pools)
    for pid in somebody(house, "keeper", rng) + somebody(house, "worker", rng):
        hit(pid, signal.SIGKILL)


def kill_web(town: Town, rng: random.Random) -> None:
    for pid in somebody(rng.choice(town.pools), "web", rng):
        hit(pid, rng.choice([signal.SIGKILL, signal.SIGTERM]))


def pause_web(town: Town, rng: random.Random) -> None:
    """Requests stand in its hands meanwhile."""
    for pid in somebody(rng.choice(town.pools), "web", rng):
        hit(pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.2, 2))
        hit(pid, signal.SIGCONT)


def pause_worker(town: Town, rng: random.Random) -> None:
    for pid in somebody(rng.choice(town.pools), "worker", rng):
        hit(pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.2, 2))
        hit(pid, signal.SIGCONT)


def pause_keeper(town: Town, rng: random.Random) -> None:
    """Shorter or longer than its sign of life allows."""
    house = rng.choice(town.pools)
    for pid in somebody(house, "keeper", rng):
        hit(pid, signal.SIGSTOP)
        away(town, house, rng.uniform(0.2, 3))
        hit(pid, signal.SIGCONT)


def pause_supervisor(town: Town, rng: random.Random) -> None:
    house = rng.choice(town.pools)
    house.send_signal(signal.SIGSTOP)
    for pid in somebody_of(house.pids(), house.pid, rng):
        hit(pid, rng.choice([signal.SIGKILL, 0]))
    time.sleep(rng.uniform(0.2, 3))
    house.send_signal(signal.SIGCONT)


def somebody_of(pids: list[int], but: int, rng: random.Random) -> list[int]:
    others = sorted(pid for pid in pids if pid != but)
    return [rng.choice(others)] if others else []


def pause_pool(town: Town, rng: random.Random) -> None:
    """Everybody stands still, perhaps for longer than the lease; then all go on as if nothing had been."""
    house = rng.choice(town.pools)
    pids = house.pids()
    for pid in pids:
        hit(pid, signal.SIGSTOP)
    away(town, house, rng.choice([1.0, 3.0, 8.0]))
    for pid in pids:
        hit(pid, signal.SIGCONT)


def kill_supervisor(town: Town, rng: random.Random) -> None:
    """The others finish by themselves; a new one starts at once or later."""
    house = rng.choice(town.pools)
    house.send_signal(signal.SIGKILL)
    house.wait_exit()
    time.sleep(rng.choice([0.0, 0.5]))
    house.start(wait=False)


def kill_pool(town: Town, rng: random.Random) -> None:
    house = rng.choice(town.pools)
    pids = house.pids()
    rng.shuffle(pids)
    for pid in pids:
        hit(pid, signal.SIGKILL)
    house.wait_exit()
    town.boards_lost.add(str(town.pools.index(house)))
    time.sleep(rng.choice([0.0, 1.0]))
    house.start(wait=False)


def stop_pool(town: Town, rng: random.Random) -> None:
    """An orderly restart, sometimes impatient."""
    house = rng.choice(town.pools)
    house.send_signal(signal.SIGTERM)
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0, 0.5))
        hit(house.pid, signal.SIGQUIT)
    code = house.wait_exit()
    if code not in (0, -signal.SIGTERM, -signal.SIGQUIT):  # a signal may come before our handlers stand
        raise AssertionError(f"an ordered stop ended with {code}")
    house.start(wait=False)


# ---------------------------------------------------------------- orders


def reload(town: Town, rng: random.Random) -> None:
    house = rng.choice(town.pools)
    for _ in range(rng.choice([1, 1, 5])):
        house.send_signal(signal.SIGHUP)


def scale(town: Town, rng: random.Random) -> None:
    house = rng.choice(town.pools)
    house.configure(workers=rng.randint(1, 4))
    house.send_signal(signal.SIGHUP)


def scale_by_order(town: Town, rng: random.Random) -> None:
    rng.choice(town.pools).ask("POST", "/scale", {"count": rng.randint(1, 4)})


def roll(town: Town, rng: random.Random) -> None:
    rng.choice(town.pools).ask("POST", "/reload", {"rolling": True})


def deploy_broken(town: Town, rng: random.Random) -> None:
    """The old workers must stay; the repair is rolled out after."""
    house = rng.choice(town.pools)
    house.write_module("tasks", BROKEN)
    house.ask("POST", "/reload", {"rolling": True})
    time.sleep(rng.uniform(0.2, 1.5))
    house.write_module("tasks", house.tasks)
    house.ask("POST", "/reload", {"rolling": True})


def break_configuration(town: Town, rng: random.Random) -> None:
    house = rng.choice(town.pools)
    house.config_file.write_text("[workers]\ncount = 'many'\n")
    house.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    house.configure(workers=house.wanted)
    house.send_signal(signal.SIGHUP)


def kill_producer(town: Town, rng: random.Random) -> None:
    town.dismiss_producer(rng.choice(town.producers))
    town.hire_producer(rng)


def cancel_some(town: Town, rng: random.Random) -> None:
    """A person cancels a handful of jobs; the answers go into a book."""
    ids = sorted(town.books()[0])[-60:]
    with town.store() as store, (town.folder / "cancels.txt").open("a") as book:
        for job_id in rng.sample(ids, min(len(ids), 6)):
            book.write(json.dumps({"job": job_id, "status": "asked", "at": now()}) + "\n")
            with contextlib.suppress(IllegalMove, JobNotFound, BackendUnavailable):
                status = store.cancel(job_id).status.value
                book.write(json.dumps({"job": job_id, "status": status, "at": now()}) + "\n")


# ---------------------------------------------------------------- the store


def hold_write_lock(town: Town, rng: random.Random) -> None:
    """A foreign program has the database for itself."""
    with contextlib.closing(
        sqlite3.connect(town.folder / "disk" / "jobs.db", timeout=10, isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(rng.uniform(0.5, 3))
        other.execute("ROLLBACK")


def read_for_long(town: Town, rng: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{town.folder}/disk/jobs.db?mode=ro", uri=True)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM jobs").fetchone()
        time.sleep(rng.uniform(1, 3))


def checkpoint(town: Town, rng: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(town.folder / "disk" / "jobs.db", timeout=5)) as other:
        other.execute(f"PRAGMA wal_checkpoint({rng.choice(['PASSIVE', 'TRUNCATE', 'RESTART'])})")


def fill_disk(town: Town, rng: random.Random) -> None:
    """The store's disk has no room for a while (and none at all where nobody may mount one: then nothing happens). A Redis
    that may not write what it must keep ends itself; somebody starts it again."""
    if town.disk is None:
        return
    with filled(town.disk, spare_bytes=rng.choice([0, 0, 4096, 20_000, 100_000])):
        time.sleep(rng.choice([0.3, 1.0, 3.0]))
    if town.server is not None:
        town.raise_server()


def restart_server(town: Town, rng: random.Random) -> None:
    assert town.server is not None
    (town.server.kill if rng.random() < 0.7 else town.server.stop)()
    time.sleep(rng.choice([0.0, 0.5, 3.0]))
    town.server.start()


def freeze_server(town: Town, rng: random.Random) -> None:
    assert town.server is not None
    town.server.freeze()
    time.sleep(rng.choice([0.5, 2.0, 7.0]))
    town.server.thaw()


def kill_connections(town: Town, rng: random.Random) -> None:
    assert town.server is not None
    for _ in range(rng.choice([1, 3])):
        town.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.3)


def forget_scripts(town: Town, rng: random.Random) -> None:
    assert town.server is not None
    town.server.call("SCRIPT", "FLUSH")


def cut_link(town: Town, rng: random.Random) -> None:
    """In the middle of what is being said."""
    for _ in range(rng.randint(1, 8)):
        rng.choice(town.links).cut()
        time.sleep(rng.uniform(0, 0.2))


def cut_bytes(town: Town, rng: random.Random) -> None:
    link = rng.choice(town.links)
    link.cut_after(**{rng.choice(["requests", "replies"]): rng.randint(1, 3000)}, refuse=rng.random() < 0.5)
    away(town, town.pools[town.links.index(link)], 1.0)
    link.heal()


def lose_link(town: Town, rng: random.Random) -> None:
    """One pool cannot reach the store: refused or swallowed, perhaps for longer than its lease."""
    number = rng.randrange(len(town.links))
    (town.links[number].refuse if rng.random() < 0.5 else town.links[number].swallow)()
    away(town, town.pools[number], rng.choice([0.5, 2.0, 8.0]))
    town.links[number].heal()


def slow_link(town: Town, rng: random.Random) -> None:
    link = rng.choice(town.links)
    link.delay_s = rng.uniform(0.05, 0.6)
    time.sleep(2)
    link.delay_s = 0.0


ANYWHERE: dict[Accident, int] = {
    kill_worker: 10, kill_all_workers: 3, end_worker: 2, kill_keeper: 4, kill_keeper_and_worker: 3,
    pause_worker: 4, pause_keeper: 3, pause_supervisor: 3, pause_pool: 2, kill_supervisor: 4, kill_pool: 4, stop_pool: 4,
    reload: 2, scale: 3, scale_by_order: 2, roll: 2, deploy_broken: 2, break_configuration: 1, kill_producer: 4,
    cancel_some: 4, kill_web: 4, pause_web: 2, fill_disk: 3,
}  # fmt: skip
ON: dict[str, dict[Accident, int]] = {
    "sqlite": {hold_write_lock: 4, read_for_long: 2, checkpoint: 3},
    "redis": {
        restart_server: 5, freeze_server: 3, kill_connections: 4, forget_scripts: 2, cut_link: 4, cut_bytes: 4,
        lose_link: 4, slow_link: 2,
    },
}  # fmt: skip


def drawn(kind: str, rng: random.Random, only: str = "") -> Accident:
    """One accident, the likelier ones more often; `only` limits the choice to names that contain it."""
    weights = {**ANYWHERE, **ON[kind]}
    choice = [accident for accident in weights if only in accident.__name__]
    return rng.choices(choice, [weights[accident] for accident in choice])[0]
