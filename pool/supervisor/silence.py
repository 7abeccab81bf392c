"""Who must show life, and who has not. Pure: it judges what the board says against a clock.

A worker inside user code may be silent for hours. One that is idle, claiming or settling may not; but one that settles
has a result in hand, and is given up only when somebody has stopped it, because then it may hold the store's lock.
"""

from enum import Enum, auto

from pool.board.lanes import Lane, Phase
from pool.board.record import Process, Role, State

# A store call is bounded by the sockets' and locks' own limits (5 s slices); ten slices are not a wait any more.
LONGEST_STORE_CALL_S = 60.0


class Silence(Enum):
    NONE = auto()
    SILENT = auto()  # replace it
    SILENT_IF_STOPPED = auto()  # replace it if the process is stopped


def silence_of(role: Role, process: Process, lanes: list[Lane], *, timeout: float, now: float, since: float) -> Silence:
    """`since`: no silence counts from before this time (the parent itself was away, or the machine slept)."""
    if role not in (Role.WORKER, Role.KEEPER, Role.WEB) or process.state == State.BOOTING:
        return Silence.NONE
    quiet_s = now - max(process.alive_at, since)
    if role in (Role.KEEPER, Role.WEB):
        return Silence.SILENT if quiet_s > timeout else Silence.NONE
    if process.state == State.RETIRING and not process.store_call_since:
        return Silence.NONE  # it waits for SIGTERM; its own deadline is watched elsewhere
    in_store_s = now - max(process.store_call_since, since) if process.store_call_since else 0.0
    if any(lane.phase >= Phase.STARTED for lane in lanes):
        stuck = in_store_s > timeout
        return Silence.SILENT_IF_STOPPED if stuck else Silence.NONE
    if quiet_s > timeout:
        return Silence.SILENT
    return Silence.SILENT_IF_STOPPED if in_store_s > max(LONGEST_STORE_CALL_S, timeout) else Silence.NONE
