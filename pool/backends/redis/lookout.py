"""Waiting for an answer: awake for a moment, for to be woken takes as long as most answers do; then asleep."""

import socket
from os import sched_yield
from time import monotonic_ns

WATCH_NS = 150_000
BRISK_NS = 1_000_000
FEWEST_ASLEEP, MOST_ASLEEP = 4, 16  # calls
_AT_ONCE = int(socket.MSG_DONTWAIT)


class Lookout:
    """Stands in for `recv_into` of a blocking socket (not of TLS, which cannot look without waiting).

    It watches only where calls have followed each other at once for a while: who calls now and then does not wait for the
    store, and would only burn more. While it watches it gives way to whoever wants the processor, above all to a server on
    this machine. Where the moment was too short, for the server is far or busy, the next calls sleep: more of them each
    time in a row.
    """

    __slots__ = ("_answered_at", "_asleep", "_left_asleep", "_receive")

    def __init__(self, sock: socket.socket) -> None:
        self._receive = sock.recv_into
        self._answered_at = 0
        self._asleep, self._left_asleep = FEWEST_ASLEEP, 0

    def receive(self, into: bytearray) -> int:
        """How many bytes came; what the socket raises is raised."""
        now = monotonic_ns()
        if now - self._answered_at > BRISK_NS:
            self._left_asleep = FEWEST_ASLEEP  # the few calls of one wake, as a keeper makes them at rest, are no rush
        elif self._left_asleep:
            self._left_asleep -= 1
        else:
            until = now + WATCH_NS
            while now < until:
                sched_yield()  # before the first look too: no answer is there at once, and to look in vain takes thrice as long
                now = monotonic_ns()
                try:
                    size = self._receive(into, 0, _AT_ONCE)
                except BlockingIOError:
                    continue
                self._answered_at, self._asleep = now, FEWEST_ASLEEP
                return size
            self._left_asleep, self._asleep = self._asleep, min(2 * self._asleep, MOST_ASLEEP)
        size = self._receive(into)
        self._answered_at = monotonic_ns()
        return size
