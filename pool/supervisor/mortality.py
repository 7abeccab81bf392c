"""How many processes died, and of what: short words for metrics, counted since the supervisor's start."""

from collections import Counter

from pool.board.record import Ordered
from pool.supervisor.children import Children, LastExit


class Mortality:
    """Reads each place's last exit; a place has at most one death between two looks, since a restart takes a turn."""

    def __init__(self) -> None:
        self.deaths: Counter[tuple[str, str]] = Counter()
        self._seen: dict[int, LastExit] = {}

    def look(self, children: Children) -> None:
        """Count what was not counted yet."""
        for slot in children.slots.values():
            last = slot.last_exit
            if last is not None and self._seen.get(slot.number) is not last:
                self._seen[slot.number] = last
                if not last.planned:
                    self.deaths[slot.group, death_word(last)] += 1


def death_word(last: LastExit) -> str:
    """out_of_memory, memory, timeout, silent, boot, cancel, stop, signal_9, exit_1 …"""
    if last.oom:
        return "out_of_memory"
    if last.ordered != Ordered.NONE:
        return last.ordered.name.lower()
    return f"exit_{last.code}" if last.signal is None else f"signal_{last.signal}"
