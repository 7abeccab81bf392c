"""Rules of `doctor` about the systemd unit and the limits that it sets, and what a finding is. Pure, no I/O."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pool.cli.doctor_facts import Facts
from pool.cli.output import duration, size

Level = Literal["ok", "note", "warning", "error"]
STOP_MARGIN_S = 10.0
DESCRIPTORS_PER_CHILD, DESCRIPTORS_BESIDES = 4, 256
TASKS_PER_CHILD, TASKS_BESIDES = 4, 100
MEMORY_BESIDES = 100_000_000
UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule found: `remedy` is a command to type or a line to write, empty when all is well."""

    level: Level
    check: str
    says: str
    remedy: str = ""


Findings = Iterator[Finding]
Rule = Callable[[Facts], Findings]


# ---------------------------------------------------------------- the unit


def _unit_is_there(facts: Facts) -> Findings:
    if facts.unit is None:
        yield Finding(
            "note",
            "unit",
            f"there is no unit {facts.unit_name} here; its settings are not checked",
            "name it with --unit NAME or --unit FILE, or install systemd/jobpool.service",
        )


def _stop_timeout(facts: Facts) -> Findings:
    """systemd kills everything after TimeoutStopSec: the pool must be through with its own deadline before that."""
    if facts.unit is None:
        return
    config = facts.loaded.config
    deadline = max(config.pool.stop_timeout, *(group.stop_timeout or 0 for group in config.groups), 0)
    given = _seconds(facts.unit.get("TimeoutStopSec", facts.unit.get("TimeoutSec", "90s")))
    if given < deadline + STOP_MARGIN_S:
        says = (
            f"TimeoutStopSec is {duration(given)}, but the workers have {duration(deadline)} to finish (stop_timeout)"
        )
        yield _unit_error(facts, "TimeoutStopSec", says, f"TimeoutStopSec={deadline + 15:.0f}s")
    else:
        yield Finding("ok", "TimeoutStopSec", f"{_words(given)}, above the workers' {duration(deadline)}")


def _kill_mode(facts: Facts) -> Findings:
    if facts.unit is None:
        return
    mode = facts.unit.get("KillMode", "control-group")
    if mode == "mixed":
        yield Finding("ok", "KillMode", "mixed: the supervisor alone is asked to stop")
    elif mode in ("process", "none"):
        yield _unit_error(facts, "KillMode", f"KillMode={mode} leaves workers running after a stop", "KillMode=mixed")
    else:
        says = f"KillMode={mode} sends TERM to the children of jobs too, behind the supervisor's back"
        yield _unit_warning(facts, "KillMode", says, "KillMode=mixed")


def _notify(facts: Facts) -> Findings:
    if facts.unit is None:
        return
    kind = facts.unit.get("Type", "simple")
    if kind not in ("notify", "notify-reload"):
        says = f"Type={kind}: systemd does not learn when the pool is ready, nor that it hangs"
        yield _unit_error(facts, "Type", says, "Type=notify")
    elif "WatchdogSec" not in facts.unit:
        yield _unit_warning(facts, "WatchdogSec", "a supervisor that hangs is not noticed", "WatchdogSec=30s")
    else:
        yield Finding("ok", "Type", f"{kind}, watched every {facts.unit['WatchdogSec']}")


def _restarts(facts: Facts) -> Findings:
    if facts.unit is None:
        return
    if facts.unit.get("Restart", "no") == "no":
        yield _unit_warning(facts, "Restart", "a pool that was killed stays down", "Restart=on-failure")
    if "78" not in facts.unit.get("RestartPreventExitStatus", ""):
        says = "a configuration that cannot be used is tried again and again"
        yield _unit_warning(facts, "RestartPreventExitStatus", says, "RestartPreventExitStatus=78")
    if facts.unit.get("OOMPolicy") != "continue":
        says = "one worker killed for its memory stops the whole pool"
        yield _unit_warning(facts, "OOMPolicy", says, "OOMPolicy=continue")


def _memory(facts: Facts) -> Findings:
    """All workers at their ceilings must fit into what the service, and the machine, has."""
    config = facts.loaded.config
    groups = (config.workers, *config.groups)
    promised = sum((group.count_max or group.count) * (group.memory_kill or group.memory_limit) for group in groups)
    allowed = _bytes((facts.unit or {}).get("MemoryMax", "infinity"), facts.memory_bytes)
    words = f"workers at their ceilings may need {size(promised)}"
    if promised and promised + MEMORY_BESIDES > allowed:
        says = f"{words}, but MemoryMax is {size(allowed)}: the kernel would kill in mid-job"
        yield _unit_error(facts, "MemoryMax", says, f"MemoryMax={(promised + MEMORY_BESIDES) // 1_000_000 + 1}M")
    elif facts.memory_bytes and promised > facts.memory_bytes:
        yield Finding(
            "warning", "memory", f"{words}, the machine has {size(facts.memory_bytes)}",
            "lower memory_limit or count under [workers]",
        )  # fmt: skip
    elif promised:
        yield Finding("ok", "memory", f"{words}, which fits")


# ---------------------------------------------------------------- limits of the process


def _descriptors(facts: Facts) -> Findings:
    have = facts.limits.get("open files")
    need = DESCRIPTORS_BESIDES + DESCRIPTORS_PER_CHILD * _children(facts)
    if have is None:
        return
    if have < need:
        remedy = _drop_in(facts, f"LimitNOFILE={max(need, 16384)}")
        yield Finding("error", "open files", f"the limit is {have:,}, this many workers need {need:,}", remedy)
    else:
        yield Finding("ok", "open files", f"the limit is {have:,}, {need:,} are needed")


def _tasks(facts: Facts) -> Findings:
    given = (facts.unit or {}).get("TasksMax", "infinity")
    need = TASKS_BESIDES + TASKS_PER_CHILD * _children(facts)
    if given.isdigit() and int(given) < need:
        says = f"TasksMax={given} is too small for this many workers and what their jobs start"
        yield _unit_warning(facts, "TasksMax", says, f"TasksMax={need}")


UNIT_RULES: tuple[Rule, ...] = (
    _unit_is_there, _stop_timeout, _kill_mode, _notify, _restarts, _memory, _descriptors, _tasks
)  # fmt: skip


# ---------------------------------------------------------------- small things


def _children(facts: Facts) -> int:
    config = facts.loaded.config
    return 2 + sum(group.count_max or group.count for group in (config.workers, *config.groups))


def _drop_in(facts: Facts, line: str) -> str:
    return f"systemctl edit {facts.unit_name}, write [Service] {line}, then: systemctl restart {facts.unit_name}"


def _unit_error(facts: Facts, check: str, says: str, line: str) -> Finding:
    return Finding("error", check, says, _drop_in(facts, line))


def _unit_warning(facts: Facts, check: str, says: str, line: str) -> Finding:
    return Finding("warning", check, says, _drop_in(facts, line))


def _words(seconds: float) -> str:
    return "infinity" if seconds == UNLIMITED else duration(seconds)


def _seconds(text: str) -> float:
    """A time span of systemd: "45", "45s", "1min 30s", "infinity"."""
    if text in ("infinity", "0"):
        return UNLIMITED
    units = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hr": 3600, "d": 86_400, "": 1}
    parts = re.findall(r"([\d.]+)\s*([a-z]*)", text)
    return sum(float(number) * units.get(unit, 1) for number, unit in parts)


def _bytes(text: str, machine: int | None) -> float:
    """A size of systemd: bytes, K, M, G (powers of 1024), percent of the machine, infinity."""
    found = re.fullmatch(r"([\d.]+)([KMGT%]?)B?", text.strip())
    if found is None:
        return UNLIMITED
    number, unit = float(found[1]), found[2]
    if unit == "%":
        return machine * number / 100 if machine else UNLIMITED
    return number * 1024.0 ** " KMGT".index(unit or " ")
