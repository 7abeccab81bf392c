"""The parent's resident for the status socket: gives the socket its answers from the supervisor."""

import selectors

from pool import titles
from pool.board.record import Role
from pool.clock import monotonic_now, wall_now
from pool.paths import SOCKET_NAME
from pool.supervisor.control import Controlled
from pool.supervisor.http import Document, Reply
from pool.supervisor.mortality import Mortality
from pool.supervisor.readiness import unready_reasons
from pool.supervisor.report import Moment, state_word, status_document
from pool.supervisor.status_socket import StatusSocket


class StatusDesk:
    """Opens `jobpool.sock` in the runtime directory and answers there until the pool is gone."""

    def __init__(self) -> None:
        self._pool: Controlled | None = None
        self._socket: StatusSocket | None = None
        self._mortality = Mortality()
        self._wake_at: float | None = None

    # ------------------------------------------------------------------ a resident

    def open(self, supervisor: Controlled, selector: selectors.BaseSelector) -> None:
        """Listen; ConfigError when the place cannot be used."""
        plan = supervisor.plan
        titles.name_process(f"supervisor {plan.pool.name}")
        self._pool = supervisor
        self._socket = StatusSocket(plan.runtime_dir / SOCKET_NAME, plan.socket_mode, plan.status_listen, self)
        self._socket.register(selector)

    def state_changed(self, state: str) -> None:
        """The state itself is read when somebody asks; `ps` shows it at once."""
        titles.show_doing(state)

    def turn(self, now: float) -> None:
        """Hang up on slow clients, look after the socket file, count deaths."""
        if self._socket is not None and self._pool is not None:
            self._mortality.look(self._pool.children)
            self._wake_at = self._socket.tick(now)

    def next_deadline(self) -> float | None:
        return self._wake_at

    def close(self) -> None:
        """Stop answering and remove the socket file."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # ------------------------------------------------------------------ the source of answers

    def state(self) -> str:
        return self._asked().state()

    def status(self) -> Document:
        return status_document(self._asked(), Moment(monotonic_now(), wall_now()))

    def unready(self) -> list[str]:
        return unready_reasons(self.status(), idle_times(self._asked(), monotonic_now()))

    def metrics(self) -> bytes:
        from pool.metrics import metrics_text  # 40 ms that only pools with a scraper pay, and once

        self._mortality.look(self._asked().children)
        board = self._asked().board
        tallies = (counts for index in range(board.used) for counts in board.record(index).tally.read())
        return metrics_text(self.status(), self._mortality.deaths, tallies)

    def command(self, verb: str, options: Document, reply: Reply) -> None:
        self._asked().command(verb, options, reply)

    def _asked(self) -> Controlled:
        if self._pool is None:
            raise RuntimeError("the status desk was asked before it was opened")
        return self._pool


def idle_times(pool: Controlled, now: float) -> dict[str, float]:
    """Group → for how many seconds its least idle worker has been idle; a group with a busy or booting one is left out."""
    times: dict[str, float] = {}
    for group in pool.children.groups.values():
        children = [slot.child for slot in pool.children.of_group(group.key) if slot.child is not None]
        states = {state_word(child) for child in children}
        if states == {"idle"} and group.spec.role == Role.WORKER:
            times[group.spec.group] = min(now - child.record.process.read().since for child in children)
    return times
