"""Stopping: in order, at the deadline, at once, and at any moment of a young life."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.helpers.house import House
from tests.helpers.servers import running
from tests.supervisor.stage import children_of

OpenHouse = Callable[..., House]


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize("to_all", [False, True], ids=["the parent alone", "everybody, as a terminal does"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_running_jobs_finish_pending_ones_stay_and_nothing_starts(
    open_house: OpenHouse, number: int, to_all: bool
) -> None:
    house = open_house(workers=4)
    running = house.enqueue_many([("tasks.hold", {"gate": "a"})] * 4)
    for job in running:
        house.wait_for_worker_of(job)
    pending = house.enqueue_many([("tasks.quick", {})] * 100)

    (house.send_signal_to_all if to_all else house.send_signal)(number)
    house.wait_for(lambda: {worker.state for worker in house.workers()} == {"retiring"}, "all told to leave")
    house.release("a")

    assert house.wait_exit() == 0
    assert [house.job(job).status.value for job in running] == ["completed"] * 4
    assert [len(house.runs(job)) for job in running] == [1] * 4
    assert house.counts()["pending"] == 100
    assert [house.runs(job) for job in pending] == [[]] * 100
    assert not house.socket.exists()


def test_at_the_deadline_a_job_goes_back_free_and_an_at_most_once_job_is_failed(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    house.stop()
    house.config_file.write_text(house.config_file.read_text().replace("[app]", "stop_timeout = 2\n[app]", 1))
    house.start()
    job, once = house.enqueue("tasks.hold"), house.enqueue("tasks.hold_once")
    house.wait_for_worker_of(job)
    house.wait_for_worker_of(once)

    told_at = boottime()
    assert house.stop() == 0

    assert 1.5 < boottime() - told_at < 25  # the timeout is 30 s by default
    back, ended = house.job(job), house.job(once)
    assert (back.status.value, back.retry_count, back.kill_count) == ("pending", 0, 0)
    assert (ended.status.value, ended.reason) == ("failed", "interrupted")
    assert back.attempts[-1].cause is not None
    assert back.attempts[-1].cause.reason == "interrupted"
    assert house.pids() == []


def test_a_second_term_changes_nothing_and_quit_kills_now(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    job = house.enqueue("tasks.hold")
    house.wait_for_worker_of(job)

    house.send_signal(signal.SIGTERM)
    house.wait_for(lambda: house.status()["pool"]["state"] == "stopping", "stopping")
    house.send_signal(signal.SIGTERM)
    time.sleep(0.5)  # the time in which a wrong second TERM would kill
    assert house.is_running
    house.send_signal(signal.SIGQUIT)

    assert house.wait_exit(25) == 0  # its job would have 30 s
    back = house.job(job)
    assert (back.status.value, back.retry_count) == ("pending", 0)


def test_a_second_interrupt_kills_now_but_one_key_press_does_not_count_twice(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    job = house.enqueue("tasks.hold")
    house.wait_for_worker_of(job)

    house.send_signal(signal.SIGINT)
    house.send_signal(signal.SIGINT)
    house.wait_for(lambda: house.status()["pool"]["state"] == "stopping", "stopping")
    time.sleep(1)  # more than the half second within which a repetition is one wish
    assert house.is_running
    house.send_signal(signal.SIGINT)

    assert house.wait_exit(25) == 0  # its job would have 30 s
    assert house.job(job).status.value == "pending"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_repeated_to_the_last_moment_changes_no_exit_code(open_house: OpenHouse, number: int) -> None:
    """After the loop has ended, too: the interpreter needs a while to leave."""
    house = open_house(workers=2)
    house.send_signal(signal.SIGTERM)
    while house.is_running:
        house.send_signal(number)
        time.sleep(0.002)
    assert house.wait_exit() == 0


@pytest.mark.serial
@pytest.mark.parametrize("part", range(5))
def test_a_term_in_the_first_second_leaves_nothing_behind(open_house: OpenHouse, part: int) -> None:
    """50 moments in all, ten a part."""
    house = open_house(workers=3, start=False)
    for n in range(10):
        said_before = house.log_text()
        house.start(wait=False)
        time.sleep((part * 10 + n) * 0.02)
        told_at = boottime()
        with contextlib.suppress(ProcessLookupError):
            house.send_signal(signal.SIGTERM)
        code = house.wait_exit()
        took = boottime() - told_at
        # Before Python has our handlers, the kernel's default is the only possible answer.
        assert code == 0 or (code == -signal.SIGTERM and house.log_text() == said_before)
        assert took < 20  # 3 on a machine that has nothing else to do; who waits in vain waits 30
        house.wait_for(lambda: house.pids() == [], "nobody left", within=20)
        assert not house.socket.exists()


def test_rounds_of_sudden_stops_lose_no_job(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    jobs = []
    for n in range(8):
        jobs += house.enqueue_many([("tasks.nap", {"seconds": 0.005})] * 20)
        time.sleep(n * 0.04)
        assert house.stop() == 0
        assert house.counts()["running"] == 0
        house.start()
    for job in jobs:
        house.wait_until(job, "completed")
    assert all(house.job(job).retry_count == 0 for job in jobs)


def test_the_supervisor_killed_lets_jobs_finish_and_the_next_start_takes_over(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    working, waiting = house.enqueue("tasks.hold", {"gate": "a"}), house.enqueue("tasks.hold", {"gate": "b"})
    holder = house.wait_for_worker_of(working)
    house.wait_for_worker_of(waiting)
    third = house.enqueue("tasks.quick")

    os.kill(house.pid, signal.SIGKILL)
    house.wait_exit()
    time.sleep(0.5)  # orphans that would claim have had the time to
    assert house.runs(third) == []
    house.start()
    house.wait_until(third, "completed")

    assert [run.pid for run in house.runs(working)] == [holder.pid]  # not robbed
    house.release("a")
    done = house.wait_until(working, "completed")
    assert done.retry_count == 0
    house.release("b")
    house.wait_until(waiting, "completed")
    assert [len(house.runs(job)) for job in (working, waiting)] == [1, 1]


def test_everybody_killed_at_once_costs_no_retry_and_the_next_start_recovers_at_once(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    job, once = house.enqueue("tasks.hold", {"gate": "a"}), house.enqueue("tasks.hold_once", {"gate": "a"})
    first = house.wait_for_worker_of(job)
    house.wait_for_worker_of(once)

    house.send_signal_to_all(signal.SIGKILL)
    house.wait_exit()
    house.wait_for(lambda: house.pids() == [], "nobody left")
    house.start()
    house.wait_for_worker_of(job, other_than=first, within=40)  # a lease is 60 s

    house.release("a")
    assert house.wait_until(job, "completed").retry_count == 0
    assert house.wait_until(once, "failed").reason == "worker_lost"
    assert len(house.runs(once)) == 1


@pytest.mark.parametrize("accident", [signal.SIGSTOP, signal.SIGKILL], ids=["hangs", "dies again and again"])
def test_what_no_keeper_lived_to_tell_at_a_stop_is_told_by_the_next_start(open_house: OpenHouse, accident: int) -> None:
    """The supervisor writes it down itself; else the next start would count it as a lost worker, or wait for the lease."""
    with running("valkey") as server:
        house = open_house(workers=2, backend=server.url, start=False)
        house.config_file.write_text(house.config_file.read_text().replace("[app]", "stop_timeout = 1\n[app]", 1))
        house.start()
        job, once = house.enqueue("tasks.hold", {"gate": "a"}), house.enqueue("tasks.hold_once")
        first = house.wait_for_worker_of(job)
        house.wait_for_worker_of(once)

        with every_keeper_gets(house, accident):
            assert house.stop() == 0
        assert [house.job(one).status.value for one in (job, once)] == ["running"] * 2
        assert "deaths kept on disk for the next start" in house.log_text()
        house.start()

        house.wait_for_worker_of(job, other_than=first, within=40)  # a lease is 60 s
        back, ended = house.job(job), house.wait_until(once, "failed")
        assert (back.retry_count, back.kill_count) == (0, 0)
        assert ended.reason == "interrupted"
        assert back.attempts[0].cause is not None
        assert back.attempts[0].cause.text == "stopped at the deadline of a shutdown or reload"
        house.wait_for(
            lambda: not list((house.folder / "state").glob("spool/*/departures/*")), "the file told and gone"
        )


@contextlib.contextmanager
def every_keeper_gets(house: House, number: int) -> Iterator[None]:
    """This signal, and every later one too as soon as it is forked, until the end. For the time of a stop: no other children
    are born then."""
    is_over, others = threading.Event(), house.worker_pids()

    def send() -> None:
        while not is_over.wait(0.002):
            for pid in children_of(house.pid) - others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
