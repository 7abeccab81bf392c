"""Burying the dead: one step per child from zombie to death note, so that no pid in the register is ever a stranger's."""

import os
import signal
from dataclasses import dataclass
from enum import Enum, auto

from pool.board.lanes import NO_JOB
from pool.board.record import Ordered, Role
from pool.cleaning import clean
from pool.identity import WorkerId
from pool.logs import log
from pool.supervisor.children import Child, LastExit, Slot
from pool.supervisor.deaths import Ending, kill_group, last_exit_of, next_zombie, note_of, read_stack, reap
from pool.supervisor.descendants import kill_kin, strays_of
from pool.supervisor.house import House
from pool.supervisor.oom import OomCounter

# A host that keeps giving us orphans to reap must not keep us from everything else.
MOST_PER_TURN = 256


class Place(Enum):
    """What the dead was to its slot."""

    CHILD = auto()
    HEIR = auto()
    LEAVER = auto()


@dataclass(frozen=True, slots=True)
class Loss:
    """A child that is gone. `held`: ids of the jobs it held at its end; `started`: those of them that had begun."""

    child: Child
    slot: Slot
    place: Place
    exit: LastExit
    held: tuple[str, ...]
    started: tuple[str, ...]


class Funerals:
    """Looks for zombies, buries ours, reaps strangers (we may be PID 1, and orphans below us come to us) quietly."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._oom = OomCounter()
        self._unsettled: list[Child] = []

    def bury_the_dead(self) -> tuple[list[Loss], bool]:
        """Those that are gone now, and whether there may be more."""
        losses: list[Loss] = []
        for _ in range(MOST_PER_TURN):
            zombie = next_zombie()
            if zombie is None:
                break
            pid, ending = zombie
            child = self._house.children.by_pid(pid)
            if child is not None:
                losses.append(self._bury(child, ending))
            reap(pid)
        self._end_strays([loss.child for loss in losses if not loss.exit.planned or loss.child.ordered])
        for loss in losses:
            _report(loss)
        return losses, zombie is not None

    def free_settled_records(self) -> None:
        """The keeper has told the store: these records may be used again."""
        self._oom.look()
        waiting = []
        for child in self._unsettled:
            if is_settled(child):
                child.is_settled = True
                child.record.vacate()
            else:
                waiting.append(child)
        self._unsettled = waiting

    @property
    def all_are_settled(self) -> bool:
        """Whether no record of a dead worker waits for the keeper."""
        return not self._unsettled

    def unsettled(self) -> list[Child]:
        """Dead workers that may have claimed and of which the store does not know yet."""
        return [child for child in self._unsettled if child.record.note.read().was_ready and not is_settled(child)]

    def _bury(self, child: Child, ending: Ending) -> Loss:
        """Nothing stands between the look and the note that the note does not need: a job waits for it."""
        kill_group(child.pid)
        place = self._place_of(child)
        slot = self._house.children.gone(child)
        exit = self._exit_of(child, ending)
        self._leave_note(child, ending, exit)
        self._house.executions.forget(child)
        os.close(child.stack_fd)
        return Loss(child, slot, place, exit, *_jobs_of(child))

    def _place_of(self, child: Child) -> Place:
        slot = self._house.children.slot_of(child)
        if slot.child is child:
            return Place.CHILD
        return Place.HEIR if slot.heir is child else Place.LEAVER

    def _exit_of(self, child: Child, ending: Ending) -> LastExit:
        was_strange = ending.signal == signal.SIGKILL and child.ordered == Ordered.NONE
        return last_exit_of(child, ending, oom=was_strange and self._oom.explains_a_death())

    def _leave_note(self, child: Child, ending: Ending, exit: LastExit) -> None:
        if child.role != Role.WORKER:
            child.record.vacate()
            return
        if child.ordered not in (Ordered.NONE, Ordered.STOP, Ordered.BOOT):
            child.record.stack.write(clean(read_stack(child).decode(errors="replace")).encode()[:4080])
        child.record.note.write(*note_of(child, ending, exit))
        self._unsettled.append(child)
        self._house.premises.wake_keeper()

    def _end_strays(self, dead: list[Child]) -> None:
        if not dead:
            return
        workers = [str(WorkerId(self._house.plan.pool, child.slot, child.generation)) for child in dead]
        living = [child.pid for child in self._house.children.living()]
        killed = kill_kin(strays_of(workers, os.getpid(), living))
        if killed:
            slots = [child.slot for child in dead]
            log.warning("killed what dead workers had left behind", slots=slots, processes=killed)


def is_settled(child: Child) -> bool:
    """Whether the keeper has marked this very process done."""
    if child.is_settled:
        return True
    done = child.record.done.read()
    return done.pid == child.pid and done.generation == child.generation


def _jobs_of(child: Child) -> tuple[tuple[str, ...], tuple[str, ...]]:
    held = child.record.held_lanes()
    started = child.record.started_claims()
    ids = {lane: state.job_id for lane, state in held.items() if state.job != NO_JOB}
    return tuple(ids.values()), tuple(job for lane, job in ids.items() if lane in started)


def _report(loss: Loss) -> None:
    child, exit = loss.child, loss.exit
    facts = {"role": child.role.name.lower(), "slot": child.slot, "pid": child.pid, "lived_s": round(exit.lived_s, 3)}
    jobs = {"jobs": list(loss.held)} if loss.held else {}
    if exit.planned and (child.ordered == Ordered.NONE or child.is_succeeded):
        log.info("child left", **facts, why=child.leaving_why or exit.announced.name.lower(), **jobs)
    elif exit.planned:
        log.warning("child killed", **facts, why=child.leaving_why or None, **jobs)
    else:
        # Its remark it has logged itself; here its last line must do, or a crash loop would fill the disk.
        log.error("child died", **facts, how=exit.sentence, remark=exit.last_line or None, **jobs)
