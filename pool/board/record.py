"""What the board says of one process: who sits here, what it does, what it holds, what it was told, how it ended.

A record belongs to a process, not to a slot: a worker and its replacement live side by side.
Writers: `tenant`, `orders`, `note`, `stack` the parent; `process`, `remark`, `sheaf`, each lane's `state` and `ending` the child;
each lane's `order` the keeper. All times are CLOCK_MONOTONIC seconds unless named otherwise.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from pool.board.cell import Cell, as_text, cell_bytes
from pool.board.lanes import LANE_CELLS_BYTES, NO_JOB, NO_ORDER, SHEAF, Lane, LaneCells, LaneEnding, Phase, Sheaf
from pool.board.tally import TALLY_BYTES, Tally


class Role(IntEnum):
    NOBODY = 0
    WORKER = 1
    KEEPER = 2
    WEB = 3
    WATCH = 4  # `start --watch`: asks for a roll when a source file changes


class State(IntEnum):
    """What a process is doing, in its own words."""

    BOOTING = 0
    IDLE = 1
    BUSY = 2
    RETIRING = 3  # will claim nothing more; leaves when its jobs are done


class Exit(IntEnum):
    """Why a process says it is leaving. Only an announced or ordered exit is planned."""

    NONE = 0
    STOPPED = 1  # told to
    MEMORY = 2
    MAX_JOBS = 3
    MAX_AGE = 4
    BARRED = 5
    BURST_DONE = 6
    ORPHANED = 7


class Ordered(IntEnum):
    """Why the parent killed a process; NONE: it did not."""

    NONE = 0
    STOP = 1  # the stop or retire deadline passed
    TIMEOUT = 2
    MEMORY = 3
    CANCEL = 4
    SILENT = 5  # no sign of life
    BOOT = 6  # not ready within boot_timeout


class Tenant(NamedTuple):
    """Who has this record. `role` NOBODY: it is free."""

    role: int
    slot: int
    generation: int
    pid: int
    born_at: float
    group_raw: bytes

    @property
    def group(self) -> str:
        return as_text(self.group_raw)


class Process(NamedTuple):
    """The child's own account. `store_call_since` is above 0 while it is inside a call to the store."""

    state: int
    exit: int
    since: float
    alive_at: float
    store_call_since: float
    completed: int
    failed: int
    retried: int
    rss_bytes: int


class Orders(NamedTuple):
    """What the parent tells a process. `draining`: stay up, claim nothing."""

    draining: int


class Note(NamedTuple):
    """How a process ended. `status` is the raw wait status; `started` = bits of lanes whose claim had started."""

    generation: int
    pid: int
    status: int
    ordered: int
    planned: int
    was_ready: int
    oom: int
    lived_s: float
    at_boottime: float


class Done(NamedTuple):
    """The keeper has settled the note of this pid and generation with the store; the parent may reuse the record."""

    generation: int
    pid: int


class Remark(NamedTuple):
    """A text for people (already cleaned): why a child could not boot, or the stack of a job before its kill."""

    text_raw: bytes

    @property
    def text(self) -> str:
        return as_text(self.text_raw)


TENANT = struct.Struct("=qqqqd24s")
PROCESS = struct.Struct("=qqdddqqqq")
ORDERS = struct.Struct("=q")
NOTE = struct.Struct("=qqqqqqqdd")
DONE = struct.Struct("=qq")
REMARK = struct.Struct("=4088s")


FIXED_CELLS_BYTES = (
    sum(cell_bytes(layout) for layout in (TENANT, PROCESS, SHEAF, ORDERS, NOTE, DONE, REMARK, REMARK)) + TALLY_BYTES
)


class Record:
    """All cells of one process."""

    __slots__ = ("done", "index", "lanes", "note", "orders", "process", "remark", "sheaf", "stack", "tally", "tenant")

    def __init__(self, view: memoryview, offset: int, index: int, lanes: int) -> None:
        self.index = index
        self.tenant: Cell[Tenant] = Cell(view, offset, TENANT, Tenant)
        offset += cell_bytes(TENANT)
        self.process: Cell[Process] = Cell(view, offset, PROCESS, Process)
        offset += cell_bytes(PROCESS)
        self.sheaf: Cell[Sheaf] = Cell(view, offset, SHEAF, Sheaf)
        offset += cell_bytes(SHEAF)
        self.orders: Cell[Orders] = Cell(view, offset, ORDERS, Orders)
        offset += cell_bytes(ORDERS)
        self.note: Cell[Note] = Cell(view, offset, NOTE, Note)
        offset += cell_bytes(NOTE)
        self.done: Cell[Done] = Cell(view, offset, DONE, Done)
        offset += cell_bytes(DONE)
        self.remark: Cell[Remark] = Cell(view, offset, REMARK, Remark)
        offset += cell_bytes(REMARK)
        self.stack: Cell[Remark] = Cell(view, offset, REMARK, Remark)
        offset += cell_bytes(REMARK)
        self.tally = Tally(view, offset)
        offset += TALLY_BYTES
        self.lanes = [LaneCells(view, offset + lane * LANE_CELLS_BYTES) for lane in range(lanes)]

    def occupy(self, role: Role, slot: int, generation: int, *, pid: int, group: str, now: float) -> None:
        """Parent, before the fork (pid 0) and after it: a clean record for a new process."""
        if pid == 0:
            self._wipe(now)
        self.tenant.write(role, slot, generation, pid, now, group.encode()[:24])

    def vacate(self) -> None:
        """Parent: the record is free again."""
        self.tenant.write(Role.NOBODY, 0, 0, 0, 0.0, b"")

    def started_claims(self) -> dict[int, int]:
        """Lane → claim number, of those that had started user code and are not settled, finished or not."""
        return {n: lane.claim for n, lane in self.held_lanes().items() if lane.phase >= Phase.STARTED}

    def started_jobs(self) -> dict[int, str]:
        """Lane → job of the claim in `started_claims`."""
        return {n: lane.job_id for n, lane in self.held_lanes().items() if lane.phase >= Phase.STARTED}

    def endings(self) -> dict[int, tuple[Lane, LaneEnding]]:
        """Lane → its job and how that completed, of those whose end nobody has handed in."""
        finished = {n: lane for n, lane in self.held_lanes().items() if lane.phase == Phase.FINISHED}
        return {n: (lane, self.lanes[n].ending.read()) for n, lane in finished.items()}

    def held_lanes(self) -> dict[int, Lane]:
        """Lane → state, of those that hold a job."""
        states = ((n, cells.state.read()) for n, cells in enumerate(self.lanes_in_use()))
        return {n: lane for n, lane in states if lane.phase != Phase.NONE}

    def lanes_in_use(self) -> list[LaneCells]:
        """Those that may hold something: mostly the first of many."""
        return self.lanes[: self.sheaf.read().lanes or None]

    def _wipe(self, now: float) -> None:
        self.process.write(State.BOOTING, Exit.NONE, now, now, 0.0, 0, 0, 0, 0)
        self.sheaf.write(0.0, 0, 0)
        self.orders.write(0)
        self.note.write(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
        self.done.write(0, 0)
        self.remark.write(b"")
        self.stack.write(b"")
        for cells in self.lanes:
            cells.state.write(Phase.NONE, 0, NO_JOB, 0.0, 0.0, 0, b"", b"")
            cells.order.write(*NO_ORDER)
            cells.ending.write(0.0, -1, b"")
