"""What the pool as a whole is: started or not, lost or not, ready or degraded. Questions only."""

from pool.board.record import Role
from pool.supervisor.children import Children, Slot, Stage


def wanted_slots(children: Children) -> list[Slot]:
    return [slot for slot in children.slots.values() if slot.wanted]


def working_slots(children: Children) -> list[Slot]:
    """The places that the pool is for: those of workers, or all where there are none."""
    return children.workers() or wanted_slots(children)


def has_started(children: Children) -> bool:
    """Whether every place is ready or has failed once, and at least one that works is ready."""
    settled = all(slot.is_ready or slot.is_done or slot.failures for slot in wanted_slots(children))
    return settled and any(slot.was_ever_ready for slot in working_slots(children))


def cannot_start(children: Children) -> bool:
    """Whether every working place has failed to boot before any was ready."""
    slots = working_slots(children)
    return bool(slots) and all(slot.boot_failures and not slot.was_ever_ready for slot in slots)


def why_it_cannot_start(children: Children) -> str:
    """The first child's own words, or how it ended."""
    exits = [slot.last_exit for slot in working_slots(children) if slot.last_exit is not None]
    said = next((exit.remark for exit in exits if exit.remark), "")
    return said or (f"the first worker ended with {exits[0].sentence}" if exits else "no child could be started")


def burst_is_done(children: Children) -> bool:
    """Whether every worker has found nothing left to do."""
    workers = children.workers()
    return bool(workers) and all(slot.is_done for slot in workers)


def had_deaths(children: Children) -> bool:
    return any(slot.restarts for slot in children.workers())


def is_draining(children: Children) -> bool:
    groups = [group for group in children.groups.values() if group.spec.role == Role.WORKER]
    return bool(groups) and all(group.draining for group in groups)


def is_degraded(children: Children) -> bool:
    """Whether a place is empty against our will, or its new child has yet to prove itself."""
    return any(_is_failing(slot) for slot in wanted_slots(children))


def _is_failing(slot: Slot) -> bool:
    is_lacking = slot.child is None or slot.child.stage is Stage.BORN
    return bool(slot.failures) and is_lacking and not slot.is_done


def parked_sentences(children: Children) -> list[str]:
    return [f"slot {slot.number} is parked: {slot.parked_why}" for slot in children.slots.values() if slot.is_parked]
