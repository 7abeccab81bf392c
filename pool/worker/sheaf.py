"""The lanes of a worker that runs one job at a time: the first for the job in hand, the others for jobs claimed ahead.

What waits here waits for the job before it, so it is little, it is short, and it is not ours for long: after a moment the
keeper takes back what has not started and hands in what has finished (both by what the board says, under the start lock).
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable

from pool.backends.contract import Answer, Want
from pool.board.record import Role
from pool.board.start_lock import STARTS_FREELY_FOR_S, StartLock
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable, LaneBarred
from pool.jobs.job import Claim
from pool.seat import Seat
from pool.worker.desk import GaveUp
from pool.worker.lane import Lane
from pool.worker.pace import Pace

COUNT_AGAIN_AFTER_S = 1.0


class Sheaf:
    """`lanes[0]` leads: its record in the store numbers the calls for all.

    The others, so that there are at most `most`, are made by `make_lane` (given their number) and added to `lanes` when
    they are first needed: a worker that claims nothing ahead pays for none.
    """

    def __init__(self, seat: Seat, lanes: list[Lane], most: int, make_lane: Callable[[int], Lane]) -> None:
        self.lanes, self._most, self._make_lane = lanes, most, make_lane
        self.lead = self.running = lanes[0]
        self._ids = [self.lead.id]
        self._board, self._cell = seat.board, seat.record.sheaf
        self._pace = Pace(most=most - 1)
        self._lock = StartLock(seat.lock_fd, seat.record.index)
        self._waiting: deque[tuple[Lane, Claim]] = deque()
        self._said = (0.0, 0, 0)
        self._bell = seat.keeper_fd
        self._others, self._counted_at = 0, 0.0
        self._say(0.0, 1, 0)

    # ------------------------------------------------------------ the call

    def exchange(self, want: Want | None) -> bool:
        """Hand in what has ended and take what comes next; whether anything came."""
        self._close()
        ahead = self._ahead() if want is not None else 0
        count = max([ahead, *(n for n, lane in enumerate(self.lanes) if lane.in_hand is not None)]) + 1
        if count == 1 and self.lead.in_hand is None and want is None:
            return False
        asked_at = monotonic_now()
        claims = [self.lead.exchange(want)] if count == 1 else self._exchange_many(count, want, ahead)
        self._waiting.extend((self.lanes[n], claim) for n, claim in enumerate(claims) if claim is not None)
        if want is not None:
            self._pace.called(monotonic_now() - asked_at, [claim.type for _, claim in self._waiting], ahead)
        return bool(self._waiting)

    def _exchange_many(self, count: int, want: Want | None, ahead: int) -> list[Claim | None]:
        self._grow(count)
        lanes = self.lanes[:count]
        words = [lane.in_hand for lane in lanes]
        leave = self._others_in_want() if ahead else 0
        try:
            answers = self.lead.desk.exchange_many(self._ids[:count], words, want, ahead, leave)
        except (LaneBarred, GaveUp, BackendUnavailable):
            raise
        except Exception:  # one of the words cannot be stored: each for itself, and that one is told apart
            return self._each_for_itself(lanes, want)
        for lane in lanes:
            lane.desk.follow(self.lead.desk)
        return [_took(lane, answer) for lane, answer in zip(lanes, answers, strict=True)]

    def _grow(self, count: int) -> None:
        while len(self.lanes) < count:
            self.lanes.append(self._make_lane(len(self.lanes)))
            self._ids.append(self.lanes[-1].id)

    def _each_for_itself(self, lanes: list[Lane], want: Want | None) -> list[Claim | None]:
        """The lead last, for its record says that all is done."""
        for lane in reversed(lanes):
            lane.desk.follow(self.lead.desk)
            claim = lane.exchange(want if lane is self.lead else None)
            self.lead.desk.follow(lane.desk)
        return [claim]

    def keep_on_disk(self) -> None:
        """The store is away and we must go."""
        for lane in self.lanes:
            lane.desk.follow(self.lead.desk)
            lane.keep_on_disk()

    # ------------------------------------------------------------ the jobs

    def carry_out(self, want: Want, put_right: Callable[[bool], bool]) -> None:
        """Run what came, one after the other. `put_right` is told after each whether more is here, and says whether that
        may start; what is left goes back with the next call."""
        if len(self._waiting) > 1:
            self._open()
        while self._waiting and self._may_start():
            lane, claim = self._waiting.popleft()
            self._run(lane, claim, want)
            if not put_right(bool(self._waiting)):
                break
        self._give_back_the_rest()

    def _may_start(self) -> bool:
        """Nobody waits behind a job that may be long, and no result lies here meanwhile."""
        has_company = len(self._waiting) > 1 or any(lane.in_hand is not None for lane in self.lanes)
        if not has_company or self._pace.is_short(self._waiting[0][1].type):
            return True
        lane, claim = self._waiting.popleft()
        self._give_back_the_rest()
        self._hand_in()
        self._close()
        if lane.face.is_given_up:  # before the close; nobody asks any more after it
            lane.give_back(claim)
            return False
        self._waiting.append((lane, claim))
        return True

    def _run(self, lane: Lane, claim: Claim, want: Want) -> None:
        if lane is self.lead:
            sure = lane.made_sure(claim, want)
            if sure is None:
                return
            claim = sure
        elif lane.is_old(claim):
            lane.give_back(claim)
            return
        self.running = lane
        is_whole_on_board = lane.carry_out(claim)
        if lane.face.run_s is not None:
            self._pace.ran(claim.type, lane.face.run_s)
        if not is_whole_on_board and self._waiting:
            self._hand_in()

    def _hand_in(self) -> None:
        """What has ended so far; nothing is taken."""
        count = max((n for n, lane in enumerate(self.lanes) if lane.in_hand is not None), default=-1) + 1
        if count:
            self._exchange_many(count, None, 0)

    def _give_back_the_rest(self) -> None:
        while self._waiting:
            lane, claim = self._waiting.popleft()
            lane.give_back(claim)

    # ------------------------------------------------------------ the board

    def rest(self) -> None:
        """Nothing is held but by the first lane, and nothing is wished for."""
        self._pace.rest()
        self._say(0.0, 1, 0)

    def no_more(self) -> None:
        """The descriptor of the lock may be anything now: one job at a time from here on."""
        self._pace = Pace(most=0)

    def _ahead(self) -> int:
        """How many to ask for: none unless the keeper watches, who is asked to when there is much to do."""
        ahead = self._pace.ahead
        if not ahead:
            return 0
        is_watched = self._pace.is_watched(monotonic_now() - self._board.watch.read().looked_at)
        if (is_watched or self._pace.is_busy) and self._say(0.0, self._most, 1) and not is_watched:
            self._wake_keeper()
        return ahead if is_watched else 0

    def _open(self) -> None:
        """From here on the keeper may take back what waits."""
        since = monotonic_now()
        for lane, _ in self._waiting:
            lane.face.guard, lane.face.free_until = self._lock, since + STARTS_FREELY_FOR_S
        self._say(since, self._most, 1)

    def _close(self) -> None:
        """Under the lock, so that it takes back nothing that we hold from here on."""
        if not self._said[0]:
            return
        try:
            with self._lock.held():
                self._say(0.0, self._most, 1)
        except OSError:  # a job has closed it: this process claims nothing more
            self._say(0.0, self._most, 0)
        for lane in self.lanes:
            lane.face.guard = None

    def _say(self, since: float, lanes: int, wishes: int) -> bool:
        """Whether that is a new wish."""
        before, self._said = self._said, (since, lanes, wishes)
        if self._said != before:
            self._cell.write(since, lanes, wishes)
        return bool(wishes) and not before[2]

    def _wake_keeper(self) -> None:
        """It looks once a second otherwise. A full pipe wakes it as well."""
        with contextlib.suppress(OSError):
            os.write(self._bell, b"s")

    def _others_in_want(self) -> int:
        """So many jobs stay for others: two for each worker of this pool, idle or not."""
        now = monotonic_now()
        if now - self._counted_at > COUNT_AGAIN_AFTER_S:
            self._others = 2 * sum(record.tenant.read().role == Role.WORKER for record in self._board.taken())
            self._counted_at = now
        return self._others


def _took(lane: Lane, answer: Answer) -> Claim | None:
    """A lane that had nothing and got nothing has nothing to note."""
    return None if lane.in_hand is None and answer.claim is None else lane.took(answer)
