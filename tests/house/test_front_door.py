"""The front door inside a real pool: jobs that enqueue jobs, and callers that wait for what they enqueued."""

import pool

APP = '''
import os
import pool
from ledger import noted

os.chdir("/")  # so that no jobpool.toml lies in the working directory of the job

@pool.job
@noted
def quick(n: int) -> int:
    return n

@pool.job
@noted
def at_once(n: int) -> str:
    """Stores another job now, whatever becomes of this one."""
    return quick.enqueue(n).job_id

@pool.job(max_retries=0)
@noted
def with_completion(n: int, fails: bool) -> str:
    """Stores another job with its completion."""
    child = pool.current().enqueue(quick, n=n)
    if fails:
        raise pool.GiveUp("no child")
    return child
'''


def test_a_job_enqueues_into_the_store_of_its_own_pool(open_house) -> None:  # type: ignore[no-untyped-def]
    house = open_house(workers=2, app=APP)
    with pool.Client(house.url) as client:
        done = client.wait(house.enqueue("tasks.at_once", {"n": 7}), timeout=60)
        assert done.status.value == "completed", done
        child = client.wait((done.result or "").strip('"'), timeout=60)

    assert (child.type, child.result) == ("tasks.quick", "7")


def test_a_child_exists_if_and_only_if_its_parent_completed(open_house) -> None:  # type: ignore[no-untyped-def]
    house = open_house(workers=2, app=APP)
    with pool.Client(house.url) as client:
        kept = client.wait(house.enqueue("tasks.with_completion", {"n": 1, "fails": False}), timeout=60)
        lost = client.wait(house.enqueue("tasks.with_completion", {"n": 2, "fails": True}), timeout=60)
        child = client.wait((kept.result or "").strip('"'), timeout=60)

    assert (child.parent_id, child.result, lost.reason) == (kept.id, "1", "fatal_error")


def test_a_client_by_name_learns_the_types_of_the_pool(open_house) -> None:  # type: ignore[no-untyped-def]
    house = open_house(workers=1, app=APP)
    with pool.Client(house.url) as client:
        assert client.wait(client.enqueue("quick", {"n": 5}), timeout=60).result == "5"
