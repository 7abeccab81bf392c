"""What the parent tells systemd, by the sd_notify protocol (man 3 sd_notify). Without $NOTIFY_SOCKET it says nothing.

A resident of the parent's loop. Messages go with MSG_DONTWAIT: a busy systemd never holds the loop up; what did not go
through is sent again at the next turn. WATCHDOG=1 comes only from a turn of the loop, so that a hung loop is noticed.
"""

import os
import selectors
import socket

from pool.clock import monotonic_now
from pool.logs import log
from pool.supervisor.control import Controlled
from pool.supervisor.headline import headline

LONGEST_UNSENT = 16
STATUS_EVERY_S = 1.0


class Notifier:
    """Messages to systemd, in order. `tell` never waits and never raises; nothing happens outside systemd."""

    def __init__(self, address: str) -> None:
        self._unsent: list[bytes] = []
        self._address = "\0" + address[1:] if address.startswith("@") else address
        usable = address.startswith(("/", "@"))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if usable else None

    @property
    def is_heard(self) -> bool:
        return self._socket is not None

    def tell(self, *assignments: str) -> None:
        """Send `NAME=value` lines as one message."""
        if self._socket is not None:
            self._unsent = [*self._unsent, "\n".join(assignments).encode()][-LONGEST_UNSENT:]
            self.send_unsent()

    def send_unsent(self) -> None:
        """Try again what did not go through."""
        while self._unsent and self._socket is not None:
            try:
                self._socket.sendto(self._unsent[0], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, self._address)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # systemd is not there (any more): nothing of ours depends on it
                log.limited("notify", "cannot reach systemd's notify socket", every_s=60.0, error=error)
                return
            self._unsent.pop(0)

    def close(self) -> None:
        """Say what is left and let go."""
        self.send_unsent()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Systemd:
    """READY=1 once the pool has started, RELOADING=1 and READY=1 around each reload, STOPPING=1, STATUS= and WATCHDOG=1."""

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        variables = os.environ if environ is None else environ
        self._notifier = Notifier(variables.get("NOTIFY_SOCKET", ""))
        self._watchdog_s = watchdog_seconds(variables.get("WATCHDOG_USEC", ""), variables.get("WATCHDOG_PID", ""))
        self._pool: Controlled | None = None
        self._is_ready = False
        self._said = ""
        self._next_ping = self._next_status = 0.0

    def open(self, supervisor: Controlled, selector: selectors.BaseSelector) -> None:
        self._pool = supervisor

    def state_changed(self, state: str) -> None:
        """Every RELOADING, a failed one too, ends in READY: the next state after it says so."""
        if state == "reloading":
            self._notifier.tell("RELOADING=1", f"MONOTONIC_USEC={int(monotonic_now() * 1_000_000)}")
            self._is_ready = False
        elif state == "stopping":
            self._notifier.tell("STOPPING=1", f"STATUS={self._headline()}")
        elif state != "starting" and not self._is_ready:
            self._is_ready = True
            self._notifier.tell("READY=1", f"STATUS={self._headline()}", f"MAINPID={os.getpid()}")
        self._next_status = 0.0

    def turn(self, now: float) -> None:
        """Ping when half of the watchdog's patience is over; tell the counts when they have changed."""
        if not self._notifier.is_heard:
            return
        self._notifier.send_unsent()
        if self._watchdog_s and now >= self._next_ping:
            self._next_ping = now + self._watchdog_s / 2
            self._notifier.tell("WATCHDOG=1")
        if now >= self._next_status:
            self._next_status = now + STATUS_EVERY_S
            self._say_status()

    def next_deadline(self) -> float | None:
        """Only for the watchdog: a changed count comes with a turn anyway."""
        return self._next_ping if self._watchdog_s and self._notifier.is_heard else None

    def close(self) -> None:
        self._notifier.close()

    def _say_status(self) -> None:
        text = self._headline()
        if text != self._said:
            self._said = text
            self._notifier.tell(f"STATUS={text}")

    def _headline(self) -> str:
        return headline(self._pool) if self._pool is not None else "starting"


def watchdog_seconds(usec: str, pid: str) -> float:
    """systemd's patience in seconds; 0.0 = no watchdog, or one that is meant for another process."""
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(usec) / 1_000_000
