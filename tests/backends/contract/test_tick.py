"""Ticks of the schedule: recorded once with their job, by whoever comes first, and never going back."""

from pool.backends.contract import Backend
from pool.jobs.lifecycle import Status
from tests.helpers.builders import Hand, drain, new_job, put
from tests.helpers.states import unchanged
from tests.helpers.stores import Place, together
from tests.helpers.until import until

NOON = 1_800_000_000.0


def test_a_tick_enqueues_its_job_once(store: Backend, hand: Hand) -> None:
    job = new_job(queue="nightly")
    receipt = store.tick("backup", "v1", NOON, job)
    assert receipt is not None and (receipt.job_id, receipt.status) == (job.id, Status.PENDING)
    with unchanged(store):
        assert store.tick("backup", "v1", NOON, new_job(queue="nightly")) is None
    assert drain(hand) == [job.id]
    assert store.last_tick("backup") == NOON


def test_ticks_only_rise(store: Backend) -> None:
    assert store.tick("backup", "v1", NOON, new_job())
    for late in (NOON - 60, NOON, 0.0):
        with unchanged(store):
            assert store.tick("backup", "v1", late, new_job()) is None
    assert store.last_tick("backup") == NOON
    assert store.tick("backup", "v1", NOON + 60, new_job())
    assert store.last_tick("backup") == NOON + 60


def test_an_unknown_schedule_has_no_last_tick(store: Backend) -> None:
    assert store.last_tick("nobody") is None


def test_a_tick_without_a_job_is_recorded_only(store: Backend) -> None:
    """A schedule that skips what it missed."""
    with unchanged(store):
        store.tick("backup", "v1", NOON, None)
    assert store.last_tick("backup") == NOON
    assert store.tick("backup", "v1", NOON, new_job()) is None
    assert store.tick("backup", "v1", NOON + 1, new_job()) is not None


def test_a_new_version_of_the_entry_goes_on_from_the_same_tick(store: Backend) -> None:
    assert store.tick("backup", "v1", NOON, new_job())
    assert store.tick("backup", "v2", NOON, new_job()) is None
    assert store.tick("backup", "v2", NOON + 60, new_job())


def test_schedules_tick_each_for_itself(store: Backend) -> None:
    assert store.tick("a", "v1", NOON, new_job())
    assert store.tick("b", "v1", NOON - 3600, new_job())
    assert (store.last_tick("a"), store.last_tick("b")) == (NOON, NOON - 3600)


def test_fractions_of_a_second_are_told_apart(store: Backend) -> None:
    assert store.tick("fast", "v1", NOON + 0.25, new_job())
    assert store.tick("fast", "v1", NOON + 0.25, new_job()) is None
    assert store.tick("fast", "v1", NOON + 0.5, new_job())
    assert store.last_tick("fast") == NOON + 0.5


def test_a_tick_outlives_the_record_of_its_job(store: Backend, hand: Hand) -> None:
    store.tick("backup", "v1", NOON, new_job())
    hand.take()
    hand.complete()
    until(lambda: store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) > 0, "the record's end")
    assert store.tick("backup", "v1", NOON, new_job()) is None
    assert store.last_tick("backup") == NOON


def test_a_tick_whose_job_is_still_there_by_its_unique_key_is_recorded(store: Backend) -> None:
    """The last run is still going: no second job beside it."""
    running = put(store, unique_key="backup")
    receipt = store.tick("backup", "v1", NOON, new_job(unique_key="backup"))
    assert receipt is not None and (receipt.job_id, receipt.replayed) == (running, True)
    assert store.last_tick("backup") == NOON


def test_a_full_queue_does_not_lose_the_tick_quietly(store: Backend) -> None:
    """Either the job is there, or the tick is not recorded and can be tried again."""
    from pool.errors import QueueFull

    store.set_queue("default", max_pending=1)
    put(store)
    try:
        receipt = store.tick("backup", "v1", NOON, new_job())
    except QueueFull:
        assert store.last_tick("backup") is None
    else:
        assert receipt is not None
        assert store.job(receipt.job_id).status is Status.PENDING


def test_many_keepers_make_one_job_per_tick(place: Place) -> None:
    ticks = 30

    def work(_: int) -> int:
        store = place.open()
        made = [store.tick("minute", "v1", NOON + 60 * n, new_job(queue="cron")) for n in range(ticks)]
        return sum(receipt is not None for receipt in made)

    made = sum(together(6, work))
    store = place.open()
    assert store.last_tick("minute") == NOON + 60 * (ticks - 1)
    assert store.statistics().enqueued == made
    assert 1 <= made <= ticks, "a keeper that came late finds a later tick recorded"


def test_many_keepers_in_step_make_exactly_one_job_each_time(place: Place) -> None:
    def work(_: int) -> bool:
        return place.open().tick("hour", "v1", NOON, new_job()) is not None

    assert sum(together(8, work)) == 1
