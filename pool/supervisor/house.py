"""What all parts of the supervisor share: the plan in force, the premises, the register, and the few acts on a child."""

import signal
from collections.abc import Iterator

from pool.board.record import Ordered, Role
from pool.logs import log
from pool.supervisor.births import Births
from pool.supervisor.children import Child, Children, Slot
from pool.supervisor.deaths import send
from pool.supervisor.executions import Executions
from pool.supervisor.planned import Plan
from pool.supervisor.premises import Premises


class House:
    """Made after the lock is taken, before the first fork."""

    def __init__(self, plan: Plan, children: Children) -> None:
        self.plan, self.children = plan, children
        self.premises = Premises(plan.pool, lanes=max((spec.lanes for spec in plan.specs), default=1))
        self.births = Births(self.premises, children)
        self.executions = Executions()
        self.complaints: dict[str, str] = {}  # topic → sentence for people

    def others_first(self) -> Iterator[Child]:
        """Every living child that leaves before the last ones."""
        return (child for child in self.children.living() if not child.spec.stop_last)

    def last_ones(self) -> Iterator[Child]:
        """The living children that leave last: the keeper."""
        return (child for child in self.children.living() if child.spec.stop_last)

    def tell_to_leave(self, child: Child, why: str, now: float) -> None:
        """SIGTERM, once: a worker finishes its job and claims nothing more. `retire_timeout` bounds it, if there is one."""
        if child.was_told:
            return
        self.children.retiring(child, why, now)
        child.was_told = True
        if child.spec.retire_timeout:
            child.deadline, child.deadline_order = now + child.spec.retire_timeout, Ordered.STOP
        send(child, signal.SIGTERM)
        log.info("child told to leave", slot=child.slot, pid=child.pid, why=why)

    def let_go(self, slots: list[Slot], why: str, now: float) -> None:
        """These places are wanted no more."""
        for slot in slots:
            for child in self.children.let_go(slot):
                self.tell_to_leave(child, why, now)

    def heirs_in(self, slot: Slot) -> int:
        """How many replacements are booting in the slot's group."""
        return sum(other.heir is not None for other in self.children.of_group((slot.role, slot.group)))

    def surplus_workers(self) -> tuple[int, int]:
        """How many heirs boot and how many replaced ones still leave, over all groups."""
        slots = [slot for slot in self.children.slots.values() if slot.role == Role.WORKER]
        return sum(slot.heir is not None for slot in slots), sum(len(slot.leavers) for slot in slots)

    def write_draining(self, key: tuple[Role, str], draining: bool) -> None:
        """Tell the group's processes to claim nothing (or to claim again), now and at each later birth."""
        self.children.groups[key].draining = draining
        for slot in self.children.of_group(key):
            for child in slot.living():
                child.record.orders.write(int(draining))
                send(child, signal.SIGURG)
