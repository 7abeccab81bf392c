"""When a worker has had enough."""

import pytest

from pool.board.record import Exit
from pool.settings import WorkersSection
from pool.worker.boot import BootFailed
from pool.worker.limits import Limits, MemoryWatch


def limits(**keys: object) -> Limits:
    return Limits(WorkersSection.model_validate({"memory_limit": 0, **keys}))


def test_without_limits_it_stays() -> None:
    assert limits().reached(lambda: 10**9) is None


def test_the_number_of_jobs_is_up_to_a_tenth_lower_and_not_the_same_for_all() -> None:
    found = set()
    for _ in range(200):
        one = limits(max_jobs=100)
        found.add(next(jobs for jobs in range(200) if one.reached(lambda jobs=jobs: jobs) is Exit.MAX_JOBS))
    assert 90 <= min(found) < max(found) <= 100


def test_one_job_is_one_job() -> None:
    assert limits(max_jobs=1).reached(lambda: 0) is None
    assert limits(max_jobs=1).reached(lambda: 1) is Exit.MAX_JOBS


@pytest.mark.parametrize("metric", ["rss", "pss", "uss"])
def test_memory_is_measured_by_each_metric(metric: str) -> None:
    assert limits(memory_limit=1000, memory_metric=metric).reached(lambda: 0) is Exit.MEMORY
    assert limits(memory_limit="100GB", memory_metric=metric).reached(lambda: 0) is None


def test_growth_is_seen() -> None:
    watch = MemoryWatch("uss", 0.0)
    before = watch.size(0.0)
    kept = bytearray(b"x" * 50_000_000)
    assert watch.size(1.0) - before > 40_000_000
    del kept


def test_a_ceiling_below_a_fresh_worker_is_refused_with_the_remedy() -> None:
    with pytest.raises(BootFailed, match="raise memory_limit"):
        limits(memory_limit="10MB").refuse_ceiling_below(40_000_000)
    limits(memory_limit=0).refuse_ceiling_below(40_000_000)
