"""The keeper: it sees deaths by itself when the parent cannot, and tells the next start what the store could not hear."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from pool.backends.spool import folder_of
from tests.helpers.house import House
from tests.helpers.servers import Server, running

OpenHouse = Callable[..., House]


def test_with_the_parent_stopped_a_killed_workers_job_still_runs_again(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    victim = house.wait_for_worker_of(job)

    house.send_signal(signal.SIGSTOP)
    house.kill(victim.pid)

    house.wait_for(lambda: len(house.runs(job)) == 2, "the second run")
    house.send_signal(signal.SIGCONT)
    house.release("a")
    done = house.wait_until(job, "completed")
    assert [attempt.outcome.value for attempt in done.attempts] == ["lost", "completed"]
    house.wait_for(lambda: len(house.worker_pids()) == 2, "both workers")


def test_a_reload_that_renews_the_keeper_warns_of_nothing(open_house: OpenHouse) -> None:
    """It is killed, as it is made to be, once its heir is ready."""
    house = open_house()
    first, before = house.keeper_pid(), house.log_text()
    house.config_file.write_text(house.config_file.read_text().replace("[workers]", "lease = 90\n[workers]", 1))

    house.cli("reload", "--wait")

    assert house.keeper_pid() != first
    house.wait_for(lambda: f"child left role=keeper slot=9001 pid={first}" in house.log_text(), "its end in the log")
    assert "WARNING" not in house.log_text().removeprefix(before)


def test_a_keeper_that_stands_still_is_replaced_before_the_lease_ends(open_house: OpenHouse) -> None:
    house = open_house(workers=2, start=False)
    house.config_file.write_text(house.config_file.read_text().replace("[workers]", "lease = 8\n[workers]", 1))
    house.start()
    job = house.enqueue("tasks.hold", {"gate": "a"})
    holder = house.wait_for_worker_of(job)
    first = house.keeper_pid()

    house.kill(first, signal.SIGSTOP)

    house.wait_for(lambda: house.keeper_pid() != first, "another keeper")
    time.sleep(8)  # a full lease: whoever would rob the job does it by now
    assert [run.pid for run in house.runs(job)] == [holder.pid]
    house.release("a")
    house.wait_until(job, "completed")


@pytest.mark.parametrize("flavour", ["valkey"])
def test_a_stop_with_the_store_away_is_told_to_the_store_by_the_next_start(open_house: OpenHouse, flavour: str) -> None:
    with running(flavour) as server:
        house = open_house(workers=2, backend=server.url, start=False)
        text = house.config_file.read_text()
        house.config_file.write_text(text.replace("[app]", "stop_timeout = 3\n[app]", 1))
        house.start()
        finishing = house.enqueue("tasks.hold", {"gate": "a"})
        endless = house.enqueue("tasks.hold", {"gate": "never"})
        house.wait_for_worker_of(finishing)
        house.wait_for_worker_of(endless)

        server.freeze()
        house.release("a")
        house.wait_for(lambda: house.runs(finishing)[0].ended, "the end of the job")
        assert house.stop() == 0
        server.thaw()
        house.start()

        assert house.wait_until(finishing, "completed").retry_count == 0
        house.wait_for(lambda: len(house.runs(endless)) == 2, "the second run")
        back = house.job(endless)
        assert (back.retry_count, back.kill_count) == (0, 0)
        assert back.attempts[0].cause is not None
        assert back.attempts[0].cause.reason == "interrupted"
        assert len(house.runs(finishing)) == 1


def finished_without_a_store(house: House, server: Server, job_type: str) -> str:
    """A job that has come to its end, and whose worker cannot hand that in: the server is dead."""
    job = house.enqueue(job_type, {"gate": "a"})
    house.wait_for_worker_of(job)
    server.kill()
    house.release("a")
    house.wait_for(lambda: house.runs(job)[0].ended, "the end of the job")
    return job


@pytest.mark.parametrize("job_type", ["tasks.hold", "tasks.hold_once"])
def test_a_kept_result_is_told_before_the_departure_of_its_worker(open_house: OpenHouse, job_type: str) -> None:
    """Told the other way round, a job that is done would run again, and an at-most-once job would count as failed."""
    with running("valkey", aof=True) as server:
        house = open_house(workers=1, backend=server.url)
        job = finished_without_a_store(house, server, job_type)

        assert house.stop() == 0
        server.start()
        house.start()

        assert house.wait_until(job, "completed").retry_count == 0
        assert len(house.runs(job)) == 1


def test_kept_departures_that_cannot_be_read_are_set_aside(open_house: OpenHouse) -> None:
    """They must not keep the keeper from recovering what other pools have lost, which waits for them."""
    house = open_house(workers=1)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    first = house.wait_for_worker_of(job)
    house.send_signal_to_all(signal.SIGKILL)
    house.wait_exit()
    torn = folder_of(house.folder / "state", house.url, "default") / "departures" / "house@host#1.json"
    torn.parent.mkdir(parents=True)
    torn.write_text('[{"worker": "x"')

    house.start()

    house.wait_for_worker_of(job, other_than=first)
    house.wait_for(torn.with_suffix(".unreadable").exists, "the file set aside")


def test_a_result_kept_by_a_worker_that_was_replaced_is_told_before_its_departure(open_house: OpenHouse) -> None:
    with running("valkey", aof=True) as server:
        house = open_house(workers=1, backend=server.url)
        job = finished_without_a_store(house, server, "tasks.hold")
        before = house.worker_pids()

        house.cli("restart")
        house.wait_for(lambda: house.worker_pids() and not house.worker_pids() & before, "a new worker")
        server.start()

        house.wait_for(lambda: house.job(job).status.value == "completed", "the kept result")
        assert len(house.runs(job)) == 1


def test_a_stop_at_once_while_a_call_to_the_store_hangs_costs_the_next_start_nothing(open_house: OpenHouse) -> None:
    """The keeper finds out only in that call that the store stands still; it has a second and a half to live."""
    with running("valkey") as server:
        house = open_house(workers=1, backend=server.url)
        job = house.enqueue("tasks.hold", {"gate": "never"})
        house.wait_for_worker_of(job)

        server.freeze()
        house.send_signal(signal.SIGQUIT)
        assert house.wait_exit() == 0
        kept = [file.read_text() for file in (house.folder / "state").glob("spool/*/departures/house@*.json")]
        assert any("interrupted" in text for text in kept)
        server.thaw()
        house.start()

        house.wait_for(lambda: len(house.runs(job)) == 2, "the second run")
        back = house.job(job)
        assert (back.retry_count, back.kill_count) == (0, 0)


def test_orphans_keep_their_lease_until_they_have_left(open_house: OpenHouse) -> None:
    """The supervisor is killed; its keeper beats on for the worker that still works, on Redis, where only beats count."""
    with running("valkey") as server:
        house = open_house(workers=1, backend=server.url, start=False)
        house.config_file.write_text(house.config_file.read_text().replace("[workers]", "lease = 5\n[workers]", 1))
        house.start()
        job = house.enqueue("tasks.hold", {"gate": "a"})
        house.wait_for_worker_of(job)

        os.kill(house.pid, signal.SIGKILL)
        house.wait_exit()
        house.start()
        time.sleep(11)  # two leases and more
        assert len(house.runs(job)) == 1
        house.release("a")

        assert house.wait_until(job, "completed").retry_count == 0
        assert len(house.runs(job)) == 1
