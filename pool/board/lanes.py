"""What the board says of one lane of a process: the job it holds and how far it is, how that ended, what it was told.

`state` and `ending` are written by the process, `order` by the keeper.
"""

import struct
import uuid
from enum import IntEnum
from typing import NamedTuple

from pool.board.cell import Cell, as_text, cell_bytes


class Phase(IntEnum):
    """How far a lane is with its job. STARTED is written as the last act before user code.

    FINISHED: it completed, and `ending` says with what; anyone may hand that in. Other ends stay STARTED until the store has them.
    """

    NONE = 0
    CLAIMED = 1
    STARTED = 2
    FINISHED = 3


class Lane(NamedTuple):
    """A lane and the job it holds. `hard_deadline` 0: none. `claim` stays after the end as the last one held."""

    phase: int
    claim: int
    job: bytes
    since: float
    hard_deadline: float
    request: int
    type_raw: bytes
    queue_raw: bytes

    @property
    def job_id(self) -> str:
        return str(uuid.UUID(bytes=self.job))

    @property
    def type(self) -> str:
        return as_text(self.type_raw)

    @property
    def queue(self) -> str:
        return as_text(self.queue_raw)


class LaneEnding(NamedTuple):
    """How the job of a FINISHED lane completed: wall time of its start, its result as JSON (`length` below 0: none)."""

    started_at: float
    length: int
    result_raw: bytes

    @property
    def result(self) -> str | None:
        return None if self.length < 0 else self.result_raw[: self.length].decode()


class Sheaf(NamedTuple):
    """The jobs a process has claimed ahead, one a lane, to run one after the other.

    `since`: when the first of them could start; above 0 the keeper may take back what waits, under the start lock.
    `lanes`: how many of its lanes may hold something (0: all). `wishes`: it would claim ahead if somebody watched.
    """

    since: float
    lanes: int
    wishes: int


class LaneOrder(NamedTuple):
    """What the keeper tells a lane about claims it holds; the worker is woken with SIGURG to look.

    A claim is named by job and number: the number counts the claims of one job, so most jobs have number 1.
    """

    cancel_job: bytes
    cancel_claim: int
    lost_job: bytes
    lost_claim: int

    def cancels(self, job_id: str, claim: int) -> bool:
        """Whether a person wants this very claim to end."""
        return self.cancel_claim == claim and self.cancel_job.hex() == job_id.replace("-", "")

    def calls_lost(self, job_id: str, claim: int) -> bool:
        """Whether the store has given the job of this very claim away."""
        return self.lost_claim == claim and self.lost_job.hex() == job_id.replace("-", "")


LANE = struct.Struct("=qq16sddq64s40s")
LANE_ENDING = struct.Struct("=dq96s")
LONGEST_RESULT_BYTES = 96
SHEAF = struct.Struct("=dqq")
LANE_ORDER = struct.Struct("=16sq16sq")

NO_JOB = bytes(16)
NO_ORDER = LaneOrder(NO_JOB, 0, NO_JOB, 0)


class LaneCells:
    """The cells of one lane."""

    __slots__ = ("ending", "order", "state")

    def __init__(self, view: memoryview, offset: int) -> None:
        self.state: Cell[Lane] = Cell(view, offset, LANE, Lane)
        offset += cell_bytes(LANE)
        self.order: Cell[LaneOrder] = Cell(view, offset, LANE_ORDER, LaneOrder)
        offset += cell_bytes(LANE_ORDER)
        self.ending: Cell[LaneEnding] = Cell(view, offset, LANE_ENDING, LaneEnding)

    def is_given_up(self, job: bytes, claim: int) -> bool:
        """Whether the keeper has taken this claim back, or handed in its end: it is no longer the lane's own."""
        order = self.order.read()
        return order.lost_claim == claim and order.lost_job == job


LANE_CELLS_BYTES = sum(cell_bytes(layout) for layout in (LANE, LANE_ORDER, LANE_ENDING))
