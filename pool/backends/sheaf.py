"""Several lanes of one worker in one call, for a store that has nothing better to do with them than one after the other."""

from collections.abc import Callable, Sequence

from pool.backends.messages import Answer, Want
from pool.identity import LaneId
from pool.jobs.job import Settlement

Exchange = Callable[[LaneId, int, Settlement | None, Want | None], Answer]


def one_by_one(
    exchange: Exchange,
    lanes: Sequence[LaneId],
    request: int,
    settlements: Sequence[Settlement | None],
    want: Want | None,
) -> list[Answer]:
    """`exchange_many` without claims ahead. The lead comes last: its record says that the call is done."""
    others = [
        Answer() if word is None else exchange(lane, request, word, None)
        for lane, word in zip(lanes[1:], settlements[1:], strict=True)
    ]
    return [exchange(lanes[0], request, settlements[0], want), *others]
