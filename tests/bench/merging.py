"""ksmd, the kernel's thread that merges pages with the same contents: whether it runs, when it is through, what it takes."""

import time
from collections.abc import Callable
from pathlib import Path

KSM = Path("/sys/kernel/mm/ksm")
MERGED = {"JOBPOOL_POOL__MERGE_MEMORY": "true"}
LOOK_EVERY_S, PATIENCE_S, REST_S = 5.0, 180.0, 20.0
LEAST_SCANS = 3  # the first is half a one, the second sees what has not changed since, the third merges the rest
ALIKE = 0.02  # of the size before


def runs() -> bool:
    return (KSM / "run").exists() and _number("run") == 1


def refuse_without() -> None:
    """It is the machine's: who measures does not switch it on by the way."""
    if not runs():
        raise SystemExit(
            f"ksmd does not run, so nothing would be merged. As root: echo 1 > {KSM}/run; afterwards, to end it and to "
            f"part what it has merged: echo 2 > {KSM}/run; echo 0 > {KSM}/run"
        )


def let_settle(size: Callable[[], float], least_s: float) -> None:
    """Wait until ksmd has been through all and the size stays; print what it took, until then and at rest after."""
    began, spent, scans = time.monotonic(), _cpu_s(), _number("full_scans")
    time.sleep(least_s)
    before, now = 0.0, size()
    while _number("full_scans") < scans + LEAST_SCANS or abs(now - before) > ALIKE * before:
        if time.monotonic() - began > PATIENCE_S:
            print("not settled: ksmd has too much to look at, or too few pages_to_scan", flush=True)
            break
        time.sleep(LOOK_EVERY_S)
        before, now = now, size()
    took, worked = time.monotonic() - began, _cpu_s() - spent
    time.sleep(REST_S)
    at_rest = _cpu_s() - spent - worked
    print(
        f"merged after {took:.0f} s at pages_to_scan {_number('pages_to_scan')}: CPU of ksmd {worked:.2f} s, then {at_rest:.2f} s "
        f"in {REST_S:.0f} s",
        flush=True,
    )


def _cpu_s() -> float:
    """By the scheduler's clock; 0 where the thread is not to be seen, as in a container."""
    names = (process for process in Path("/proc").glob("[0-9]*/comm") if process.read_text() == "ksmd\n")
    return sum(int((name.parent / "schedstat").read_text().split()[0]) for name in names) / 1e9


def _number(name: str) -> int:
    return int((KSM / name).read_text())
