"""Two clients of one store, and calls of theirs that come to harm: killed in mid-step, cut off, unanswered, overtaken.

`Shaky` stands where a store is expected. Now and then a call goes wrong on purpose; what the caller would do then (ask
again under the same number, look at what became of it) is done here, so that whoever asked sees the usual answer.
"""

import os
import pickle
import random
import signal
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pool.backends.contract import Answer, Backend
from pool.backends.redis.backend import RedisBackend
from pool.backends.redis.connection import Connection
from pool.backends.redis.trouble import ServerError
from pool.backends.sqlite.backend import SqliteBackend
from pool.errors import BackendUnavailable, IllegalMove, JobpoolError
from pool.jobs.job import Receipt
from pool.jobs.lifecycle import MOVES, Status
from tests.helpers.builders import without_clock
from tests.helpers.stores import Place

REPEATED = ("exchange", "exchange_many", "enqueue")  # asked again under the same number or ids
ORDERS = ("cancel", "revive", "discard")
HARMLESS = ("set_queue", "beat")  # a second time changes nothing
LATE_SHARE = 0.4  # of the steps deliver a late copy, while there is one
COMMITTED = b"c"


@dataclass
class Told:
    """What is known of a call that came to harm: whether it was done, and with luck what it would have answered."""

    is_done: bool
    answer: Any = None
    error: JobpoolError | None = None


@dataclass
class Shaky:
    """A store as two clients see it, of which one may die at any moment. `rate` of the calls come to harm."""

    place: Place
    rng: random.Random
    rate: float
    made: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.clients = [self.place.open(), self.place.open()]
        self.harm = SqliteHarm(self) if self.place.kind == "sqlite" else RedisHarm(self)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name)

    @property
    def calm(self) -> Backend:
        """One of the clients; its call will be left in peace."""
        return self.rng.choice(self.clients)

    def fails_in(self, name: str, *args: Any, **words: Any) -> Told:
        """The call comes to harm, and nobody asks again: its caller is dead."""
        return self.harm.call(name, args, words)

    def _call(self, name: str, *args: Any, **words: Any) -> Any:
        self.harm.deliver_late_copies()
        return self.without_late_copies(name, *args, **words)

    def without_late_copies(self, name: str, *args: Any, **words: Any) -> Any:
        """A call as any other, before which nothing arrives that is still on the wire."""
        fragile = name in (*REPEATED, *ORDERS, *HARMLESS, "recover")
        if not fragile or self.rng.random() > self.rate:
            return getattr(self.calm, name)(*args, **words)
        if name in ORDERS:
            return self._ordered(name, args, words)
        told = self.harm.call(name, args, words)
        if name in REPEATED:
            return self._asked_again(told, name, args, words)
        if told.error is not None:
            raise told.error
        if told.answer is not None:
            return told.answer
        if not told.is_done or name in HARMLESS:
            return getattr(self.calm, name)(*args, **words)
        return None

    def _ordered(self, name: str, args: tuple, words: dict) -> Any:
        """A person's order is not repeated: who gave it looks at what became of it. One that was obeyed is never told
        to be illegal, though its first answer was lost."""
        was = self.calm.job(args[0]).status
        told = self.harm.call(name, args, words)
        is_legal = was in MOVES[name][0] or (name, was) == ("cancel", Status.RUNNING)
        if told.is_done and is_legal:
            assert not isinstance(told.error, IllegalMove), f"{name} was obeyed and called illegal"
        if told.is_done and not is_legal:
            raise told.error or IllegalMove(name, was, args[0])
        if told.error is not None:
            raise told.error
        now = self.calm.job(args[0])
        return now if now.status is not was else getattr(self.calm, name)(*args, **words)  # refused, or never heard

    def _asked_again(self, told: Told, name: str, args: tuple, words: dict) -> Any:
        again = answer_of(lambda: getattr(self.calm, name)(*args, **words))
        if told.is_done and (told.error or told.answer is not None):
            assert alike(again) == alike(told), "the second answer is not the first"
        if again.error is not None:
            raise again.error
        return (
            [_first_time(*pair) for pair in zip(args[0], again.answer, strict=True)]
            if name == "enqueue"
            else again.answer
        )


def _first_time(job: Any, receipt: Receipt) -> Receipt:
    """A receipt for a repetition, as it was the first time."""
    return replace(receipt, replayed=receipt.job_id != job.id)


def answer_of(call: Callable[[], Any]) -> Told:
    try:
        return Told(True, call())
    except BackendUnavailable:
        raise
    except JobpoolError as error:
        return Told(True, error=error)


def alike(told: Told) -> Any:
    """What must be the same of an answer and of its repetition."""
    if told.error is not None:
        return type(told.error)
    if isinstance(told.answer, Answer):
        return told.answer.settled, without_clock(told.answer.claim)
    if told.answer and isinstance(told.answer[0], Answer):
        return [(answer.settled, without_clock(answer.claim)) for answer in told.answer]
    return [(receipt.job_id, receipt.status) for receipt in told.answer]


# ---------------------------------------------------------------- SQLite: a process is killed


@dataclass
class SqliteHarm:
    """The call is made by a forked process that is killed before its n-th statement or sync, or when it has ended."""

    shaky: Shaky

    def call(self, name: str, args: tuple, words: dict) -> Told:
        before = self.shaky.rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 1000))
        pipe_out, pipe_in = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._be_killed(before, pipe_in, name, args, words)
        os.close(pipe_in)
        with os.fdopen(pipe_out, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"ended with {status:#x}"
        told = _read_told(said)
        self.shaky.made["killed after the step" if told.is_done else "killed in the step"] += 1
        return told

    def deliver_late_copies(self) -> None:
        """There is no wire."""

    def clear_the_wire(self) -> None:
        """There is no wire."""

    def _be_killed(self, before: int, pipe_in: int, name: str, args: tuple, words: dict) -> None:
        signal.alarm(60)
        try:
            store = self.shaky.place.open()
            assert isinstance(store, SqliteBackend)
            store.queues()
            Executioner(store, before, pipe_in)
            told = answer_of(lambda: getattr(store, name)(*args, **words))
            os.write(pipe_in, COMMITTED + pickle.dumps((told.answer, told.error and _portable(told.error))))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)


class Executioner:
    """Kills its own process at a chosen moment of a transaction, and tells first if that has been committed."""

    def __init__(self, store: SqliteBackend, before: int, pipe_in: int) -> None:
        self._left, self._pipe_in = before, pipe_in
        self._is_writing = self._has_committed = False
        connection = store._store._db
        assert connection is not None
        connection.set_trace_callback(self._statement)
        os.fdatasync = self._sync  # type: ignore[assignment]

    def _statement(self, text: str) -> None:
        self._step()
        self._is_writing = self._is_writing or text == "BEGIN IMMEDIATE"
        if text == "COMMIT" and self._is_writing:
            self._has_committed = True

    def _sync(self, fd: int) -> None:
        self._step()

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            if self._has_committed:
                os.write(self._pipe_in, COMMITTED)
            os.kill(os.getpid(), signal.SIGKILL)


def _portable(error: JobpoolError) -> tuple[type, dict]:
    return type(error), vars(error)


def _read_told(said: bytes) -> Told:
    if len(said) <= 1:
        return Told(said == COMMITTED)
    answer, error = pickle.loads(said[1:])
    if error is None:
        return Told(True, answer)
    kind, fields = error
    made = kind.__new__(kind)
    vars(made).update(fields)
    return Told(True, error=made)


# ---------------------------------------------------------------- Redis: the link is cut


@dataclass
class RedisHarm:
    """The link is cut in the midst of the request, or the reply is lost, or the request is delivered much later."""

    shaky: Shaky
    wire: list[tuple[str, tuple, bytes]] = field(default_factory=list)

    def call(self, name: str, args: tuple, words: dict) -> Told:
        rng = self.shaky.rng
        kind = rng.choice(("request cut", "reply lost", "reply lost", "late"))
        times = rng.choice((1, 2, 2))
        store = self.shaky.place.open()
        assert isinstance(store, RedisBackend)
        cutter = Cutter(store, kind, rng.random(), times)
        try:
            told = answer_of(lambda: getattr(store, name)(*args, **words))
            if cutter.executed and name not in (*REPEATED, *ORDERS):
                told = Told(True)  # this answer is for the second copy
        except BackendUnavailable:
            told = Told(cutter.executed > 0)
        finally:
            store.close()
            self.shaky.place.opened.remove(store)
        self.wire += [(name, args, copy) for copy in cutter.held_back]
        self.shaky.made[kind] += 1
        return told

    def deliver_late_copies(self) -> None:
        """What is still on the wire arrives now, some of it. An order of a person that comes late is obeyed, late: not
        tried; nor is an enqueue whose jobs are gone, for then it cannot be told from a new one."""
        if not self.wire or self.shaky.rng.random() > LATE_SHARE:
            return
        name, args, copy = self.wire.pop(self.shaky.rng.randrange(len(self.wire)))
        if name.startswith("exchange") or (name == "enqueue" and all(map(self._is_stored, args[0]))):
            self._send(copy)
            self.shaky.made["late copies"] += 1

    def clear_the_wire(self) -> None:
        """Nothing is under way any more."""
        self.wire.clear()

    def _is_stored(self, job: Any) -> bool:
        told = answer_of(lambda: self.shaky.calm.job(job.id))
        return told.error is None

    def _send(self, copy: bytes) -> None:
        store = self.shaky.place.open()
        assert isinstance(store, RedisBackend)
        with suppress(ServerError):  # a step that the server does not know by its digest does nothing
            store._session.connection().ask(copy)
        store.close()
        self.shaky.place.opened.remove(store)


class Cutter:
    """Spoils the next connections of a store: each one's first script."""

    def __init__(self, store: RedisBackend, kind: str, share: float, times: int) -> None:
        self.kind, self.share, self.times = kind, share, times
        self.executed = 0
        self.held_back: list[bytes] = []
        self._open = store._session._open
        store._session._open = self._open_spoilt  # type: ignore[method-assign]

    def _open_spoilt(self) -> Connection:
        connection = self._open()
        if self.times > 0:
            self.times -= 1
            connection._sock = SpoiltSocket(connection._sock, self)  # type: ignore[assignment]
        return connection


class SpoiltSocket:
    """A socket that breaks at a chosen place."""

    def __init__(self, real: socket.socket, cutter: Cutter) -> None:
        self._real, self._cutter = real, cutter
        self._is_script = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sendall(self, data: bytes) -> None:
        self._is_script = b"EVAL" in data[:40]
        if self._is_script and self._cutter.kind == "request cut":
            self._real.sendall(data[: int(len(data) * self._cutter.share)])
            self._break()
        if self._is_script and self._cutter.kind == "late":
            self._cutter.held_back.append(data)
            return
        self._real.sendall(data)

    def recv(self, size: int) -> bytes:
        if self._is_script and self._cutter.kind == "late":
            raise BlockingIOError("nothing came")
        reply = self._real.recv(size)
        if self._is_script and self._cutter.kind == "reply lost" and not reply.startswith(b"-NOSCRIPT"):
            self._cutter.executed += 1
            self._break()
        return reply

    def _break(self) -> None:
        self._real.close()
        raise ConnectionResetError("connection reset by peer")
