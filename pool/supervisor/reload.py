"""Two plans compared: what a reload has to do. Pure."""

from dataclasses import dataclass, field, replace

from pool.board.record import Role
from pool.seat import ChildSpec
from pool.supervisor.children import GroupKey
from pool.supervisor.planned import Plan


@dataclass(frozen=True, slots=True)
class Changes:
    """`counts`: groups whose number changed in the file, with the new one; `replaced`: groups whose processes are out of
    date; `removed`: groups that are planned no more. `words` says it for the log and /status.
    """

    counts: dict[GroupKey, int] = field(default_factory=dict)
    added: tuple[ChildSpec, ...] = ()
    replaced: tuple[GroupKey, ...] = ()
    removed: tuple[GroupKey, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return (
            *(f"{key[1]}: count {count}" for key, count in self.counts.items()),
            *(f"{spec.group}: new" for spec in self.added),
            *(f"{key[1]}: changed" for key in self.replaced),
            *(f"{key[1]}: removed" for key in self.removed),
        )


def key_of(spec: ChildSpec) -> GroupKey:
    return (spec.role, spec.group)


def difference(before: Plan, now: Plan, *, rolling: bool = False) -> Changes:
    """What separates the plan in force from the new one. `rolling`: the code is new, whatever the file says."""
    old = {key_of(spec): spec for spec in before.specs}
    new = {key_of(spec): spec for spec in now.specs}
    kept = [key for key in new if key in old]
    return Changes(
        counts={key: count_in(now, new[key]) for key in kept if count_in(before, old[key]) != count_in(now, new[key])},
        added=tuple(spec for key, spec in new.items() if key not in old),
        replaced=tuple(key for key in kept if _is_outdated(old[key], new[key], rolling)),
        removed=tuple(key for key in old if key not in new),
    )


def count_in(plan: Plan, spec: ChildSpec) -> int:
    """The number the file asks for; where it says nothing, what flag or default say."""
    return plan.file_counts.get(spec.group, spec.count) if spec.role == Role.WORKER else spec.count


def source_in(plan: Plan, spec: ChildSpec) -> str:
    """Where the plan's count of a group comes from, for people."""
    return plan.count_sources.get(spec.group, "file")


def spec_in(plan: Plan, key: GroupKey) -> ChildSpec:
    """The plan's spec of a group that it has."""
    return next(spec for spec in plan.specs if key_of(spec) == key)


def adopt(before: Plan, now: Plan) -> Plan:
    """The new plan under the identity and in the directories of the running pool."""
    return replace(now, pool=before.pool, runtime_dir=before.runtime_dir, state_dir=before.state_dir)


def what_forbids(now: Plan, board_lanes: int) -> str:
    """The sentence for a plan that the running supervisor cannot take; empty when it can."""
    for spec in now.specs:
        if spec.lanes > board_lanes:
            return (
                f"group {spec.group} would have {spec.lanes} lanes (concurrency, or 1 and claims_ahead), more than the "
                f"{board_lanes} lanes reserved at the start: start jobpool again to raise it"
            )
    return ""


def _is_outdated(old: ChildSpec, new: ChildSpec, rolling: bool) -> bool:
    return old.fingerprint != new.fingerprint or (rolling and new.role in (Role.WORKER, Role.WEB))
