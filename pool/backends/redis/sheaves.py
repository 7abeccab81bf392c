"""Several lanes of one worker in one round trip, on Redis."""

import os
import struct
from collections.abc import Sequence
from typing import Any

from pool.backends.contract import Answer, Want
from pool.backends.redis.connection import pack_words
from pool.backends.redis.frames import quick_id
from pool.backends.redis.keys import SEPARATOR, class_of, is_whole, lane_field, lane_words, listed
from pool.backends.redis.packing import settlement_frames
from pool.backends.redis.scripts import step
from pool.backends.redis.work import MOST_CLAIMS, RedisWork, is_plain, mark_text, refusal
from pool.backends.sheaf import one_by_one
from pool.identity import LaneId, process_mark
from pool.jobs.job import Outcome, Settlement

MOST_LANES = 500  # a script's arguments and unpack have their limits
PLAIN_AGAIN = 16  # calls of the lead alone before a plain case is hoped for again
_WORD = struct.Struct(">H16sIdI")  # lane, job id, claim, started_at, length of the frames
_ANSWERS = {ord("0"): Answer(), ord("1"): Answer(True), ord("2"): Answer(False)}
_HAS_CLAIM = 4  # more than the digit that says what was settled
_HANDED_BACK = (
    0x8000  # above the lane of a job that never started: mostly it was taken back, and the word comes too late
)
_NOT_PLAIN, _ASKED_BEFORE = 3, 4


class RedisSheaves(RedisWork):
    """`exchange_many`: one step for the plain case; what is not plain is done by `exchange`, lane after lane.

    The number in each lane's entry says what is done already, so both ways may follow each other for one call."""

    def __init__(self) -> None:
        super().__init__()
        # by how many: the lanes, and what stands before and after all else in their calls
        self._sheaves: dict[int, tuple[tuple[LaneId, ...], bytes, bytes]] = {}
        self._wishes: dict[Want | None, bytes] = {}  # a want as the step takes it
        # How often the lead may still call alone: the last step found jobs that are not plain, and they seldom come alone.
        # When it turns out that it has called before, the others may have been given something: they are asked about too.
        self._odd_calls = 0

    def exchange_many(
        self,
        lanes: Sequence[LaneId],
        request: int,
        *,
        settlements: Sequence[Settlement | None],
        want: Want | None = None,
        ahead: int = 0,
        leave: int = 0,
    ) -> list[Answer]:
        words = _words(settlements) if _is_fit(lanes, want) else None
        if words is None:
            return self._one_by_one(lanes, request, settlements, want)
        if self._odd_calls and not any(settlements[1:]):
            lead = self.exchange(lanes[0], request, settlement=settlements[0], want=want)
            if not self._was_asked:
                self._odd_calls -= 1
                return [lead, *[Answer()] * (len(lanes) - 1)]
        answer = self._call_together(tuple(lanes), request, words, want, (ahead, leave))
        if answer[0] == _NOT_PLAIN:
            self._odd_calls = PLAIN_AGAIN if answer[1] else 0
            apart = self._lead_apart if answer[1] else self._one_by_one
            return apart(lanes, request, settlements, want)
        if answer[0] not in (0, _ASKED_BEFORE):
            raise refusal(lanes[0], request, answer)
        self._odd_calls = 0
        return self._read(lanes, answer)

    def _lead_apart(
        self, lanes: Sequence[LaneId], request: int, settlements: Sequence[Settlement | None], want: Want | None
    ) -> list[Answer]:
        """Mostly it is the next job that is not plain, and all that has ended is. The lead comes last, as in `one_by_one`."""
        others, words = [Answer()] * (len(lanes) - 1), _words(settlements[1:])
        if words:
            answer = self._call_together(tuple(lanes[1:]), request, words, None, (0, 0))
            if answer[0] not in (0, _ASKED_BEFORE):
                return self._one_by_one(lanes, request, settlements, want)
            others = self._read(lanes[1:], answer)
        return [self.exchange(lanes[0], request, settlement=settlements[0], want=want), *others]

    def _one_by_one(
        self, lanes: Sequence[LaneId], request: int, settlements: Sequence[Settlement | None], want: Want | None
    ) -> list[Answer]:
        def exchange(lane: LaneId, number: int, word: Settlement | None, wanted: Want | None) -> Answer:
            return self.exchange(lane, number, settlement=word, want=wanted)

        return one_by_one(exchange, lanes, request, settlements, want)

    def _call_together(
        self, lanes: tuple[LaneId, ...], request: int, words: bytes, want: Want | None, numbers: tuple[int, int]
    ) -> Any:
        if self._pid != os.getpid():
            self._forget_pieces()
        known = self._sheaves.get(len(lanes))
        if known is None or known[0] != lanes:
            known = self._sheaves[len(lanes)] = (lanes, *self._sheaf_pieces(lanes))
        _, before, after = known
        number = b"%d" % request
        rest = b"%b$%d\r\n%b\r\n%b%b%b" % (
            before,
            len(number),
            number,
            self._wishes.get(want) or self._wish_piece(want),
            pack_words((*numbers, words)),
            after,
        )
        return self._session.run_packed(step("exchange_many"), 1 + 6 + 11 + 2 * len(lanes), rest)

    def _sheaf_pieces(self, lanes: tuple[LaneId, ...]) -> tuple[bytes, bytes]:
        who = lanes[0].worker
        keys = (*self._keys.exchange, self._keys.pool(who.pool))
        before = pack_words((len(keys), *keys, who.generation))
        mark = SEPARATOR.join((f"mark/{who.slot}.{who.generation}", mark_text(process_mark())))
        return before, pack_words((mark, f"bar/{who.slot}", "beat", *map(lane_field, lanes), *map(lane_words, lanes)))

    def _forget_pieces(self) -> None:
        super()._forget_pieces()
        self._sheaves.clear()

    def _wish_piece(self, want: Want | None) -> bytes:
        if want is None:
            piece = pack_words(("", "", ""))
        else:
            mode, names = ("*", want.reserved) if want.is_any else ("=", want.queues)
            piece = pack_words((mode, listed(names), self._keys.bell(class_of(want))))
        self._wishes[want] = piece
        return piece

    def _read(self, lanes: Sequence[LaneId], answer: list[Any]) -> list[Answer]:
        _, digits, seconds, microseconds, ids, records, *states = answer
        claims = zip(ids, records, states[0] if states else [b""] * len(ids), strict=True)
        claimed_at = float(seconds) + float(microseconds) / 1_000_000
        answers = []
        for lane, digit in zip(lanes, digits, strict=True):
            if digit in _ANSWERS:
                answers.append(_ANSWERS[digit])
            else:
                settled = _ANSWERS[digit - _HAS_CLAIM].settled
                answers.append(Answer(settled, self._claim_of(lane, *next(claims), claimed_at)))
        return answers


def _is_fit(lanes: Sequence[LaneId], want: Want | None) -> bool:
    """Whether the step knows this kind of call at all."""
    return len(lanes) <= MOST_LANES and (want is None or is_whole(want))


def _words(settlements: Sequence[Settlement | None]) -> bytes | None:
    """What the lanes say, packed; None when one says more than that its job completed, or goes back unstarted."""
    parts = []
    for place, word in enumerate(settlements):
        if word is None:
            continue
        if is_plain(word):
            frames = settlement_frames(word)
        elif word.outcome is Outcome.RETURNED and word.started_at is None and word.claim <= MOST_CLAIMS:
            place, frames = place + _HANDED_BACK, b""
        else:
            return None
        parts.append(_WORD.pack(place, quick_id(word.job_id), word.claim, word.started_at or 0.0, len(frames)))
        parts.append(frames)
    return b"".join(parts)
