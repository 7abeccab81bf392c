"""The pool described for `/status`: register, board and bulletin in, one document out. Changes nothing, asks no one."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pool.board.board import Board
from pool.board.lanes import Lane, Phase
from pool.board.record import Exit, Role, State
from pool.clock import as_rfc3339
from pool.seat import ChildSpec
from pool.supervisor.children import Child, Group, LastExit, Slot, Stage
from pool.supervisor.control import Controlled
from pool.supervisor.memory import memory_document
from pool.version import VERSION

Document = dict[str, Any]
NEWS_IS_STALE_S = 15.0  # the keeper posts every second, and is replaced before this


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks, so that monotonic times of the board can be shown as dates."""

    monotonic: float
    wall: float

    def date(self, monotonic: float) -> str | None:
        return as_rfc3339(self.wall - (self.monotonic - monotonic))


def status_document(pool: Controlled, now: Moment) -> Document:
    """Section "status socket" of the design, as a document. Times are RFC 3339, durations seconds."""
    news = read_bulletin(pool.board)
    said = news.get("progress", {})
    return {
        "pool": _pool(pool, now),
        "memory": memory_document(pool.children),
        "groups": [_group(pool, group) for group in pool.children.groups.values() if group.spec.role == Role.WORKER],
        "workers": [_with_progress(worker, said) for worker in _processes(pool, Role.WORKER, now)],
        "keeper": _single(pool, Role.KEEPER, now),
        "web": _single(pool, Role.WEB, now),
        "queues": news.get("queues", []),
        "delayed": news.get("delayed"),
        "backend": backend_health(news, now.wall),
        "totals": news.get("totals", {}),
        "history": news.get("history", []),
        "waits": news.get("waits"),
    }


def read_bulletin(board: Board) -> Document:
    """What the keeper posted last; empty before its first word."""
    try:
        news = json.loads(board.bulletin.read() or b"{}")
    except ValueError:
        return {}
    return news if isinstance(news, dict) else {}


def backend_health(news: Document, wall_now: float) -> Document:
    """The backend as the keeper saw it last; news that are too old are not believed."""
    unknown = {"kind": None, "url": None, "ok": False, "error": "not asked yet", "latency_ms": None, "checked_at": None}
    health = {**unknown, **news.get("backend", {})}
    checked_at = health["checked_at"]
    if checked_at is not None:
        age_s = wall_now - checked_at
        if age_s > NEWS_IS_STALE_S:
            health |= {"ok": False, "error": health["error"] or f"no news from the keeper for {age_s:.0f} s"}
        health["checked_at"] = as_rfc3339(checked_at)
    return health


# ---------------------------------------------------------------- the pool


def _pool(pool: Controlled, now: Moment) -> Document:
    plan, reload = pool.plan, pool.last_reload
    return {
        "name": plan.pool.name,
        "host": plan.pool.host,
        "incarnation": plan.pool.incarnation,
        "pid": os.getpid(),
        "version": VERSION,
        "state": pool.state(),
        "since": as_rfc3339(pool.state_since),
        "started_at": as_rfc3339(pool.started_wall),
        "uptime_s": round(max(0.0, now.wall - pool.started_wall), 3),
        "config": plan.config_path,
        "last_reload": reload
        and {"at": as_rfc3339(reload.at), "ok": reload.ok, "error": reload.error or None, "changes": reload.changes},
        "problems": pool.problems(),
        "notices": plan.notices,
    }


def _group(pool: Controlled, group: Group) -> Document:
    slots = pool.children.of_group(group.key)
    spec = group.spec
    return {
        "name": spec.group,
        "count": group.wanted,
        "source": group.source,
        "reason": group.reason or None,
        "ready": sum(slot.is_ready for slot in slots),
        "draining": group.draining,
        "queues": spec.queues,
        "min_priority": spec.min_priority,
        "max_priority": spec.max_priority,
        "count_min": spec.count_min,
        "count_max": spec.count_max,
        "target_wait": spec.target_wait,
    }


# ---------------------------------------------------------------- processes


def _processes(pool: Controlled, role: Role, now: Moment) -> list[Document]:
    """One entry per process; a place without one has an entry too, unless it is wanted no more."""
    slots = sorted((slot for slot in pool.children.slots.values() if slot.role == role), key=lambda slot: slot.number)
    entries = []
    for slot in slots:
        living = list(slot.living())
        entries += [_process(slot, child, now) for child in living]
        if slot.child is None and slot.wanted and not slot.is_done:
            entries.append(_empty_place(slot, now))
    return entries


def _single(pool: Controlled, role: Role, now: Moment) -> Document | None:
    """The keeper or the web child: the one at work, else the one that is coming or leaving."""
    entries = _processes(pool, role, now)
    return entries[0] if entries else None


def _process(slot: Slot, child: Child, now: Moment) -> Document:
    own = child.record.process.read()
    return {
        "group": child.group,
        "slot": child.slot,
        "generation": child.generation,
        "pid": child.pid,
        "state": state_word(child),
        "since": now.date(own.since),
        "started_at": as_rfc3339(child.started_wall),
        "uptime_s": round(now.monotonic - child.born_at, 3),
        "jobs": [_job(lane, now) for lane in _at_work(child.record.held_lanes().values())],
        "completed": own.completed,
        "failed": own.failed,
        "retried": own.retried,
        "rss_bytes": child.memory_bytes or own.rss_bytes or None,
        **_ceilings(child.spec),
        "restarts": slot.restarts,
        "last_exit": exit_document(slot.last_exit),
        "next_start_s": None,
        "why": leaving_words(child),
    }


def _empty_place(slot: Slot, now: Moment) -> Document:
    nothing = dict.fromkeys(("generation", "pid", "since", "started_at", "uptime_s", "rss_bytes"))
    until = slot.parked_until if slot.parked_until is not None else slot.next_start
    return {
        "group": slot.group,
        "slot": slot.number,
        **nothing,
        "state": "parked" if slot.is_parked else "booting",
        "jobs": [],
        "completed": 0,
        "failed": 0,
        "retried": 0,
        **_ceilings(slot.spec),
        "restarts": slot.restarts,
        "last_exit": exit_document(slot.last_exit),
        "next_start_s": round(max(0.0, until - now.monotonic), 3),
        "why": slot.parked_why or None,
    }


def _ceilings(spec: ChildSpec) -> Document:
    """`rss_bytes` is measured by this metric."""
    rule = spec.memory
    return {"memory_limit": rule.limit, "memory_kill": rule.kill, "memory_metric": rule.metric}


def state_word(child: Child) -> str:
    """booting, idle, busy or retiring: the parent's orders first, then the child's own account."""
    own = child.record.process.read()
    if child.stage is Stage.RETIRING or own.exit != Exit.NONE:
        return "retiring"
    if child.stage is not Stage.READY:
        return "booting"
    return "busy" if own.state == State.BUSY or child.record.held_lanes() else "idle"


def leaving_words(child: Child) -> str | None:
    """Why this process will leave: what it announced, or what it was told."""
    announced = child.record.process.read().exit
    if announced not in (Exit.NONE, Exit.STOPPED):
        return Exit(announced).name.lower().replace("_", " ")
    return child.leaving_why or None


def _at_work(held: Iterable[Lane]) -> list[Lane]:
    """Not what was claimed ahead, which runs in a moment, nor what ended just before; unless that is all there is."""
    lanes = list(held)
    return [lane for lane in lanes if lane.phase == Phase.STARTED] or lanes


def _job(lane: Lane, now: Moment) -> Document:
    return {
        "id": lane.job_id,
        "type": lane.type,
        "queue": lane.queue,
        "seconds": round(max(0.0, now.monotonic - lane.since), 3),
        "started": lane.phase >= Phase.STARTED,
    }


def _with_progress(worker: Document, said: Document) -> Document:
    """How far its jobs say they are, as the keeper has last read it in the store: a fraction and a note, or neither."""
    for job in worker["jobs"]:
        job["progress"], job["note"] = said.get(job["id"]) or (None, None)
    return worker


def exit_document(last: LastExit | None) -> Document | None:
    """How the last process of a place ended: `signal` or `code`, and `cause` in words that claim no more than is known."""
    if last is None:
        return None
    how = {"code": last.code} if last.signal is None else {"signal": last.signal}
    return {
        **how,
        "at": as_rfc3339(last.at),
        "lived_s": round(last.lived_s, 3),
        "cause": exit_cause(last),
        "planned": last.planned,
        "pid": last.pid,
        "remark": last.remark or None,
    }


def exit_cause(last: LastExit) -> str:
    """`max jobs`, `not ready in time`, `signal 9, not sent by jobpool` …"""
    if last.announced not in (Exit.NONE, Exit.STOPPED):
        return last.announced.name.lower().replace("_", " ")
    return last.sentence
