"""Whether somebody looks at the store for this process while it sleeps: the pool's keeper, by its own account on the board."""

from pool.board.board import Board
from pool.board.record import Exit, Record, Role, State
from pool.clock import monotonic_now

# It shows life once a second, before and after each step; inside a call to the store it looks at nothing.
AWAKE_WITHIN_S = 2.5


class Watchman:
    """The keeper as a sleeper sees it. Its death shows soon enough: a dead one shows no life."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._keeper: Record | None = None
        self._turn = 0

    def is_awake(self) -> bool:
        """Whether a living keeper looks for lost rings once a second, so that a sleeper need not."""
        keeper = self._keeper
        if keeper is None or keeper.tenant.turn != self._turn or not _is_at_work(keeper):
            keepers = (record for record in self._board.taken() if record.tenant.read().role == Role.KEEPER)
            keeper = self._keeper = next(filter(_is_at_work, keepers), None)
            self._turn = 0 if keeper is None else keeper.tenant.turn
        return keeper is not None


def _is_at_work(record: Record) -> bool:
    process = record.process.read()
    is_at_work = process.state in (State.IDLE, State.BUSY) and process.exit == Exit.NONE
    return is_at_work and monotonic_now() - process.alive_at < AWAKE_WITHIN_S
