"""Ageing, limits and batches in a running pool (points 10, 13 and 15)."""

import pytest

from pool.errors import JobNotFound
from tests.helpers.house import House


def test_the_configured_ageing_holds_in_the_store(house: House) -> None:
    house.wait_for(lambda: house.store.ageing() == 600.0, "the keeper to set it")


def test_never_more_run_at_once_than_max_running(house: House) -> None:
    ids = [house.client.enqueue("tasks.two_at_once", {"gate": "two"}).job_id for _ in range(5)]
    house.wait_for(lambda: sum(house.job(job_id).status == "running" for job_id in ids) == 2, "two running")
    other = house.client.enqueue("tasks.quick").job_id
    house.wait_until(other, "completed")
    house.wait_for(lambda: sum(bool(house.runs(job_id)) for job_id in ids) >= 2, "both at work")
    assert sum(bool(house.runs(job_id)) for job_id in ids) == 2
    (limit,) = (limit for limit in house.store.limits() if limit.key == "tasks.two_at_once")
    assert (limit.running, limit.waiting, limit.max_running) == (2, 3, 2)
    assert "is used up: 2 of 2 run now" in house.cli("jobs", "why", ids[-1]).stdout
    assert "tasks.two_at_once" in house.cli("limits").stdout
    house.release("two")
    for job_id in ids:
        house.wait_until(job_id, "completed")
    runs = [house.runs(job_id)[0] for job_id in ids]
    for run in runs:
        assert sum(r.started <= run.started and (r.ended or 0) > run.started for r in runs) <= 2


def test_a_rate_holds_per_key_and_other_keys_do_not_wait(house: House) -> None:
    ids = [house.client.enqueue("tasks.send", {"host": "a"}).job_id for _ in range(4)]
    other = house.client.enqueue("tasks.send", {"host": "b"}).job_id
    assert house.job(ids[0]).limit_key == "mail-a"
    house.wait_until(other, "completed")
    for job_id in ids:
        house.wait_until(job_id, "completed")
    enqueued = house.job(ids[0]).created_at
    started = sorted(house.job(job_id).started_at or 0.0 for job_id in ids)
    assert started[2] - enqueued > 0.4, "two at once, then one each half second"
    assert started[3] - enqueued > 0.9


def test_a_batch_calls_back_when_all_are_over(house: House) -> None:
    client = house.client
    done, won = client.draft("tasks.quick", {"n": 1}), client.draft("tasks.quick", {"n": 2})
    batch = client.batch([("tasks.hold", {"gate": f"batch-{n}"}) for n in range(3)], on_complete=done, on_success=won)
    assert (batch.progress, batch.state().total) == (0.0, 3)
    house.release("batch-0")
    house.wait_for(lambda: batch.state().completed == 1, "the first member")
    for follower in (done.id, won.id):
        with pytest.raises(JobNotFound):
            house.job(follower)
    house.release("batch-1"), house.release("batch-2")
    assert batch.wait(60).completed == 3
    house.wait_until(done.id, "completed")
    house.wait_until(won.id, "completed")
    assert len(house.runs(done.id)) == len(house.runs(won.id)) == 1
    assert {job.batch_id for job in client.find_batch(batch.id).jobs()} == {batch.id}
    assert len(house.cli_json("jobs", "list", "--batch", batch.id)) == 3


def test_the_rest_of_a_batch_can_be_cancelled(house: House) -> None:
    client = house.client
    done = client.draft("tasks.quick", {"n": 3})
    jobs = [
        ("tasks.quick", {}, {"queue": "rest"}),
        ("tasks.quick", {}, {"delay": 3600}),
        ("tasks.quick", {}, {"delay": 3600}),
    ]
    batch = client.batch(jobs, on_complete=done, on_success=client.draft("tasks.hold", {"gate": "never"}))
    house.wait_for(lambda: batch.state().completed == 1, "the first member")
    assert batch.cancel() == 2
    assert (batch.wait(60).cancelled, batch.progress) == (2, 1.0)
    house.wait_until(done.id, "completed")
