"""The look at the board, at most once a second: overdue jobs, silence, memory. It decides; executions act."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pool.board.lanes import Lane, Phase
from pool.board.record import Ordered, Process, Role, State
from pool.logs import log
from pool.seat import ChildSpec
from pool.supervisor.children import Child, Stage
from pool.supervisor.house import House
from pool.supervisor.memory import Size, ceiling_below_fresh, exact_bytes, judge, rss_bytes, shared_bytes, size_of
from pool.supervisor.silence import Silence, silence_of

HeldClaim = tuple[bytes, int]  # the job and its claim number, which alone says nothing: most jobs are claimed once


class Inspection:
    """Looks over every child that was ready."""

    def __init__(self, house: House, now: float) -> None:
        self._house = house
        self._quiet_since = now
        self._measured_at: dict[int, float] = {}
        self.next_hard_deadline: float | None = None

    def start_anew(self, now: float) -> None:
        """We were away ourselves: nobody's silence before now means anything."""
        self._quiet_since = now

    def look(self, now: float) -> None:
        self.next_hard_deadline = None
        living = [child for child in self._house.children.living() if child.was_ready]
        for child in living:
            lanes = [cells.state.read() for cells in child.record.lanes_in_use()]
            process = child.record.process.read()
            self._look_at_deadlines(child, lanes, now)
            self._look_at_silence(child, process, lanes, now)
            self._look_at_memory(child, process, lanes, now)
            self._look_at_leaver(child, process, lanes, now)
        self._measured_at = {child.pid: self._measured_at.get(child.pid, 0.0) for child in living}

    # ------------------------------------------------------------------ timeouts

    def _look_at_deadlines(self, child: Child, lanes: list[Lane], now: float) -> None:
        deadlines = {n: lane for n, lane in enumerate(lanes) if lane.phase == Phase.STARTED and lane.hard_deadline}
        overdue = {n: held_claim(lane) for n, lane in deadlines.items() if lane.hard_deadline <= now}
        if overdue:
            self._house.executions.order(child, Ordered.TIMEOUT, still_overdue(child, overdue))
            return
        nearest = min((lane.hard_deadline for lane in deadlines.values()), default=None)
        if nearest is not None:
            self.next_hard_deadline = min(nearest, self.next_hard_deadline or nearest)

    # ------------------------------------------------------------------ silence

    def _look_at_silence(self, child: Child, process: Process, lanes: list[Lane], now: float) -> None:
        silence = silence_of(
            child.role, process, lanes, timeout=child.spec.silence_timeout, now=now, since=self._quiet_since
        )
        if silence is Silence.NONE or (silence is Silence.SILENT_IF_STOPPED and not is_stopped(child.pid)):
            return
        last_sign = process.alive_at
        if self._house.executions.order(
            child, Ordered.SILENT, lambda: child.record.process.read().alive_at == last_sign
        ):
            log.error("child shows no sign of life", slot=child.slot, pid=child.pid, since_s=round(now - last_sign, 1))

    # ------------------------------------------------------------------ memory (the soft ceiling of pss and uss is the worker's own matter)

    def _look_at_memory(self, child: Child, process: Process, lanes: list[Lane], now: float) -> None:
        rule = self._spec_in_force(child).memory
        if child.role != Role.WORKER or now - self._measured_at.get(child.pid, 0.0) < rule.check_seconds:
            return
        self._measured_at[child.pid] = now
        is_idle = process.state == State.IDLE and not any(lane.phase for lane in lanes)
        # An idle worker has measured itself when it last woke; asking the kernel again would cost as much as all the rest.
        rss = process.rss_bytes if rule.metric == "rss" and is_idle and process.rss_bytes else rss_bytes(child.pid)
        child.shared_bytes = shared_bytes(rss, process, child.shared_bytes)
        child.memory_bytes = size_of(rss, process, rule, child.shared_bytes)
        self._learn_fresh_size(child, process, lanes)
        if ceiling_below_fresh(child.fresh_bytes, rule):
            return
        started = {n: held_claim(lane) for n, lane in enumerate(lanes) if lane.phase == Phase.STARTED}
        size = judge(child.memory_bytes, rule, runs_user_code=bool(started))
        if size is Size.ABOVE_KILL:
            self._order_memory_kill(child, started)
        elif size is Size.ABOVE_LIMIT and rule.metric == "rss" and child.stage is Stage.READY and not child.replace_why:
            child.replace_why = "memory"
            log.info("worker is above its memory limit", slot=child.slot, bytes=child.memory_bytes)

    def _order_memory_kill(self, child: Child, started: Mapping[int, HeldClaim]) -> None:
        still_runs = still_started(child, started)

        def is_still_due() -> bool:
            rule = self._spec_in_force(child).memory
            if not still_runs():
                return False
            size = exact_bytes(child.pid, rule)  # it stands still now
            child.shared_bytes = max(0, rss_bytes(child.pid) - size)
            return size > rule.kill

        self._house.executions.order(child, Ordered.MEMORY, is_still_due)

    def _learn_fresh_size(self, child: Child, process: Process, lanes: list[Lane]) -> None:
        is_untouched = not (process.completed or process.failed or process.retried)
        if child.fresh_bytes or not is_untouched or any(lane.claim for lane in lanes):
            return
        child.fresh_bytes = child.memory_bytes
        topic = f"memory:{child.group}"
        sentence = ceiling_below_fresh(child.fresh_bytes, self._spec_in_force(child).memory)
        if sentence and self._house.complaints.get(topic) is None:
            log.error("memory ceiling is too low", group=child.group, why=sentence)
        if sentence:
            self._house.complaints[topic] = f"group {child.group}: {sentence}"
        else:
            self._house.complaints.pop(topic, None)

    def _spec_in_force(self, child: Child) -> ChildSpec:
        """A changed ceiling needs no new process: the group's present spec counts, not the one of the birth."""
        group = self._house.children.groups.get((child.role, child.group))
        return group.spec if group is not None else child.spec

    # ------------------------------------------------------------------ leavers

    def _look_at_leaver(self, child: Child, process: Process, lanes: list[Lane], now: float) -> None:
        """Told to leave, no job in hand, and still here: it gets its stop_timeout and no more."""
        holds = process.state == State.BUSY or any(lane.phase != Phase.NONE for lane in lanes)
        if child.was_told and not holds and child.deadline is None and not child.spec.stop_last:
            child.deadline, child.deadline_order = now + child.spec.stop_timeout, Ordered.STOP


def held_claim(lane: Lane) -> HeldClaim:
    """What an order must name."""
    return lane.job, lane.claim


def still_overdue(child: Child, claims: Mapping[int, HeldClaim]) -> Callable[[], bool]:
    """Whether one of these claims still runs and still has its deadline (a result in hand has none)."""

    def check() -> bool:
        states = ((child.record.lanes[n].state.read(), claim) for n, claim in claims.items())
        return any(
            lane.phase == Phase.STARTED and held_claim(lane) == claim and lane.hard_deadline for lane, claim in states
        )

    return check


def still_started(child: Child, claims: Mapping[int, HeldClaim]) -> Callable[[], bool]:
    """Whether one of these very claims still runs."""

    def check() -> bool:
        states = ((child.record.lanes[n].state.read(), claim) for n, claim in claims.items())
        return any(lane.phase == Phase.STARTED and held_claim(lane) == claim for lane, claim in states)

    return check


def is_stopped(pid: int) -> bool:
    """Whether somebody has stopped the process (SIGSTOP, a debugger)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False
