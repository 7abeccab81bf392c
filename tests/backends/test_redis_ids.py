"""The list of all ids on Redis stands in blocks: whatever order ids come and go in, it is whole and in order."""

import random
from contextlib import closing

import pytest

from pool.backends.contract import JobFilter
from pool.backends.redis.backend import RedisBackend
from tests.helpers.builders import new_job, new_jobs
from tests.helpers.servers import Server, running

MANY = 700
ORDERS = {
    "as they were made": lambda ids: ids,
    "the last first": lambda ids: ids[::-1],
    "in any order": lambda ids: random.Random(7).sample(ids, len(ids)),
}


def ids() -> list[str]:
    return [job.id for job in new_jobs(MANY)]


def listed(store: RedisBackend, limit: int = 50) -> list[str]:
    """All of them, page after page."""
    page = store.jobs(JobFilter(), limit=limit)
    found = [job.id for job in page.jobs]
    while page.after is not None:
        page = store.jobs(JobFilter(), limit=limit, after=page.after)
        found += [job.id for job in page.jobs]
    return found


def blocks(server: Server) -> int:
    with server.client() as client:
        return len(client.keys("{jobpool:default}:ids:*"))


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
@pytest.mark.parametrize("order", ORDERS)
def test_jobs_are_listed_by_id_in_whatever_order_they_came_and_went(flavour: str, order: str, together: bool) -> None:
    made = ids()
    come = [new_job(id=each) for each in ORDERS[order](made)]
    with running(flavour) as server, closing(RedisBackend(server.url)) as store:
        for jobs in [come] if together else [[job] for job in come]:
            store.enqueue(jobs)
        assert listed(store) == made[::-1]
        assert blocks(server) < MANY / 8
        gone = set(random.Random(3).sample(made, MANY // 2))
        assert store.delete(sorted(gone)) == len(gone)
        left = [each for each in made if each not in gone]
        assert listed(store, 7) == left[::-1]
        store.enqueue([new_job(id=each) for each in sorted(gone)])
        assert listed(store) == made[::-1]
        store.delete(made)
        assert listed(store) == []
        assert blocks(server) == 0
        with server.client() as client:
            assert not client.exists("{jobpool:default}:ids")


def test_a_broken_block_costs_the_listing_of_its_jobs_and_nothing_else(flavour: str) -> None:
    made = ids()
    with running(flavour) as server, closing(RedisBackend(server.url)) as store:
        store.enqueue([new_job(id=each) for each in made])
        with server.client() as client:
            broken = sorted(client.keys("{jobpool:default}:ids:*"))[1]
            client.set(broken, "not a block")
        seen = listed(store)
        assert seen == sorted(seen, reverse=True)
        assert MANY - 200 < len(seen) < MANY
        assert store.delete(made) == MANY
        assert listed(store) == []
