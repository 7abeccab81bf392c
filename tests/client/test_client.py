"""`pool.Client` against real stores: what is stored, what comes back, what is refused."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import pool
from pool.backends.contract import Beat, JobFilter
from pool.client import stand_in
from pool.errors import BackendUnavailable, CallerError, OutcomeUnknown, WaitedTooLong
from pool.identity import process_mark
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob, Outcome, Receipt, Settlement
from pool.jobs.lifecycle import Status
from tests.client.jobs_here import add, named_once, report
from tests.helpers.builders import ANYTHING, some_pool, worker
from tests.helpers.until import until


def stored(client: pool.Client) -> int:
    return sum(queue.pending + queue.scheduled for queue in client.backend().queues())


def publish(client: pool.Client, types: dict[str, Any]) -> None:
    """A pool elsewhere beats and says which types it has."""
    facts = json.dumps({"types": types})
    beat = Beat(pool=some_pool("elsewhere"), supervisor=process_mark(), lease_seconds=60, held=(), facts=facts)
    client.backend().beat(beat)


# ---------------------------------------------------------------- enqueue


def test_a_declared_job_is_stored_as_its_declaration_says(client: pool.Client) -> None:
    receipt = client.enqueue(add, {"a": 1})
    job = client.get(receipt)

    assert (job.type, job.queue, job.max_retries, job.status) == ("here.add", "sums", 1, Status.PENDING)
    assert json.loads(job.payload) == {"a": 1}
    assert not receipt.replayed


def test_options_of_one_job_win_over_its_declaration(client: pool.Client) -> None:
    job = client.get(client.enqueue(add, {"a": 1}, priority="low", queue="slow", max_retries=0, delay=60, timeout=9))

    assert (job.priority, job.queue, job.max_retries, job.timeout, job.status) == (0, "slow", 0, 9, Status.SCHEDULED)


def test_a_job_is_named_by_object_function_name_or_bare_name(client: pool.Client) -> None:
    job = named_once
    ways = [job, job.type.function, "here.named_once", "named_once", job.options(priority="high")]

    types = [client.get(client.enqueue(way, {"a": 1})) for way in ways]

    assert {job.type for job in types} == {"here.named_once"}
    assert types[-1].priority == 20


def test_the_decorated_function_uses_the_configured_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBPOOL_BACKEND__URL", url)

    later = add.enqueue_in(60, 1, b=2)
    at = add.enqueue_at(datetime(2199, 1, 1, tzinfo=UTC), 1)
    now = add.enqueue(1)

    with pool.Client(url) as client:
        assert [client.get(receipt).status.value for receipt in (later, at, now)] == [
            "scheduled",
            "scheduled",
            "pending",
        ]
        assert client.get(at).run_at == datetime(2199, 1, 1, tzinfo=UTC).timestamp()
    pool.default_client().close()


def test_use_makes_another_client_the_one_behind_the_functions(client: pool.Client) -> None:
    pool.use(client)

    assert client.get(add.enqueue(a=1)).type == "here.add"


def test_wrong_arguments_are_refused_before_anything_is_stored(client: pool.Client) -> None:
    for payload in ({}, {"a": "x"}, {"a": 1, "c": 2}):
        with pytest.raises(pool.InvalidPayload):
            client.enqueue("here.add", payload)
    with pytest.raises(pool.InvalidJob, match="not a job"):
        client.enqueue(len, {})
    with pytest.raises(pool.InvalidJob, match="dict"):
        client.enqueue(add, [1])  # type: ignore[arg-type]
    assert stored(client) == 0


def test_an_idempotency_key_answers_with_the_first_job(client: pool.Client) -> None:
    first = client.enqueue(add, {"a": 1}, idempotency_key="🎉")
    same = client.enqueue(add, {"a": 1}, idempotency_key="🎉")
    other = client.enqueue(add, {"a": 2}, idempotency_key="🎉")

    assert (same.job_id, same.replayed, same.payload_differs) == (first.job_id, True, False)
    assert (other.job_id, other.replayed, other.payload_differs) == (first.job_id, True, True)


def test_a_declared_unique_key_keeps_one_live_job(client: pool.Client) -> None:
    first = client.enqueue(report, {"day": "monday"})

    assert client.enqueue(report, {"day": "monday"}).job_id == first.job_id
    assert client.enqueue(report, {"day": "tuesday"}).job_id != first.job_id
    client.cancel(first)
    assert client.enqueue(report, {"day": "monday"}).job_id != first.job_id


def test_odd_payloads_come_back_exactly(client: pool.Client) -> None:
    @pool.job
    def odd(value) -> None: ...  # type: ignore[no-untyped-def]

    for value in ("\0", "🎉" * 1000, {"": [None, True, 2**200, -0.5]}, "'; DROP TABLE jobs; --", "é\u2028"):
        job = client.get(client.enqueue(odd, {"value": value}))
        assert odd.type.arguments(job.payload) == {"value": value}


# ---------------------------------------------------------------- many at once


def test_many_jobs_enter_together_and_receipts_keep_their_order(client: pool.Client) -> None:
    told: list[int] = []
    items = [(add, {"a": n}, {"priority": n % 3}) for n in range(300)] + [add.draft(300)]  # type: ignore[list-item]

    receipts = client.enqueue_many(iter(items), progress=told.append)  # type: ignore[arg-type]

    assert told == [301]
    assert [json.loads(client.get(receipt).payload)["a"] for receipt in receipts] == list(range(301))


def test_one_bad_job_of_many_keeps_all_out(client: pool.Client) -> None:
    with pytest.raises(pool.InvalidPayload):
        client.enqueue_many([*((add, {"a": n}) for n in range(50)), (add, {"a": "x"})])
    with pytest.raises(pool.InvalidJob, match="draft"):
        client.enqueue_many([add])  # type: ignore[list-item]
    assert stored(client) == 0


def test_no_jobs_are_no_work(client: pool.Client) -> None:
    assert client.enqueue_many([]) == []


def test_more_than_ten_thousand_jobs_enter_only_in_chunks(client: pool.Client) -> None:
    def items(count: int) -> Any:
        return ((add, {"a": n}) for n in range(count))

    with pytest.raises(CallerError, match="chunked=True"):
        client.enqueue_many(items(10_001))
    assert stored(client) == 0

    told: list[int] = []
    assert len(client.enqueue_many(items(10_005), chunked=True, progress=told.append)) == 10_005
    assert told == [10_000, 10_005]
    assert stored(client) == 10_005


def test_an_error_in_a_later_chunk_says_how_many_are_stored(client: pool.Client) -> None:
    items = [*((add, {"a": n}) for n in range(10_000)), (add, {"a": "x"})]

    with pytest.raises(pool.InvalidPayload) as caught:
        client.enqueue_many(items, chunked=True)
    assert caught.value.__notes__ == ["10,000 jobs of earlier chunks are stored"]


def test_a_full_queue_refuses_the_whole_batch(client: pool.Client) -> None:
    client.enqueue_many([(add, {"a": n}) for n in range(5)])

    with pytest.raises(pool.QueueFull):
        client.enqueue_many([(add, {"a": 1})], refuse_above=3)
    assert stored(client) == 5


# ---------------------------------------------------------------- look up and change


def test_wait_returns_the_job_once_it_is_over(client: pool.Client) -> None:
    receipt = client.enqueue(add, {"a": 1})
    store, lane = client.backend(), _lane()
    claim = store.exchange(lane, 1, want=ANYTHING).claim
    assert claim is not None

    with pytest.raises(WaitedTooLong, match=r"still running after 0.05 s"):
        client.wait(receipt, timeout=0.05)
    with pytest.raises(TimeoutError):
        client.wait(receipt, timeout=0)
    done = Settlement(job_id=claim.job_id, claim=claim.claim, outcome=Outcome.COMPLETED, result="3")
    store.exchange(lane, 2, settlement=done)

    assert client.wait(receipt.job_id, timeout=5).result == "3"


def test_cancel_and_retry(client: pool.Client) -> None:
    receipt = client.enqueue(add, {"a": 1})

    assert client.cancel(receipt).status is Status.CANCELLED
    assert json.loads(client.retry(receipt, {"a": 5}).payload) == {"a": 5}
    with pytest.raises(pool.InvalidPayload):
        client.retry(receipt, {"a": "x"})
    with pytest.raises(pool.JobNotFound):
        client.get(new_job_id())


def _lane() -> Any:
    from pool.identity import LaneId

    return LaneId(worker())


# ---------------------------------------------------------------- by name


def test_with_nothing_known_a_name_is_taken_with_the_defaults(
    client: pool.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pool.jobs.registry.registry.entries()  # type: ignore[attr-defined]
    pool.jobs.registry.registry.restore({})  # type: ignore[attr-defined]
    try:
        job = client.get(client.enqueue("php.resize", {"w": 1}))
    finally:
        pool.jobs.registry.registry.restore(before)  # type: ignore[attr-defined]
    assert (job.type, job.queue, job.priority, job.max_retries) == ("php.resize", "default", 10, 3)


def test_a_published_type_brings_its_terms_and_its_schema(client: pool.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"w": {"type": "integer"}},
        "required": ["w"],
        "additionalProperties": False,
    }
    publish(client, {"shop.resize": {"queue": "images", "priority": 20, "max_retries": 0, "timeout": 9, "max_kills": 1,
                                     "schema": schema, "unique_key": "w:{w}", "aliases": ["old.resize"]}})  # fmt: skip

    for name in ("shop.resize", "resize", "old.resize"):
        job = client.get(client.enqueue(name, {"w": 1}))
        assert (job.type, job.queue, job.priority, job.max_retries, job.timeout, job.max_kills, job.unique_key) == (
            "shop.resize", "images", 20, 0, 9, 1, "w:1",
        )  # fmt: skip
    with pytest.raises(pool.InvalidPayload, match="w: ") as caught:
        client.enqueue("resize", {"w": "SECRET"})
    assert "SECRET" not in str(caught.value)
    with pytest.raises(pool.InvalidPayload, match="required"):
        client.enqueue("resize", {})


def test_an_unknown_type_names_the_known_ones_and_the_nearest(client: pool.Client) -> None:
    publish(client, {"shop.resize": {}})

    with pytest.raises(pool.UnknownType, match=r"Did you mean 'shop\.resize'.*here\.add"):
        client.enqueue("shop.resise", {})


def test_a_type_that_was_just_deployed_is_found(client: pool.Client) -> None:
    publish(client, {"shop.resize": {}})
    client.enqueue("shop.resize", {})
    publish(client, {"shop.resize": {}, "shop.crop": {"queue": "images"}})

    def crop() -> Receipt | None:
        try:
            return client.enqueue("shop.crop", {})
        except pool.UnknownType:
            return None

    receipt = until(crop, "the new type")
    assert receipt is not None
    assert client.get(receipt).queue == "images"


def test_odd_facts_of_another_version_harm_nothing(client: pool.Client) -> None:
    publish(
        client, {"a.b": None, "c.d": {"queue": ["x"], "schema": {"type": "nonsense"}, "aliases": 5, "max_retries": "3"}}
    )

    assert client.get(client.enqueue("a.b", {"any": 1})).queue == "default"
    with pytest.raises(pool.InvalidJob, match="max_retries"):
        client.enqueue("c.d", {})


# ---------------------------------------------------------------- lost answers


class LosesItsFirstAnswer:
    """A real store whose first answer to enqueue never arrives."""

    def __init__(self, store: Any) -> None:
        self.store, self.calls = store, 0

    def enqueue(self, jobs: Sequence[NewJob], **how: Any) -> list[Receipt]:
        self.calls += 1
        receipts = self.store.enqueue(jobs, **how)
        if self.calls == 1:
            raise OutcomeUnknown("redis", "connection reset", [job.id for job in jobs])
        return receipts


def test_a_lost_answer_is_asked_for_again_and_doubles_nothing(
    client: pool.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pool.client.ASK_AGAIN_WITHIN_S", 60.0)  # the store itself may be slow
    store = LosesItsFirstAnswer(client.backend())
    former = stand_in(store)  # type: ignore[arg-type]
    try:
        receipt = client.enqueue(add, {"a": 1})
    finally:
        stand_in(former)

    assert store.calls == 2
    assert [job.id for job in client.backend().jobs(JobFilter()).jobs] == [receipt.job_id]


# ---------------------------------------------------------------- where the store is


@pytest.fixture
def a_clean_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STATE_DIRECTORY", "JOBPOOL_CONFIG", "JOBPOOL_BACKEND__URL", "JOBPOOL_POOL__STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_missing_store_at_the_default_place_is_named_and_not_created(a_clean_home: Path) -> None:
    with pytest.raises(BackendUnavailable, match=r"state/jobpool/jobpool\.db.*jobpool start.*JOBPOOL_BACKEND__URL"):
        add.enqueue(1)
    assert not (a_clean_home / "state").exists()


def test_a_store_at_a_configured_place_is_created(a_clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (a_clean_home / "jobpool.toml").write_text(f'[backend]\nurl = "sqlite:///{a_clean_home}/mine.db"\n')

    add.enqueue(1)

    assert (a_clean_home / "mine.db").exists()
    pool.default_client().close()


def test_the_defaults_of_the_configuration_hold_for_jobs_that_say_nothing(a_clean_home: Path) -> None:
    from pool.jobs.registry import registry

    (a_clean_home / "jobpool.toml").write_text(
        f'[backend]\nurl = "sqlite:///{a_clean_home}/mine.db"\n[jobs]\ntimeout = 77\nmax_payload = 100\n'
    )
    defaults = registry.defaults
    try:
        client = pool.default_client()
        assert client.get(add.enqueue(1)).timeout == 77
        with pytest.raises(pool.errors.PayloadTooLarge):
            client.enqueue(report, {"day": "x" * 200})
        client.close()
    finally:
        registry.defaults = defaults


def test_a_url_that_names_no_store_is_refused_without_its_password() -> None:
    with pytest.raises(pool.errors.ConfigError, match="names no backend") as caught:
        pool.Client("postgres://user:s3cr3t@host/db").enqueue(add, {"a": 1})
    assert "s3cr3t" not in str(caught.value)


def test_a_database_in_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(pool.JobpoolError, match="missing/folder"):
        pool.Client(f"sqlite:///{tmp_path}/missing/folder/x.db").enqueue(add, {"a": 1})
