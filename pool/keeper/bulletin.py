"""What the parent may know of the store: a snapshot that the keeper posts on the board, so that the parent never asks."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from pool.backends.contract import Backend, QueueState
from pool.board.board import Board
from pool.clock import monotonic_now, wall_now
from pool.errors import BackendUnavailable
from pool.jobs.internal import OWN_QUEUES
from pool.keeper.history import History
from pool.keeper.progress import Progress
from pool.logs import log
from pool.settings import Config

WARN_AGAIN_AFTER_S = 60.0


class BulletinWriter:
    """Reads the store about once a second and posts queues, totals and health; posts health alone when it is away.

    `attend` is called between its calls to the store, each of which may take long."""

    def __init__(
        self, board: Board, backend: Backend, config: Config, attend: Callable[[], None] = lambda: None
    ) -> None:
        self._board, self._backend, self._attend = board, backend, attend
        self._configured = {queue.name for queue in config.queues}
        self._served = served_queues(config)
        self._reserved = {entry.queue for entry in config.types} | set(OWN_QUEUES)
        self._last: dict[str, Any] = {"queues": [], "totals": {}}
        self._history = History(board, backend.url)
        self._progress = Progress(board, backend)
        self._warnings: list[str] = []
        self._ask_for_warnings_at = 0.0

    def post(self, trouble: str | None = None) -> bool:
        """One snapshot; whether anything waits or runs. Raises BackendUnavailable after it has posted that.

        `trouble`: what keeps other chores from their work (a replica answers reads, and takes no settlement)."""
        try:
            latency_s = self._backend.ping()
            self._attend()
            self._last = self._read()
            self._attend()
            self._look_for_warnings()
        except BackendUnavailable as error:
            self._publish(ok=False, error=str(error), latency_s=None)
            raise
        self._publish(ok=trouble is None, error=trouble, latency_s=latency_s)
        return any(queue["pending"] or queue["running"] for queue in self._last["queues"])

    def post_absence(self, error: str) -> None:
        """The store is away, as some chore has just found out: its own turn may come much later, each call hanging."""
        self._publish(ok=False, error=error, latency_s=None)

    def _read(self) -> dict[str, Any]:
        states = {state.name: state for state in self._backend.queues()}
        for name in self._configured - states.keys():
            states[name] = QueueState(name=name)
        self._attend()
        totals = self._backend.statistics()
        self._attend()
        queues = [{**dataclasses.asdict(states[name]), "served": self._serves(name)} for name in sorted(states)]
        self._history.note(wall_now(), totals, states.values())
        counts = ("enqueued", "completed", "failed", "retried", "cancelled", "worker_deaths")
        return {
            "queues": queues,
            "totals": {name: getattr(totals, name) for name in counts},
            "delayed": {"total": totals.delayed, "overdue": totals.overdue, "next_due": totals.next_due},
            "store": totals.backend,
            "progress": self._progress.look() if any(state.running for state in states.values()) else {},
        }

    def _look_for_warnings(self) -> None:
        """What about the store may lose jobs: said in the log at the start, or when it changes; shown all the time."""
        if monotonic_now() < self._ask_for_warnings_at:
            return
        found: list[str] = getattr(self._backend, "startup_warnings", list)()
        for sentence in found:
            if sentence not in self._warnings:
                log.warning(sentence, store=self._backend.url)
        self._warnings = found
        self._ask_for_warnings_at = monotonic_now() + WARN_AGAIN_AFTER_S

    def _serves(self, queue: str) -> bool:
        return queue in self._served or ("*" in self._served and queue not in self._reserved)

    def _publish(self, *, ok: bool, error: str | None, latency_s: float | None) -> None:
        latency_ms = None if latency_s is None else round(latency_s * 1000, 3)
        health = {
            "kind": self._backend.kind,
            "url": self._backend.url,
            "ok": ok,
            "error": error,
            "latency_ms": latency_ms,
            "warnings": self._warnings,
        }
        document = {
            **self._last,
            **self._history.document(),
            "backend": {**health, "checked_at": wall_now()},
            "checked_at": wall_now(),
        }
        if not self._board.bulletin.post(json.dumps(document).encode()):
            document["queues"] = document["queues"][:500]  # thousands of queues: the page shows the first ones
            self._board.bulletin.post(json.dumps(document).encode())


def served_queues(config: Config) -> set[str]:
    """The queues that this pool's groups name, "*" included as itself."""
    return {queue for group in (config.workers, *config.groups) for queue in group.queues}
