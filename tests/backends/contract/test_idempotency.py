"""Idempotency keys: the first job answers for its owner's key as long as the key is remembered."""

from pool.backends.contract import Backend
from pool.jobs.lifecycle import Status
from tests.helpers.builders import Hand, new_job, put
from tests.helpers.states import unchanged
from tests.helpers.stores import Place, together
from tests.helpers.until import until

LONG = 1e9


def test_a_known_key_answers_with_the_first_job(store: Backend) -> None:
    first = put(store, idempotency_key="order-1")
    with unchanged(store):
        again = store.enqueue([new_job(idempotency_key="order-1")])[0]
    assert (again.job_id, again.replayed, again.payload_differs, again.status) == (first, True, False, Status.PENDING)


def test_a_new_key_is_a_new_job(store: Backend) -> None:
    receipts = store.enqueue([new_job(idempotency_key="a"), new_job(idempotency_key="b"), new_job()])
    assert [receipt.replayed for receipt in receipts] == [False] * 3
    assert len({receipt.job_id for receipt in receipts}) == 3


def test_another_payload_under_the_same_key_is_pointed_out(store: Backend) -> None:
    first = put(store, idempotency_key="k", payload='{"amount": 10}')
    with unchanged(store):
        again = store.enqueue([new_job(idempotency_key="k", payload='{"amount": 99}')])[0]
    assert (again.job_id, again.replayed, again.payload_differs) == (first, True, True)
    assert store.job(first).payload == '{"amount": 10}'


def test_another_type_under_the_same_key_is_pointed_out(store: Backend) -> None:
    first = put(store, idempotency_key="k", type="mail.send")
    again = store.enqueue([new_job(idempotency_key="k", type="mail.delete")])[0]
    assert (again.job_id, again.replayed, again.payload_differs) == (first, True, True)


def test_a_key_belongs_to_its_owner(store: Backend) -> None:
    """Nobody can probe another producer's keys: the same key of another owner is a new job."""
    mine = put(store, idempotency_key="k", owner="shop")
    other = store.enqueue([new_job(idempotency_key="k", owner="blog")])[0]
    assert not other.replayed and other.job_id != mine
    assert put(store, idempotency_key="k", owner="shop") == mine


def test_owner_and_key_are_not_run_together(store: Backend) -> None:
    pairs = [("a", "b:c"), ("a:b", "c"), ("a/b", "c"), ("a", "b/c"), ("", "a"), ("a", ""), ("a\tb", "c"), ("a", "b\tc")]
    receipts = [store.enqueue([new_job(owner=owner, idempotency_key=key)])[0] for owner, key in pairs]
    assert len({receipt.job_id for receipt in receipts}) == len(pairs)


def test_a_key_answers_with_the_state_its_job_is_in_now(store: Backend, hand: Hand) -> None:
    put(store, idempotency_key="k")
    hand.take()
    assert store.enqueue([new_job(idempotency_key="k")])[0].status is Status.RUNNING
    hand.complete()
    with unchanged(store):
        again = store.enqueue([new_job(idempotency_key="k")])[0]
    assert (again.replayed, again.status) == (True, Status.COMPLETED)


def test_a_key_outlives_the_record_of_its_job(store: Backend, hand: Hand) -> None:
    first = put(store, idempotency_key="k", payload='{"n":1}')
    hand.take()
    hand.complete()
    until(lambda: store.forget(completed_s=0.0, failed_s=LONG, idempotency_s=LONG) > 0, "the record's end")
    again = store.enqueue([new_job(idempotency_key="k", payload='{"n":2}')])[0]
    assert (again.job_id, again.replayed, again.status) == (first, True, Status.COMPLETED)
    assert again.payload_differs
    assert hand.claim() is None


def test_a_purged_job_leaves_its_key_behind(store: Backend) -> None:
    first = put(store, idempotency_key="k")
    assert store.purge("default", statuses=frozenset({Status.PENDING})) == 1
    again = store.enqueue([new_job(idempotency_key="k")])[0]
    assert (again.job_id, again.replayed) == (first, True)


def test_a_forgotten_key_is_free_though_its_job_is_still_kept(store: Backend, hand: Hand) -> None:
    first = put(store, idempotency_key="k")
    hand.take()
    hand.complete()
    until(lambda: store.forget(completed_s=LONG, failed_s=LONG, idempotency_s=0.0) > 0, "the key's end")
    again = store.enqueue([new_job(idempotency_key="k")])[0]
    assert not again.replayed and again.job_id != first
    assert store.job(first).status is Status.COMPLETED


def test_an_old_key_forgotten_late_does_not_take_the_new_one_with_it(store: Backend, hand: Hand) -> None:
    put(store, idempotency_key="k")
    hand.take()
    hand.complete()
    until(lambda: store.forget(completed_s=LONG, failed_s=LONG, idempotency_s=0.0) > 0, "the key's end")
    second = put(store, idempotency_key="k")
    until(lambda: store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=LONG) > 0, "the old record's end")
    assert put(store, idempotency_key="k") == second


def test_a_key_long_and_odd_is_a_key_like_any_other(store: Backend) -> None:
    for key in ("🔑" * 40, "k'; DROP TABLE jobs; --", "*", "a b\nc", "{x}", "%s", "k" * 255):
        first = put(store, idempotency_key=key)
        assert put(store, idempotency_key=key) == first


def test_fifty_processes_with_one_key_make_one_job(place: Place) -> None:
    """Each round all of them enqueue the same key at once."""
    rounds = 5

    def work(number: int) -> list[tuple[str, bool]]:
        store = place.open()
        receipts = [store.enqueue([new_job(idempotency_key=f"round-{turn}")])[0] for turn in range(rounds)]
        store.close()
        return [(receipt.job_id, receipt.replayed) for receipt in receipts]

    answers = together(50, work)
    for turn in range(rounds):
        assert len({answer[turn][0] for answer in answers}) == 1
        assert sum(not answer[turn][1] for answer in answers) == 1
    assert place.open().statistics().enqueued == rounds
