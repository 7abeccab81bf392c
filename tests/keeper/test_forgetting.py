"""Old records are removed in short turns: fast enough for a busy pool, with pauses in which others have the store."""

import pytest

from pool.backends.contract import JobFilter
from pool.keeper import storewide
from pool.settings import RetentionSection
from tests.helpers.builders import new_jobs
from tests.helpers.stores import Place

AT_ONCE = RetentionSection(completed=0, failed=0, idempotency=0)
COUNT = 1_200


@pytest.fixture
def place(tmp_path) -> Place:
    made = Place("sqlite", f"sqlite:///{tmp_path}/jobs.db")
    store = made.open()
    jobs = new_jobs(COUNT)
    store.enqueue(jobs)
    for job in jobs:
        store.cancel(job.id)
    yield made
    made.close()


def test_a_turn_ends_after_its_time_and_asks_for_the_next_after_a_pause(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storewide, "FORGET_TURN_S", 1e-6)
    store = place.open()
    wishes = [storewide.forget(store, AT_ONCE) for _ in range(3)]
    assert [wish is not None for wish in wishes] == [True, True, False]
    assert wishes[0] > 1e-6, "others have the store for three quarters of the time"
    assert store.jobs(JobFilter()).jobs == ()


def test_a_turn_goes_on_while_it_has_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storewide, "FORGET_TURN_S", 60.0)
    store = place.open()
    assert storewide.forget(store, AT_ONCE) is None
    assert store.jobs(JobFilter()).jobs == ()


@pytest.mark.parametrize(
    "kept, period", [({}, 60.0), ({"completed": 60}, 6.0), ({"completed": 0}, 1.0), ({"failed": 100}, 10.0)]
)
def test_what_is_kept_for_a_short_time_is_looked_at_more_often(kept: dict[str, float], period: float) -> None:
    assert storewide.forget_period(RetentionSection(**kept)) == period
