"""Whether somebody looks at the store for this process while it sleeps: the pool's keeper, by its own account on the board."""

from pool.board.board import Board
from pool.board.record import Exit, Record, Role, State
from pool.clock import monotonic_now

# It shows life once a second, before and after each step; inside a call to the store it looks at nothing.
AWAKE_WITHIN_S = 2.5


class Watchman:
    """The keeper as a sleeper sees it."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._keeper: Record | None = None

    def is_awake(self) -> bool:
        """Whether a living keeper looks for lost rings once a second, so that a sleeper need not."""
        if self._keeper is None or not _is_on_duty(self._keeper):
            self._keeper = next(filter(_is_on_duty, self._board.taken()), None)
        return self._keeper is not None


def _is_on_duty(record: Record) -> bool:
    if record.tenant.read().role != Role.KEEPER or record.note.read().pid:
        return False
    process = record.process.read()
    is_at_work = process.state in (State.IDLE, State.BUSY) and process.exit == Exit.NONE
    return is_at_work and monotonic_now() - process.alive_at < AWAKE_WITHIN_S
