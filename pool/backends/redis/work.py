"""What a lane does, on Redis: the hot path, and the sleep beside it."""

import os
import struct
from itertools import chain
from typing import Any, TypeVar

from pool.backends.contract import Answer, Held, Want
from pool.backends.redis.connection import Argument, Connection, pack, pack_words
from pool.backends.redis.frames import UNREADABLE, long_text, quick_id, short_text
from pool.backends.redis.intake import RedisIntake
from pool.backends.redis.keys import SEPARATOR, class_of, is_whole, lane_field, lane_words, listed, ranks_of
from pool.backends.redis.layouts import SIZE
from pool.backends.redis.packing import cause_frames, job_arguments, output_frame, report_frames, settlement_frames
from pool.backends.redis.records import read_answer, read_claim, read_first_claim
from pool.backends.redis.scripts import step
from pool.backends.redis.trouble import ConnectionBroken, ServerError
from pool.clock import monotonic_now
from pool.descriptors import readable
from pool.errors import BackendUnavailable, ClaimLost, LaneBarred, RequestRefused
from pool.identity import LaneId, ProcessMark, process_mark
from pool.jobs.job import COMPLETED, Claim, Settlement
from pool.jobs.lifecycle import Reason

POLL_SECONDS = 1.0
ABSENT_SECONDS = 0.5  # how long a wait sleeps at least when the store is away
LISTEN_AGAIN_SECONDS = 60.0
EXCHANGE_WORDS = 1 + 1 + 2  # count of keys, key, arguments of the usual call
LONG_WORDS = 9  # more of a settlement that is not plain
JOB_WORDS = 5
AGAIN = 4
MOST_CLAIMS = 2**32 - 1
_REQUEST = struct.Struct(">d")
_PLAIN = struct.Struct(">d16sId")  # request, job id, claim, started_at
_PLAIN_WORD, _PLAIN_SIZE = struct.Struct(">5sd16sId2s"), b"$36\r\n"  # the same as a word of a command
_SETTLED = (None, True, False)
_NO_WANT_YET = object()  # None is a want too
Piece = TypeVar("Piece")


class RedisWork(RedisIntake):
    """Work of the contract."""

    def __init__(self) -> None:
        super().__init__()
        self._lanes: dict[LaneId, tuple[bytes, bytes]] = {}  # packed pieces of commands
        self._wants: dict[Want | None, bytes] = {}
        self._lane: LaneId | None = None  # who asked last for what, and the pieces: mostly the same as before
        self._want: object = _NO_WANT_YET
        self._want_bytes = self._same_bytes = b""
        self._pid = 0
        self._given = "", b""  # the last claim's id as text and packed: mostly of the job that is settled next
        self._was_asked = False  # whether the last answer was one to a number that was asked before
        self._heard: dict[bytes, tuple[int, float]] = {}  # class -> connection, when it was made known there

    # ---------------------------------------------------------------- exchange

    def exchange(
        self, lane: LaneId, request: int, *, settlement: Settlement | None = None, want: Want | None = None
    ) -> Answer:
        """The command is put together from packed pieces: those of the lane and of the want are always the same."""
        if self._pid != os.getpid():
            self._forget_pieces()
        if lane is not self._lane or want is not self._want:
            self._turn_to(lane, want)
        more, word = _settlement_piece(request, settlement, self._given)
        answer = self._session.run_packed(step("exchange"), EXCHANGE_WORDS + more, self._same_bytes + word)
        if answer.__class__ is bytes:
            self._was_asked = False
            return Answer(_SETTLED[answer[0]], self._first_claim_of(lane, answer))
        if answer[0]:
            raise refusal(lane, request, answer)
        _, said, *given = answer
        self._was_asked = said >= AGAIN
        return Answer(_SETTLED[said % AGAIN], self._claim_of(lane, *given) if given else None)

    def _turn_to(self, lane: LaneId, want: Want | None) -> None:
        """Put together what is the same in each call of this lane with this want."""
        key, who = self._lanes.get(lane) or self._lane_piece(lane)
        if want is not self._want:
            self._want, self._want_bytes = want, self._wants.get(want) or self._want_piece(want)
        self._lane = lane
        size = len(who) + len(self._want_bytes)
        self._same_bytes = b"%b$%d\r\n%b%b\r\n" % (key, size, who, self._want_bytes)

    def _lane_piece(self, lane: LaneId) -> tuple[bytes, bytes]:
        """The key as words of a command, and what is told of the lane."""
        key = pack_words((1, self._keys.pool(lane.worker.pool)))
        texts = self._keys.root, lane_field(lane), f"bar/{lane.worker.slot}"
        who = SIZE.pack(lane.worker.generation), *map(short_text, map(str.encode, texts)), short_text(lane_words(lane))
        return _remember(self._lanes, lane, (key, b"".join(who)))

    def _want_piece(self, want: Want | None) -> bytes:
        """The want, and the mark of this process, so that a keeper on the same machine can prove its death."""
        mode, names, bell = "", "", b""
        seldom = ("", "", "")
        if want is not None:
            mode, queues = ("*", want.reserved) if want.is_any else ("=", want.queues)
            mode, names, bell = mode if is_whole(want) else "?" + mode, listed(queues), self._keys.bell(class_of(want))
            seldom = (*ranks_of(want), repr(float(want.lease_seconds or 0)))
        told = SEPARATOR.join((mark_text(process_mark()), *seldom)).encode()
        piece = b"".join((short_text(mode.encode()), long_text(names.encode()), long_text(bell), told))
        return _remember(self._wants, want, piece)

    def _forget_pieces(self) -> None:
        """After a fork: the mark in them is the parent's."""
        self._wants.clear()
        self._lane, self._want = None, _NO_WANT_YET
        self._pid = os.getpid()

    def _first_claim_of(self, lane: LaneId, answer: bytes) -> Claim | None:
        try:
            packed, claim = read_answer(answer)
        except UNREADABLE:
            self._hand_back(lane, Reason.INVALID_RECORD)
            return None
        return self._kept(lane, packed, claim)

    def _claim_of(self, lane: LaneId, packed: bytes, raw: bytes, kept: bytes, claimed_at: float = 0.0) -> Claim | None:
        """None for a job that the server could read and we cannot (text that is not UTF-8): it is set aside at once."""
        try:
            claim = read_claim(packed, raw, kept) if kept else read_first_claim(packed, raw, claimed_at)
        except UNREADABLE:
            self._hand_back(lane, Reason.INVALID_RECORD)
            return None
        return self._kept(lane, packed, claim)

    def _kept(self, lane: LaneId, packed: bytes, claim: Claim) -> Claim | None:
        """None for a job that is started at most once while the disk does not have the claim: it is handed back unstarted."""
        if claim.max_retries or self._is_on_disk():
            self._given = claim.job_id, packed
            return claim
        self._hand_back(lane, Reason.INTERRUPTED)
        return None

    def _hand_back(self, lane: LaneId, reason: Reason) -> None:
        """What the lane holds goes back unstarted, or, as an invalid record, to the dead letters."""
        keys = (*self._keys.fixed, self._keys.pool(lane.worker.pool))
        who = f"{lane.worker.slot}.{lane.worker.generation}"
        self._session.run("recover", keys, ("worker", who, "", 0, reason, 0, b"", b"", f" {lane.lane} ", 0))

    def report(
        self, held: Held, *, progress: float | None = None, note: str | None = None, checkpoint: str | None = None
    ) -> bool:
        keys = (*self._keys.fixed, self._keys.pool(held.lane.worker.pool))
        args = (lane_field(held.lane), quick_id(held.job_id), held.claim, report_frames(progress, note, checkpoint))
        verdict = self._session.run("report", keys, args)
        if verdict == 2:
            raise ClaimLost(held.job_id, held.claim)
        return bool(verdict)

    # ---------------------------------------------------------------- waiting

    def wait(self, want: Want, seconds: float, interrupt_fd: int | None = None, *, watched: bool = False) -> bool:
        """Blocks on the class's bell; unless `watched` in slices of a second, the store looked at after each (reads only)."""
        end = monotonic_now() + seconds
        try:
            connection = self._session.connection()
            if self._listen(connection, want) and seconds > 0 and self._may_find(want):
                return True
            while (left := end - monotonic_now()) > 0:
                rung = self._nap(connection, want, left if watched else min(left, POLL_SECONDS), interrupt_fd)
                if rung is None:
                    return False
                if rung or (not watched and self._may_find(want)):
                    return True
            return False
        except (ConnectionBroken, ServerError, BackendUnavailable):
            self._session.close()
            self._sleep(min(max(0.0, end - monotonic_now()), ABSENT_SECONDS), interrupt_fd)
            return True  # who knows

    def _listen(self, connection: Connection, want: Want) -> bool:
        """Make the class known before the first claim, on each new connection (the server may have lost it), and now and
        then. True when it was done now: a ring before it was not for us."""
        worker_class, now = class_of(want), monotonic_now()
        known, since = self._heard.get(worker_class, (0, 0.0))
        if known == id(connection) and now - since < LISTEN_AGAIN_SECONDS:
            return False
        self._session.run("listen", self._keys.fixed, (worker_class,))
        self._heard[worker_class] = (id(connection), now)
        return True

    def _nap(self, connection: Connection, want: Want, seconds: float, interrupt_fd: int | None) -> bool | None:
        """Whether the bell rang; None when we were interrupted."""
        bell = self._keys.bell(class_of(want))
        connection.send(pack("BLPOP", bell, f"{max(0.001, seconds):.3f}"))
        readable = connection.is_readable(seconds + self._session.answer_seconds, interrupt_fd)
        if readable is None:  # BLPOP is still under way: a reply that comes later must never be taken for another's
            self._session.close()
            return None
        if not readable:
            raise ConnectionBroken("no answer to BLPOP", timed_out=True)
        return connection.read() is not None

    def _may_find(self, want: Want) -> bool:
        mode, names = ("*", want.reserved) if want.is_any else ("=", want.queues)
        return bool(self._session.run("peek", self._keys.fixed, (mode, listed(names))))

    def _sleep(self, seconds: float, interrupt_fd: int | None) -> None:
        readable([] if interrupt_fd is None else [interrupt_fd], seconds)


def is_plain(word: Settlement) -> bool:
    """Whether it says no more than that the job completed, and with which result."""
    is_possible = 0 < word.claim <= MOST_CLAIMS
    return word.outcome is COMPLETED and is_possible and not (word.cause or word.output or word.children)


def _settlement_piece(request: int, word: Settlement | None, given: tuple[str, bytes]) -> tuple[int, bytes]:
    """The request and what is settled with it: how many words it has above the usual one, and all. There are nine of them,
    and five for each child, when it is not plain."""
    if word is None:
        return 0, b"$8\r\n%b\r\n" % _REQUEST.pack(request)
    if is_plain(word):
        packed = given[1] if word.job_id is given[0] else quick_id(word.job_id)
        said = request, packed, word.claim, word.started_at or 0.0
        if word.result is None:
            return 0, _PLAIN_WORD.pack(_PLAIN_SIZE, *said, b"\r\n")
        plain = _PLAIN.pack(*said) + settlement_frames(word)
        return 0, b"$%d\r\n%b\r\n" % (len(plain), plain)
    children = chain.from_iterable(map(job_arguments, word.children))
    piece = pack_words((_REQUEST.pack(request), *_settlement_words(word), *children))
    return LONG_WORDS + JOB_WORDS * len(word.children), piece


def _settlement_words(word: Settlement) -> tuple[Argument, ...]:
    return (
        quick_id(word.job_id),
        word.claim,
        repr(float(word.started_at or 0)),
        word.outcome.value,
        word.reason.value if word.reason else "",
        repr(float(word.delay)),
        int(word.misfit),
        settlement_frames(word),
        cause_frames(word.cause) + output_frame(word.output),
    )


def _remember(pieces: dict[Any, Piece], name: object, piece: Piece) -> Piece:
    if len(pieces) > 4096:
        pieces.clear()
    pieces[name] = piece
    return piece


def refusal(lane: LaneId, request: int, answer: list[Any]) -> LaneBarred | RequestRefused:
    if answer[0] == 1:
        return RequestRefused(str(lane), request, answer[1])
    return LaneBarred(str(lane))


def mark_text(mark: ProcessMark) -> str:
    return f"{mark.pid} {mark.start_ticks} {mark.pid_namespace} {mark.boot_id}"


def read_mark(text: str) -> ProcessMark | None:
    """The reverse of `mark_text`; None for nothing or anything else."""
    words = text.split(" ")
    if len(words) != 4:
        return None
    return ProcessMark(int(words[0]), int(words[1]), words[3], int(words[2]))
