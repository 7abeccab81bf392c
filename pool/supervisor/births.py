"""Filling a place: a record on the board, a descriptor for its stacks, a fork, and the clock by which it must be ready."""

import os
from collections.abc import Iterable, Iterator

from pool.board.record import Ordered, Record, Role
from pool.clock import monotonic_now, wall_now
from pool.identity import WorkerId
from pool.logs import log
from pool.supervisor.children import Child, Children, Slot
from pool.supervisor.fork import PARENTS_VARIABLES, Cradle, Inheritance, fork_children
from pool.supervisor.premises import Premises
from pool.supervisor.restarts import delay_after


class Births:
    """Forks children into slots. A refused fork is a reason to wait, never to stop."""

    def __init__(self, premises: Premises, children: Children) -> None:
        self._premises, self._children = premises, children
        self.refusal = ""

    def bear(self, slot: Slot, *, as_heir: bool = False) -> Child | None:
        """A new process in the slot; None when the system refused, and the slot waits longer each time."""
        return next(self._born([slot], as_heir), None)

    def bear_all(self, slots: Iterable[Slot]) -> None:
        """The same for many slots, forked in a row: each child owns a copy of what we write between its birth and the next."""
        for _ in self._born(slots, as_heir=False):
            pass

    def _born(self, slots: Iterable[Slot], as_heir: bool) -> Iterator[Child]:
        conceived = [(slot, child) for slot in slots if (child := self._conceived(slot)) is not None]
        births = fork_children([self._cradle_of(child) for _, child in conceived])
        for (slot, child), born in zip(conceived, births, strict=True):
            if isinstance(born, OSError):
                self._give_up(slot, child, born)
            else:
                child.pid = born
                self._enter(slot, child, as_heir)
                yield child

    def _conceived(self, slot: Slot) -> Child | None:
        record = self._premises.board.take_free()
        if record is None:
            self._postpone(slot, "the board has no free record: too many deaths wait for the store")
            return None
        try:
            return self._new_child(slot, record)
        except OSError as error:
            record.vacate()
            self._postpone(slot, f"fork refused: {error.strerror or error}")
            return None

    def _new_child(self, slot: Slot, record: Record) -> Child:
        stack_fd = os.memfd_create(f"stack-{slot.number}", os.MFD_CLOEXEC)
        generation = self._children.next_generation(slot)
        now = monotonic_now()
        record.occupy(slot.role, slot.number, generation, pid=0, group=slot.group, now=now)
        if self._children.groups[slot.role, slot.group].draining:
            record.orders.write(1)
        return Child(
            slot=slot.number,
            generation=generation,
            spec=slot.spec,
            record=record,
            stack_fd=stack_fd,
            born_at=now,
            started_wall=wall_now(),
            deadline=now + slot.spec.boot_timeout,
            deadline_order=Ordered.BOOT,
        )

    def _cradle_of(self, child: Child) -> Cradle:
        worker = WorkerId(self._premises.pool, child.slot, child.generation)
        seat = self._premises.seat_for(child.spec, worker, child.record, child.stack_fd)
        inheritance = Inheritance(
            keep=self._premises.descriptors_of(seat),
            parents_own=self._premises.objects_with_descriptors(),
            parents_variables=[name for name in PARENTS_VARIABLES if name in os.environ],
            descriptor_limit=self._premises.childrens_descriptor_limit,
        )
        return Cradle(child.spec, seat, inheritance)

    def _give_up(self, slot: Slot, child: Child, error: OSError) -> None:
        os.close(child.stack_fd)
        child.record.vacate()
        self._postpone(slot, f"fork refused: {error.strerror or error}")

    def _enter(self, slot: Slot, child: Child, as_heir: bool) -> None:
        child.record.occupy(
            child.role, child.slot, child.generation, pid=child.pid, group=child.group, now=child.born_at
        )
        self._children.born(slot, child, as_heir=as_heir)
        self.refusal = ""
        log.info(
            "child started", role=child.role.name.lower(), slot=child.slot, pid=child.pid, generation=child.generation
        )

    def _postpone(self, slot: Slot, why: str) -> None:
        slot.failures += 1
        delay = delay_after(slot.spec, slot.failures)
        slot.next_start = monotonic_now() + delay
        self.refusal = why
        log.error(
            "cannot start a child", role=Role(slot.role).name.lower(), slot=slot.number, why=why, again_in_s=delay
        )
