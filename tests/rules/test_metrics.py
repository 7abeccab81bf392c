"""The Prometheus text, read back by Prometheus' own parser."""

from prometheus_client.parser import text_string_to_metric_families

from pool.board.tally import MOST_TYPES, OTHERS, OUTCOMES
from pool.clock import monotonic_now, wall_now
from pool.jobs.job import Outcome
from pool.metrics import metrics_text
from pool.supervisor.report import Moment, status_document
from tests.helpers.pools import StillPool, keeper, queue, workers

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(pool: StillPool, deaths: dict[tuple[str, str], int] | None = None) -> Samples:
    text = metrics_text(status_document(pool, Moment(monotonic_now(), wall_now())), deaths or {}).decode()
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_workers_jobs_queues_backend_and_deaths_are_there() -> None:
    pool = StillPool(workers(3), keeper())
    busy, *_ = pool.all_born()
    pool.holds(busy)
    pool.keeper_says(queue("mail", pending=4, oldest_pending_s=12.5, overdue=1))
    samples = scraped(pool, {("workers", "signal_9"): 2})
    assert value(samples, "jobpool_workers", group="workers", state="busy") == 1
    assert value(samples, "jobpool_workers", group="workers", state="idle") == 2
    assert value(samples, "jobpool_workers_planned", group="workers") == 3
    assert value(samples, "jobpool_jobs_total", outcome="completed") == 6
    assert value(samples, "jobpool_jobs_enqueued_total") == 10
    assert value(samples, "jobpool_queue_jobs", queue="mail", status="pending") == 4
    assert value(samples, "jobpool_queue_oldest_pending_seconds", queue="mail") == 12.5
    assert value(samples, "jobpool_backend_up") == 1
    assert value(samples, "jobpool_deaths_total", group="workers", cause="signal_9") == 2
    assert value(samples, "jobpool_pool_state", state="ready") == 1
    assert value(samples, "jobpool_pool_state", state="stopping") == 0


def test_a_pool_that_knows_nothing_yet_can_be_scraped() -> None:
    samples = scraped(StillPool(workers(1)))
    assert value(samples, "jobpool_backend_up") == 0
    assert value(samples, "jobpool_workers", group="workers", state="booting") == 1


def test_strange_queue_names_do_not_break_the_text() -> None:
    pool = StillPool(workers(1))
    pool.keeper_says(queue('a"b\\c\nd {}', pending=1))
    assert value(scraped(pool), "jobpool_queue_jobs", queue='a"b\\c\nd {}', status="pending") == 1


def test_an_applications_own_metrics_do_not_mix_in() -> None:
    names = {name for name, _ in scraped(StillPool(workers(1)))}
    assert names and all(name.startswith("jobpool_") for name in names)


def test_the_workers_attempts_add_up_by_type_over_all_places_and_tenants() -> None:
    pool = StillPool(workers(2))
    first, second = pool.all_born()
    first.record.tally.add("mail.send", "completed", run_s=0.02, wait_s=3.0)
    first.record.tally.add("mail.send", "failed", run_s=4000.0, wait_s=0.0)
    second.record.tally.add("mail.send", "completed", run_s=0.02, wait_s=0.0)
    second.record.tally.add("pdf", "returned", run_s=None, wait_s=9.0)
    first.record.vacate()
    first.record.occupy(first.role, 9, 9, pid=0, group="workers", now=0.0)
    tallies = [counts for child in (first, second) for counts in child.record.tally.read()]
    text = metrics_text(status_document(pool, Moment(monotonic_now(), wall_now())), {}, tallies).decode()
    samples = {
        (s.name, frozenset(s.labels.items())): s.value for f in text_string_to_metric_families(text) for s in f.samples
    }
    assert value(samples, "jobpool_attempts_total", type="mail.send", outcome="completed") == 2
    assert value(samples, "jobpool_attempts_total", type="pdf", outcome="returned") == 1
    assert value(samples, "jobpool_run_seconds_bucket", type="mail.send", le="0.025") == 2
    assert value(samples, "jobpool_run_seconds_bucket", type="mail.send", le="1800.0") == 2
    assert value(samples, "jobpool_run_seconds_count", type="mail.send") == 3
    assert abs(value(samples, "jobpool_run_seconds_sum", type="mail.send") - 4000.04) < 0.001
    assert value(samples, "jobpool_wait_seconds_bucket", type="mail.send", le="2.5") == 2
    assert value(samples, "jobpool_run_seconds_count", type="pdf") == 0


def test_more_types_than_rows_share_the_last_one_and_each_is_counted() -> None:
    pool = StillPool(workers(1))
    (child,) = pool.all_born()
    for number in range(100):
        child.record.tally.add(f"type{number}" + "x" * 100, "completed", run_s=1.0, wait_s=1.0)
    counts = list(child.record.tally.read())
    assert len(counts) == MOST_TYPES and counts[-1].type == OTHERS
    assert sum(count.outcomes["completed"] for count in counts) == 100


def test_every_way_an_attempt_can_end_has_a_counter() -> None:
    assert set(OUTCOMES) == {outcome.value for outcome in Outcome}
