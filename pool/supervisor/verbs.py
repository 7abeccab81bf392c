"""The commands of the status socket, one method each: check the options, do it, answer once.

200 done, 202 begun, 404 no such thing, 409 not now or failed, 422 an option is wrong.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pool.board.lanes import Phase
from pool.board.record import Ordered, Role
from pool.supervisor.children import Child, Group, Slot
from pool.supervisor.control import Reply
from pool.supervisor.deaths import ask_for_stack, read_stack, stack_size
from pool.supervisor.house import House
from pool.supervisor.inspection import HeldClaim, held_claim, still_started
from pool.supervisor.obedience import Stops
from pool.supervisor.reloading import Asker, Reloading
from pool.supervisor.scaling import MOST_WORKERS, Scaling

STACK_WITHIN_S = 1.0
LONGEST_STACK_BYTES = 256 * 1024
_POLL_S = 0.02

Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StackRequest:
    child: Child
    reply: Reply
    until: float
    bytes_seen: int = 0


class Refused(Exception):
    """A command that will not be done: its status code and the sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        self.code, self.sentence = code, sentence
        super().__init__(sentence)


class Verbs:
    """What `command` calls."""

    def __init__(self, house: House, scaling: Scaling, reloading: Reloading, stops: Stops) -> None:
        self._house, self._scaling, self._reloading, self._stops = house, scaling, reloading, stops
        self._stacks: list[StackRequest] = []
        self._verbs: dict[str, tuple[Callable[[Options, Reply, float], None], frozenset[str]]] = {
            "reload": (self._reload, frozenset({"rolling", "wait"})),
            "scale": (self._scale, frozenset({"count", "group"})),
            "drain": (self._drain, frozenset({"group"})),
            "undrain": (self._undrain, frozenset({"group"})),
            "restart": (self._restart, frozenset({"group", "slot", "wait"})),
            "stop": (self._stop, frozenset({"now"})),
            "stack": (self._stack, frozenset({"slot"})),
            "kill": (self._kill, frozenset({"job"})),
        }

    def do(self, verb: str, options: Options, reply: Reply, now: float) -> None:
        """`reply` is called once, now or turns later."""
        try:
            if verb not in self._verbs:
                raise Refused(404, f"unknown verb {verb!r}; there are {', '.join(self._verbs)}")
            act, known = self._verbs[verb]
            options = {name: value for name, value in options.items() if value is not None}
            unknown = sorted(set(options) - known)
            if unknown:
                raise Refused(422, f"{verb} has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
            if self._stops.is_stopping and verb not in ("stop", "stack", "kill"):
                raise Refused(409, "the pool is stopping")
            act(options, reply, now)
        except Refused as refused:
            reply(refused.code, {"error": refused.sentence})

    def turn(self, now: float) -> None:
        """Answer those who asked for a stack, once it is written."""
        waiting = []
        for request in self._stacks:
            if request.child.pid and self._is_gone(request.child):
                request.reply(409, {"error": "the process ended before it could write its stack"})
            elif _is_stack_written(request, now):
                request.reply(200, _stack_document(request.child))
            else:
                waiting.append(replace(request, bytes_seen=stack_size(request.child)))
        self._stacks = waiting

    def next_deadline(self, now: float) -> float | None:
        return now + _POLL_S if self._stacks else None

    # ------------------------------------------------------------------ the verbs

    def _reload(self, options: Options, reply: Reply, now: float) -> None:
        asker = Asker(reply, wait=_flag(options, "wait"))
        self._reloading.ask(rolling=_flag(options, "rolling"), asker=asker)

    def _scale(self, options: Options, reply: Reply, now: float) -> None:
        count = _number(options, "count")
        if not 0 <= count <= MOST_WORKERS:
            raise Refused(422, f"count must be between 0 and {MOST_WORKERS}, not {count}")
        group = self._group(options) or self._scaling.default_group()
        if group is None:
            raise Refused(404, "this pool has no group of workers")
        before = group.wanted
        self._scaling.set_count(group, count, "scale", now)
        reply(200, {"group": group.spec.group, "count": count, "before": before, "source": "scale"})

    def _drain(self, options: Options, reply: Reply, now: float) -> None:
        self._set_draining(options, reply, True)

    def _undrain(self, options: Options, reply: Reply, now: float) -> None:
        self._set_draining(options, reply, False)

    def _set_draining(self, options: Options, reply: Reply, draining: bool) -> None:
        one = self._group(options)
        groups = [one] if one is not None else self._worker_groups()
        for group in groups:
            self._house.write_draining(group.key, draining)
        reply(200, {"groups": [group.spec.group for group in groups], "draining": draining})

    def _restart(self, options: Options, reply: Reply, now: float) -> None:
        slots = self._slots(options)
        self._reloading.restart(slots, now, Asker(reply, wait=_flag(options, "wait")))

    def _stop(self, options: Options, reply: Reply, now: float) -> None:
        at_once = _flag(options, "now")
        reply(202, {"message": "stopping at once" if at_once else "stopping: running jobs finish first"})
        self._stops.stop(now, why="asked on the status socket", at_once=at_once)

    def _stack(self, options: Options, reply: Reply, now: float) -> None:
        child = self._slot(_number(options, "slot")).child
        if child is None or not child.was_ready:
            raise Refused(409, "no process that is ready is in this slot now")
        ask_for_stack(child)
        self._stacks.append(StackRequest(child, reply, now + STACK_WITHIN_S))

    def _kill(self, options: Options, reply: Reply, now: float) -> None:
        """Cancel by force: the worker that runs this very claim is killed, and nobody else."""
        job = options.get("job")
        if not isinstance(job, str):
            raise Refused(422, "kill needs job, the id of a running job")
        for child in self._house.children.living():
            claims = {n: held_claim(lane) for n, lane in child.record.held_lanes().items() if lane.job_id == job}
            if claims:
                self._order_cancel(child, claims, reply)
                return
        raise Refused(404, f"no worker of this pool runs job {job}")

    def _order_cancel(self, child: Child, claims: dict[int, HeldClaim], reply: Reply) -> None:
        if all(child.record.lanes[n].state.read().phase != Phase.STARTED for n in claims):
            raise Refused(409, "the job has not started; cancel it")

        def tell(was_killed: bool) -> None:
            if was_killed:
                reply(200, {"killed": True, "slot": child.slot, "pid": child.pid})
            else:
                reply(409, {"error": "the job ended by itself before it could be killed"})

        if not self._house.executions.order(child, Ordered.CANCEL, still_started(child, claims), tell):
            raise Refused(409, "its worker is being killed already")

    # ------------------------------------------------------------------ whom an option means

    def _worker_groups(self) -> list[Group]:
        return [group for group in self._house.children.groups.values() if group.spec.role == Role.WORKER]

    def _group(self, options: Options) -> Group | None:
        name = options.get("group")
        if name is None:
            return None
        group = self._scaling.group_named(str(name))
        if group is None:
            known = ", ".join(group.spec.group for group in self._worker_groups())
            raise Refused(404, f"no group {name!r}; there are {known}")
        return group

    def _slot(self, number: int) -> Slot:
        slot = self._house.children.slots.get(number)
        if slot is None:
            known = ", ".join(map(str, sorted(self._house.children.slots)))
            raise Refused(404, f"no slot {number}; there are {known}")
        return slot

    def _slots(self, options: Options) -> list[Slot]:
        if "slot" in options:
            return [self._slot(_number(options, "slot"))]
        group = self._group(options)
        return self._house.children.of_group(group.key) if group is not None else self._house.children.workers()

    def _is_gone(self, child: Child) -> bool:
        return self._house.children.by_pid(child.pid) is not child


def _flag(options: Options, name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise Refused(422, f"{name} must be true or false, not {value!r}")
    return value


def _number(options: Options, name: str) -> int:
    value = options.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(422, f"{name} must be a whole number, not {value!r}")
    return value


def _is_stack_written(request: StackRequest, now: float) -> bool:
    size = stack_size(request.child)
    return now >= request.until or (size > 0 and size == request.bytes_seen)


def _stack_document(child: Child) -> dict[str, object]:
    stack = read_stack(child, LONGEST_STACK_BYTES).decode(errors="replace")
    if not stack:
        stack = (
            f"the process wrote nothing within {STACK_WITHIN_S:g} s: it is stopped ({signal.SIGCONT.name} wakes it)\n"
        )
    return {"slot": child.slot, "pid": child.pid, "stack": stack}
