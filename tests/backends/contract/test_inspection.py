"""What anyone may look at: one job, lists with filters and cursors, queues, statistics, pools, the clock."""

from pathlib import Path

import pytest

from pool.backends.contract import Backend, JobFilter, Want
from pool.clock import wall_now
from pool.errors import JobNotFound
from pool.jobs.ids import new_job_id
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import LATER_SECONDS, Hand, failure, new_job, new_jobs, put
from tests.helpers.states import make, unchanged
from tests.helpers.until import until


def _ids(store: Backend, **fields) -> list[str]:
    return [job.id for job in store.jobs(JobFilter(**fields)).jobs]


def test_a_job_that_never_was_is_not_found(store: Backend) -> None:
    with pytest.raises(JobNotFound):
        store.job(new_job_id())


def test_an_empty_store_shows_nothing(store: Backend) -> None:
    page = store.jobs(JobFilter())
    assert (page.jobs, page.after, store.queues(), store.pools()) == ((), None, [], [])


def test_jobs_are_listed_newest_first_by_id(store: Backend) -> None:
    jobs = new_jobs(20)
    store.enqueue(jobs)
    assert _ids(store) == sorted((job.id for job in jobs), reverse=True)


def test_pages_follow_each_other_without_gap_or_repeat(store: Backend) -> None:
    jobs = new_jobs(23)
    store.enqueue(jobs)
    seen, after = [], None
    for expected in (10, 10, 3):
        page = store.jobs(JobFilter(), after=after, limit=10)
        assert len(page.jobs) == expected
        seen += [job.id for job in page.jobs]
        after = page.after
    assert after is None
    assert seen == sorted((job.id for job in jobs), reverse=True)


def test_a_full_last_page_ends_the_list_at_the_latest_with_an_empty_one(store: Backend) -> None:
    store.enqueue(new_jobs(10))
    page = store.jobs(JobFilter(), limit=10)
    assert len(page.jobs) == 10
    if page.after is not None:
        assert store.jobs(JobFilter(), after=page.after, limit=10).jobs == ()


def test_pages_hold_though_jobs_come_and_go_between_them(store: Backend) -> None:
    jobs = new_jobs(20)
    store.enqueue(jobs)
    order = sorted((job.id for job in jobs), reverse=True)
    page = store.jobs(JobFilter(), limit=10)
    store.enqueue(new_jobs(5))
    store.cancel(order[12])
    rest = store.jobs(JobFilter(), after=page.after, limit=50)
    assert [job.id for job in rest.jobs] == order[10:]


def test_pages_of_a_filtered_list(store: Backend) -> None:
    wanted = []
    for number in range(40):
        job_id = put(store, queue="a" if number % 4 else "b")
        wanted += [] if number % 4 else [job_id]
    seen, after = [], None
    while True:
        page = store.jobs(JobFilter(queue="b"), after=after, limit=3)
        seen += [job.id for job in page.jobs]
        after = page.after
        if after is None:
            break
    assert seen == sorted(wanted, reverse=True)


def test_filters_by_each_field(store: Backend) -> None:
    failed = make(store, "failed", queue="mail", type="mail.send", owner="shop").job_id
    waiting = put(store, queue="mail", type="mail.send", owner="blog")
    delayed = put(store, type="report.make", delay=LATER_SECONDS)
    assert _ids(store, status=Status.FAILED) == [failed]
    assert _ids(store, status=Status.SCHEDULED) == [delayed]
    assert _ids(store, type="mail.send") == sorted([waiting, failed], reverse=True)
    assert _ids(store, queue="mail") == sorted([waiting, failed], reverse=True)
    assert _ids(store, owner="shop") == [failed]
    assert _ids(store, reason="fatal_error") == [failed]
    assert _ids(store, queue="mail", status=Status.PENDING) == [waiting]
    assert _ids(store, queue="mail", type="report.make") == []
    assert _ids(store) == sorted([delayed, waiting, failed], reverse=True)


@pytest.mark.parametrize("status", list(Status))
def test_every_state_can_be_listed(store: Backend, status: Status) -> None:
    ways = ("held", "completed", "failed", "cancelled", "retried", "delayed", "waiting")
    ids = [make(store, way).job_id for way in ways]
    wanted = sorted((job_id for job_id in ids if store.job(job_id).status is status), reverse=True)
    assert wanted
    assert _ids(store, status=status) == wanted


def test_text_is_found_in_id_type_error_and_payload(store: Backend, hand: Hand) -> None:
    by_payload = put(store, payload='{"to":"needle@example.org"}', delay=LATER_SECONDS)
    by_type = put(store, type="needle.work", delay=LATER_SECONDS)
    by_error = put(store)
    hand.take()
    hand.settle(Outcome.FAILED, reason=Reason.FATAL_ERROR, cause=failure("no needle in haystack"))
    plain = put(store)
    assert set(_ids(store, text="needle")) == {by_payload, by_type, by_error}
    assert _ids(store, text=plain) == [plain]
    assert _ids(store, text="no such thing") == []


def test_text_is_found_in_any_case(store: Backend) -> None:
    wanted = put(store, type="Mail.Send", payload='{"to": "Anna@Example.org"}')
    put(store)
    assert _ids(store, text="mail.send") == [wanted]
    assert _ids(store, text="ANNA@") == [wanted]


@pytest.mark.parametrize("text", ["%", "_", "*", "'", "\\", "a%b", "[", "?"])
def test_text_is_looked_for_as_it_stands(store: Backend, text: str) -> None:
    import json

    put(store, payload='{"plain": 1}', type="other")
    wanted = put(store, type=f"x{text}y", payload=json.dumps({"n": 1}))
    assert _ids(store, text=text) == [wanted]


def test_finished_before_a_moment(store: Backend) -> None:
    first = make(store, "completed").job_id
    moment = store.server_now()
    until(lambda: store.server_now() > moment + 0.01, "the next moment")
    make(store, "completed")
    put(store)
    assert _ids(store, finished_before=moment + 0.005) == [first]
    assert _ids(store, finished_before=0.0) == []


@pytest.mark.parametrize(
    "after", ["", "nonsense", "'; DROP TABLE jobs; --", "🎉", "01890a5d-ac96-774b-bcce-b302099a8057"]
)
def test_an_odd_cursor_harms_nothing(store: Backend, after: str) -> None:
    from pool.errors import CallerError

    put(store)
    try:
        store.jobs(JobFilter(), after=after)
    except CallerError as refusal:
        assert str(refusal)
    assert len(store.jobs(JobFilter()).jobs) == 1


# ---------------------------------------------------------------- queues


def test_queues_are_counted_by_state(store: Backend) -> None:
    for way in ("held", "completed", "failed", "cancelled", "retried", "delayed", "waiting"):
        make(store, way, queue="mail")
    [queue] = store.queues()
    assert (queue.name, queue.pending, queue.scheduled, queue.running) == ("mail", 1, 2, 1)
    assert (queue.completed, queue.failed, queue.paused, queue.max_pending) == (1, 1, False, 0)


def test_queues_come_by_name(store: Backend) -> None:
    for name in ("b", "a", "ä", "C", "a b"):
        put(store, queue=name)
    assert [queue.name for queue in store.queues()] == sorted(("b", "a", "ä", "C", "a b"))


def test_a_queue_with_only_a_setting_is_shown(store: Backend) -> None:
    store.set_queue("quiet", paused=True)
    [queue] = store.queues()
    assert (queue.name, queue.paused, queue.pending, queue.oldest_pending_s) == ("quiet", True, 0, None)


def test_the_age_of_the_oldest_pending_job_is_shown(store: Backend, hand: Hand) -> None:
    put(store)
    moment = store.server_now()
    until(lambda: store.server_now() > moment + 0.2, "some age")
    put(store)
    age = store.queues()[0].oldest_pending_s
    assert age is not None and 0.2 <= age < 60
    hand.take()
    younger = store.queues()[0].oldest_pending_s
    assert younger is not None and younger < store.server_now() - moment


@pytest.mark.parametrize("promoted", [False, True])
def test_delayed_jobs_due_for_more_than_a_second_are_overdue(store: Backend, hand: Hand, promoted: bool) -> None:
    job_id = put(store, delay=0.05)
    put(store, delay=LATER_SECONDS)
    put(store)
    moment = store.job(job_id).run_at
    until(lambda: store.server_now() > moment, "the due time")
    if promoted:
        store.promote()
    until(lambda: store.queues()[0].overdue == 1, "an overdue job", within=30)
    assert store.server_now() >= moment + 1.0
    assert store.statistics().overdue == 1
    hand.take()
    hand.take()
    while store.job(job_id).status is not Status.RUNNING:
        hand.complete()
        hand.take()
    assert (store.queues()[0].overdue, store.statistics().overdue) == (0, 0)


def test_statistics_show_what_is_delayed(store: Backend) -> None:
    put(store)
    sooner = put(store, delay=100.0)
    put(store, delay=500.0)
    numbers = store.statistics()
    assert (numbers.delayed, numbers.overdue) == (2, 0)
    assert numbers.next_due == pytest.approx(store.job(sooner).run_at, abs=0.01)
    assert numbers.backend["kind"] == store.kind


def test_the_statistics_of_an_empty_store_are_zero(store: Backend) -> None:
    numbers = store.statistics()
    assert (numbers.enqueued, numbers.completed, numbers.retried, numbers.failed, numbers.cancelled) == (0,) * 5
    assert (numbers.worker_deaths, numbers.delayed, numbers.overdue, numbers.next_due) == (0, 0, 0, None)
    assert len(numbers.hours) == 24


def test_looking_changes_nothing(store: Backend) -> None:
    job_id = put(store, expires_in=0.01)
    until(lambda: store.server_now() > (store.job(job_id).expires_at or 0), "the expiry")
    with unchanged(store):
        store.queues()
        store.statistics()
        store.pools()
        store.jobs(JobFilter(text="x"))
        store.job(job_id)


def test_a_list_shows_the_same_job_as_a_look_at_it(store: Backend) -> None:
    from dataclasses import replace

    made = make(store, "failed", payload='{"n": 1}', unique_key="u", idempotency_key="i", timeout=2.5)
    [listed] = store.jobs(JobFilter()).jobs
    assert listed == replace(store.job(made.job_id), attempts=())


# ---------------------------------------------------------------- the store itself


def test_the_stores_clock_is_this_machines_here(store: Backend) -> None:
    assert abs(store.server_now() - wall_now()) < 30


def test_a_ping_is_timed(store: Backend) -> None:
    assert 0 <= store.ping() < 30


def test_a_closed_client_opens_again(store: Backend) -> None:
    job_id = put(store)
    store.close()
    store.close()
    assert store.job(job_id).status is Status.PENDING
    store.enqueue([new_job()])


def test_opening_and_closing_again_and_again_leaves_no_descriptors_behind(stores) -> None:
    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    client = stores()
    counts = []
    for _ in range(10):
        put(client)
        client.wait(Want(), 0)
        client.close()
        other = stores()
        put(other)
        other.close()
        counts.append(open_descriptors())
    assert counts[-1] <= counts[0]


def test_kind_and_url_name_the_store(store: Backend, place) -> None:
    assert store.kind == ("sqlite" if place.kind == "sqlite" else "redis")
    assert store.url


def test_the_dead_letters_that_failed_last_come_first_however_old_the_jobs_are(store: Backend, hand: Hand) -> None:
    ended = []
    for queue in ("a", "b", "a"):
        old, young = put(store, queue=queue), put(store, queue=queue, priority=100)
        for job_id in (young, old):
            assert hand.take(Want(queues=(queue,))).job_id == job_id
            hand.fail()
            ended.append(job_id)
    make(store, "completed", hand)
    assert [job.id for job in store.last_failed()] == ended[::-1]
    assert [job.id for job in store.last_failed(4)] == ended[:1:-1]
    store.revive(ended[-1])
    assert [job.id for job in store.last_failed(1)] == [ended[-2]]
    assert store.last_failed(1)[0] == next(job for job in store.jobs(JobFilter()).jobs if job.id == ended[-2])


def test_a_look_that_ends_early_goes_on_where_it_ended(store: Backend) -> None:
    few = [put(store, owner="few") for _ in range(3)]
    store.enqueue(new_jobs(5000))
    found, after, pages = [], None, 0
    while after or not pages:
        page = store.jobs(JobFilter(owner="few"), after=after, within_s=0.0)
        found += [job.id for job in page.jobs]
        after, pages = page.after, pages + 1
    assert found == sorted(few, reverse=True)
    assert pages == (1 if store.kind == "sqlite" else 3)
