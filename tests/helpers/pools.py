"""A supervisor as its residents see it: real register, real board, a plan; no processes."""

import json
from pathlib import Path
from typing import Any

from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Exit, Role, State
from pool.clock import monotonic_now, wall_now
from pool.identity import PoolId
from pool.seat import ChildSpec, MemoryRule
from pool.supervisor.children import Child, Children, LastExit, Slot
from pool.supervisor.control import LastReload, Reply
from pool.supervisor.planned import Plan

JOB = bytes(range(16))


class StillPool:
    """`Controlled` for tests: what a supervisor would show, set by hand."""

    def __init__(self, *specs: ChildSpec, runtime_dir: Path = Path("/run/x")) -> None:
        pool = PoolId("house", "host", "abc")
        self.plan = Plan(
            pool=pool, specs=specs, runtime_dir=runtime_dir, state_dir=runtime_dir, config_path="/etc/x.toml"
        )
        self.board, self.children = Board(), Children()
        self.last_reload: LastReload | None = None
        self.word, self.trouble = "ready", list[str]()
        self.started_wall = self.state_since = wall_now()
        self.commands: list[tuple[str, dict[str, object], Reply]] = []
        for spec in specs:
            self.children.want(spec, spec.count, "file")

    def state(self) -> str:
        return self.word

    def problems(self) -> list[str]:
        return self.trouble

    def command(self, verb: str, options: dict[str, object], reply: Reply) -> None:
        self.commands.append((verb, options, reply))

    # ------------------------------------------------------------------ what happens in it

    def born(self, slot: Slot, pid: int, *, ready: bool = True, as_heir: bool = False) -> Child:
        record = self.board.take_free()
        assert record is not None
        generation = self.children.next_generation(slot)
        now = monotonic_now()
        child = Child(slot.number, generation, slot.spec, record, pid=pid, born_at=now, started_wall=wall_now())
        record.occupy(slot.role, slot.number, generation, pid=0, group=slot.group, now=now)
        record.occupy(slot.role, slot.number, generation, pid=pid, group=slot.group, now=now)
        self.children.born(slot, child, as_heir=as_heir)
        if ready:
            self.is_doing(child, State.IDLE)
            self.children.ready(child, now)
        return child

    def all_born(self, *, idle_s: float = 0.0) -> list[Child]:
        children = [self.born(slot, 100 + slot.number) for slot in list(self.children.slots.values())]
        for child in children:
            self.is_doing(child, State.IDLE, for_s=idle_s)
        return children

    def is_doing(self, child: Child, state: State, *, for_s: float = 0.0, exit: Exit = Exit.NONE) -> None:
        since = monotonic_now() - for_s
        child.record.process.write(state, exit, since, monotonic_now(), 0.0, 7, 2, 1, 50_000_000)

    def holds(self, child: Child, type_name: str = "mail.send", *, for_s: float = 3.0) -> None:
        since = monotonic_now() - for_s
        child.record.lanes[0].state.write(Phase.STARTED, 9, JOB, since, 0.0, 1, type_name.encode(), b"mail")
        self.is_doing(child, State.BUSY, for_s=for_s)

    def keeper_says(
        self, *queues: dict[str, Any], ok: bool = True, age_s: float = 0.0, error: str | None = None
    ) -> None:
        backend = {"kind": "redis", "url": "redis://:***@h/0", "ok": ok, "error": error, "latency_ms": 0.4}
        totals = {"enqueued": 10, "completed": 6, "failed": 2, "retried": 1, "cancelled": 1, "worker_deaths": 3}
        news = {"queues": queues, "totals": totals, "backend": {**backend, "checked_at": wall_now() - age_s}}
        assert self.board.bulletin.post(json.dumps(news).encode())


def workers(count: int = 2, group: str = "workers", **keys: Any) -> ChildSpec:
    """The order for a group of workers."""
    memory = MemoryRule(limit=512_000_000)
    return ChildSpec(
        role=Role.WORKER, group=group, count=count, run=lambda seat: 0, fingerprint="f", memory=memory, **keys
    )


def keeper() -> ChildSpec:
    return ChildSpec(role=Role.KEEPER, group="keeper", count=1, run=lambda seat: 0, fingerprint="k", critical=True)


def queue(name: str = "mail", **counts: Any) -> dict[str, Any]:
    """A queue as the keeper posts it."""
    empty = {"pending": 0, "scheduled": 0, "running": 0, "failed": 0, "overdue": 0, "oldest_pending_s": None}
    return {"name": name, **empty, "paused": False, "served": True, **counts}


def death(signal: int | None = 9, code: int | None = None, **facts: Any) -> LastExit:
    return LastExit(pid=77, signal=signal, code=code, at=wall_now(), lived_s=4.5, **facts)
