"""Changing how many: by hand (`scale`, TTIN, TTOU), and by itself where count_min, count_max and target_wait are set."""

from typing import Any

from pool.board.record import Role
from pool.clock import wall_now
from pool.logs import log
from pool.seat import ChildSpec
from pool.supervisor import budget
from pool.supervisor.autoscale import Load, next_step
from pool.supervisor.children import Group, GroupKey, Slot
from pool.supervisor.house import House
from pool.supervisor.memory import ceiling_of, promised_bytes
from pool.supervisor.report import read_bulletin

MOST_WORKERS = 2000
# An older bulletin says nothing about what waits now.
NEWS_STALE_S = 10.0
LOOK_EVERY_S = 1.0


class Scaling:
    """Sets what is wanted; the loop closes the gap."""

    def __init__(self, house: House, now: float) -> None:
        self._house = house
        self._stepped_at: dict[GroupKey, float] = {}
        self._started_at, self._look_at = now, 0.0
        self._promised_bytes = 0

    def default_group(self) -> Group | None:
        """The one that TTIN, TTOU and a `scale` without a name mean: the first group of workers in the plan."""
        groups = (self._house.children.groups.get((spec.role, spec.group)) for spec in self._house.plan.specs)
        return next((group for group in groups if group is not None and group.spec.role == Role.WORKER), None)

    def group_named(self, name: str) -> Group | None:
        return self._house.children.groups.get((Role.WORKER, name))

    def set_count(self, group: Group, count: int, source: str, now: float, *, reason: str = "") -> None:
        """This many from now on: idle workers leave first, busy ones finish their job."""
        before = group.wanted
        surplus = self._house.children.want(group.spec, min(max(0, count), MOST_WORKERS), source)
        group.reason = reason
        self._house.let_go(surplus, f"{source}: {group.wanted} wanted", now)
        if group.wanted != before:
            log.info(
                "scaled", group=group.spec.group, count=group.wanted, before=before, by=source, reason=reason or None
            )

    def change_by(self, difference: int, now: float) -> None:
        """TTIN and TTOU."""
        group = self.default_group()
        if group is not None:
            self.set_count(group, group.wanted + difference, "scale", now)

    def turn(self, now: float) -> None:
        """Let the groups that scale themselves take a step."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        self.compare_with_memory()
        for group in list(self._house.children.groups.values()):
            if group.spec.target_wait is not None and not group.draining:
                self._autoscale(group, now)

    def compare_with_memory(self) -> None:
        """All ceilings together against what we may use: at the start, and when counts or ceilings have changed."""
        promised = promised_bytes(self._house.children)
        if promised == self._promised_bytes:
            return
        self._promised_bytes = promised
        allowed = budget.allowance()
        self._house.complaints.pop("memory", None)
        if allowed is not None and promised > allowed.limit_bytes:
            sentence = memory_sentence(promised, allowed)
            log.warning("memory ceilings are above what there is", why=sentence)
            if allowed.by == "cgroup":  # the machine may swap, and most workers never reach their ceiling
                self._house.complaints["memory"] = sentence

    # ------------------------------------------------------------------ by itself

    def _autoscale(self, group: Group, now: float) -> None:
        news = read_bulletin(self._house.premises.board)
        if wall_now() - float(news.get("checked_at") or 0.0) > NEWS_STALE_S:
            return
        step = next_step(group.spec, self._load_of(group, news, now))
        if step is None:
            return
        if step.count == group.wanted:
            group.reason = step.reason
            return
        self._stepped_at[group.key] = now
        self.set_count(group, step.count, "autoscale", now, reason=step.reason)

    def _load_of(self, group: Group, news: dict[str, Any], now: float) -> Load:
        slots = self._house.children.of_group(group.key)
        return Load(
            count=group.wanted,
            idle=sum(slot.is_ready and slot.child is not None and slot.child.is_idle() for slot in slots),
            oldest_wait_s=oldest_wait(news, group.spec),
            since_last_step_s=now - self._stepped_at.get(group.key, self._started_at),
            memory_left_bytes=self._memory_left(group, slots),
        )

    def _memory_left(self, group: Group, slots: list[Slot]) -> int | None:
        """Less what workers already started may still grow to: their memory is as good as taken."""
        allowed = budget.allowance()
        if allowed is None or allowed.left_bytes is None:
            return None
        sizes = [slot.child.memory_bytes for slot in slots if slot.child is not None]
        return allowed.left_bytes - sum(max(0, ceiling_of(group.spec) - size) for size in sizes)


def memory_sentence(promised: int, allowed: budget.Allowance) -> str:
    """For people: the numbers and the remedy."""
    remedy = ", or raise MemoryMax" if allowed.by == "cgroup" else ""
    return (
        f"all workers at their memory ceiling need {promised:,} bytes, but the {allowed.by} allows {allowed.limit_bytes:,}: "
        f"lower memory_limit or the count{remedy}"
    )


def oldest_wait(news: dict[str, Any], spec: ChildSpec) -> float | None:
    """How long the oldest pending job of the group's queues waits; paused queues wait on purpose."""
    waits = [
        float(queue["oldest_pending_s"])
        for queue in news.get("queues", [])
        if queue.get("oldest_pending_s") is not None
        and not queue.get("paused")
        and (queue["name"] in spec.queues or ("*" in spec.queues and queue.get("served", True)))
    ]
    return max(waits, default=None)
