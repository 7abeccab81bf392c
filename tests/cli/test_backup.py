"""A backup that is taken while everybody works, and what becomes of it where it is put."""

import os
import threading
from collections.abc import Callable
from contextlib import closing

from pool.backends.contract import JobFilter
from pool.backends.opening import open_backend
from tests.helpers.builders import new_job
from tests.helpers.house import House

OpenHouse = Callable[..., House]


def test_a_backup_taken_under_load_holds_all_that_was_accepted_before_and_runs_where_it_is_restored(
    open_house: OpenHouse,
) -> None:
    house = open_house(workers=2)
    before = house.enqueue_many([("tasks.quick", {"n": n}) for n in range(200)])
    stop, copy = threading.Event(), house.folder / "copy.db"

    def load() -> None:
        number = 0
        with closing(open_backend(house.url)) as store:
            while not stop.is_set():
                number += 1
                store.enqueue([new_job(type="tasks.quick", payload=f'{{"n": {number}}}') for _ in range(20)])

    feeder = threading.Thread(target=load)
    feeder.start()
    try:
        house.cli("backup", str(copy))
    finally:
        stop.set()
        feeder.join()
    with closing(open_backend(f"sqlite:///{copy}")) as restored:
        numbers, listed = restored.statistics(), {job.id for job in restored.jobs(JobFilter(), limit=100_000).jobs}
    assert set(before) <= listed
    assert numbers.enqueued == len(listed), "a batch is there whole or not at all"
    house.stop()
    elsewhere = open_house(workers=2, backend=f"sqlite:///{copy}")
    elsewhere.wait_for(
        lambda: not any(elsewhere.counts()[name] for name in ("pending", "running")), "the end of the work"
    )
    assert elsewhere.counts()["failed"] == 0


def test_a_backup_put_over_the_database_of_a_running_pool_is_not_mixed_with_its_wal(open_house: OpenHouse) -> None:
    """Whoever forgets to stop the pool first loses nothing: neither goes on with a mixture, and both say what to do."""
    house = open_house(workers=1)
    house.wait_until(house.enqueue("tasks.quick", {"n": 1}), "completed")
    copy = house.folder / "copy.db"
    house.cli("backup", str(copy))
    waiting = house.enqueue("tasks.quick", {"n": 2}, delay=3600)
    os.rename(copy, house.folder / "jobs.db")
    refused = house.cli("jobs", "list", check=False)
    assert refused.returncode == 69
    assert "-wal of the old one is still there" in refused.stderr
    house.wait_for(lambda: "replaced while in use" in house.log_text(), "the pool's word")
    assert waiting not in refused.stdout
