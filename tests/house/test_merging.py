"""`[pool] merge_memory`: who lets the kernel merge pages, as the kernel itself says it, from the start and after reloads."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]

KSMD = Path("/sys/kernel/mm/ksm/run")
needs_flag = pytest.mark.skipif(
    "ksm_merge_any" not in (Path("/proc/self/ksm_stat").read_text() if Path("/proc/self/ksm_stat").exists() else ""),
    reason="this kernel does not merge memory, or does not say of a process whether it may",
)
needs_ksmd = pytest.mark.skipif(
    not KSMD.exists() or KSMD.read_text().strip() != "1", reason="ksmd does not run on this machine"
)
REFUSING = """
import ctypes, errno, runpy, sys
from pool.supervisor import merging

def refuse(*words):
    ctypes.set_errno(errno.EINVAL)
    return -1

merging._prctl = refuse
sys.argv = sys.argv[3:]  # without this file, the interpreter and -m
runpy.run_module("pool", run_name="__main__", alter_sys=True)
"""


def write(house: House, merge: bool) -> None:
    house.configure(workers=2)
    text = house.config_file.read_text()
    house.config_file.write_text(text.replace("[pool]\n", f"[pool]\nmerge_memory = {str(merge).lower()}\n"))


def started(open_house: OpenHouse, *, merge: bool) -> House:
    house = open_house(start=False)
    write(house, merge)
    return house.start()


def family(house: House) -> list[int]:
    """Supervisor, keeper and workers."""
    return [house.pid, house.keeper_pid(), *house.worker_pids()]


def stat_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/ksm_stat").read_text().splitlines()
    return {name.rstrip(":"): value for name, value in (line.split() for line in lines)}


def merging(house: House) -> set[str]:
    """What the kernel says of all of them."""
    return {stat_of(pid)["ksm_merge_any"] for pid in family(house)}


@needs_flag
def test_nobody_lets_the_kernel_merge_unless_told_to(open_house: OpenHouse) -> None:
    assert merging(open_house()) == {"no"}


@needs_flag
@pytest.mark.parametrize("merge", [True, False])
def test_a_reload_replaces_all_who_were_born_before_it(open_house: OpenHouse, merge: bool) -> None:
    before, after = ("no", "yes") if merge else ("yes", "no")
    house = started(open_house, merge=not merge)
    assert merging(house) == {before}
    old = {house.keeper_pid(), *house.worker_pids()}
    write(house, merge)

    house.cli("reload", "--wait")

    assert merging(house) == {after}
    assert not old & {house.keeper_pid(), *house.worker_pids()}
    assert house.wait_until(house.enqueue("tasks.quick"), "completed")


@needs_flag
def test_a_reload_that_fails_leaves_the_supervisor_as_it_was(open_house: OpenHouse) -> None:
    house = started(open_house, merge=False)
    write(house, True)
    house.write_module("tasks", "import no_such_library\n" + APP)

    assert house.cli("reload", "--wait", check=False).returncode == 1

    assert merging(house) == {"no"}


def test_a_kernel_that_refuses_is_told_of_once_and_the_pool_works(open_house: OpenHouse) -> None:
    house = open_house(start=False, prefix=(sys.executable, "refusing.py"))
    (house.folder / "refusing.py").write_text(REFUSING)
    write(house, True)
    house.start()

    assert house.cli("reload", "--rolling", "--wait").returncode == 0

    assert house.wait_until(house.enqueue("tasks.quick"), "completed")
    said = [line for line in house.log_text().splitlines() if "merge_memory" in line]
    assert len(said) == 1
    assert "set it to false" in said[0]


@needs_flag
@needs_ksmd
def test_what_is_alike_is_merged(open_house: OpenHouse) -> None:
    house = started(open_house, merge=True)
    house.wait_for(lambda: all(int(stat_of(pid)["ksm_merging_pages"]) for pid in family(house)), "merged pages")
