"""Identities: written and read back, never reused, and a process told from a later one with its pid."""

import os
import signal
from dataclasses import replace

import pytest

from pool.identity import (
    NAME_PATTERN,
    LaneId,
    PoolId,
    WorkerId,
    boot_id,
    host_name,
    new_pool_id,
    parse_lane,
    pid_namespace,
    process_mark,
)
from tests.helpers.until import until

POOL = PoolId("shop", "web-1.example.org", "a1b2c3d4e5f6")


@pytest.mark.parametrize(("slot", "generation", "lane"), [(0, 1, 0), (7, 1234, 255), (1999, 2**40, 3)])
def test_a_lane_is_read_back_from_its_text(slot: int, generation: int, lane: int) -> None:
    lane_id = LaneId(WorkerId(POOL, slot, generation), lane)
    assert parse_lane(str(lane_id)) == lane_id
    assert parse_lane(str(lane_id.worker)) == LaneId(lane_id.worker, 0)


def test_a_lane_reads_well() -> None:
    assert str(LaneId(WorkerId(POOL, 3, 2), 1)) == "shop@web-1.example.org#a1b2c3d4e5f6/3.2/1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "shop",
        "shop@h",
        "shop@h#i",
        "shop@h#i/3",
        "shop@h#i/3.",
        "@h#i/3.1",
        "shop@h#i/a.1",
        "s@h#i/3.1/",
        "s@h#i/-1.1",
    ],
)
def test_other_texts_are_no_lane(text: str) -> None:
    with pytest.raises(ValueError, match="not a lane"):
        parse_lane(text)


def test_each_start_of_a_pool_is_another_life() -> None:
    pools = [new_pool_id("shop") for _ in range(1_000)]
    assert len(set(pools)) == 1_000
    assert {(pool.name, pool.host) for pool in pools} == {("shop", host_name())}


def test_the_host_name_is_a_name() -> None:
    assert NAME_PATTERN.fullmatch(host_name())


def test_a_new_pools_lane_is_read_back_on_this_host() -> None:
    lane = LaneId(WorkerId(new_pool_id("a.b_c-d"), 0, 1))
    assert parse_lane(str(lane)) == lane


# ---------------------------------------------------------------- marks of processes


def test_we_are_alive() -> None:
    mark = process_mark()
    assert (mark.pid, mark.boot_id, mark.pid_namespace) == (os.getpid(), boot_id(), pid_namespace())
    assert mark.is_comparable() and mark.is_alive()
    assert process_mark() == mark


def test_a_later_process_with_the_same_pid_is_another() -> None:
    assert not replace(process_mark(), start_ticks=1).is_alive()


def test_a_process_of_another_boot_or_namespace_counts_as_alive() -> None:
    for elsewhere in (
        replace(process_mark(), start_ticks=1, boot_id="another boot"),
        replace(process_mark(), start_ticks=1, pid_namespace=1),
    ):
        assert not elsewhere.is_comparable()
        assert elsewhere.is_alive()


def test_a_child_lives_is_a_zombie_and_is_gone() -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
    mark = process_mark(pid)
    assert mark.is_alive()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not mark.is_alive(), "the death to show")  # a zombie: nobody has waited for it yet
    os.waitpid(pid, 0)
    assert not mark.is_alive()
    with pytest.raises(FileNotFoundError):
        process_mark(pid)


def test_a_stopped_process_is_alive() -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
    mark = process_mark(pid)
    os.kill(pid, signal.SIGSTOP)
    assert mark.is_alive()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
