"""The spine: a real pool starts, runs a job, survives a killed worker, and stops in order."""

import signal
from collections.abc import Callable

from tests.helpers.house import House

OpenHouse = Callable[..., House]


def test_a_job_is_run_by_a_worker_and_the_pool_stops_in_order(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    job = house.enqueue("tasks.quick", {"n": 7})

    done = house.wait_until(job, "completed")

    assert done.result == "7"
    assert len(house.runs(job)) == 1
    assert house.stop() == 0
    assert not house.socket.exists()
    assert house.pids() == []


def test_a_killed_workers_job_runs_again_on_another_worker(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    victim = house.wait_for_worker_of(job)

    house.kill(victim.pid)

    heir = house.wait_for_worker_of(job, other_than=victim)
    house.release("a")
    done = house.wait_until(job, "completed")
    first, second = house.runs(job)
    assert (first.pid, first.ended, second.pid) == (victim.pid, None, heir.pid)
    assert [attempt.outcome.value for attempt in done.attempts] == ["lost", "completed"]
    assert done.attempts[0].cause is not None
    assert done.attempts[0].cause.signal == 9


def test_a_job_that_fails_comes_back_and_one_that_gives_up_does_not(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    flaky, hopeless = house.enqueue("tasks.flaky", {"fails": 2}), house.enqueue("tasks.give_up")

    assert house.wait_until(flaky, "completed").retry_count == 2
    assert house.wait_until(hopeless, "failed").reason == "fatal_error"
    assert [run.attempt for run in house.runs(flaky)] == [1, 2, 3]
    assert len(house.runs(hopeless)) == 1


def test_a_job_that_kills_its_worker_each_time_is_given_up_and_bystanders_complete(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings="[restart]\nfirst_delay = 0.1\nmax_delay = 0.2\n")
    supervisor = house.pid
    killer = house.enqueue("tasks.die")
    bystanders = house.enqueue_many([("tasks.quick", {"n": n}) for n in range(20)])

    lost = house.wait_until(killer, "failed")

    assert lost.reason == "worker_lost"
    assert len(house.runs(killer)) == 3
    for job in bystanders:
        house.wait_until(job, "completed")
    assert house.is_running and house.status()["pool"]["pid"] == supervisor


def test_stopping_finishes_the_job_in_hand_and_starts_no_other(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    held, waiting = house.enqueue("tasks.hold", {"gate": "a"}), house.enqueue("tasks.quick")
    house.wait_for_worker_of(held)

    house.send_signal(signal.SIGTERM)
    house.wait_for(lambda: house.status()["pool"]["state"] == "stopping", "stopping")
    house.release("a")

    assert house.wait_exit() == 0
    assert house.job(held).status == "completed"
    assert house.job(waiting).status == "pending"
    assert house.runs(waiting) == []
