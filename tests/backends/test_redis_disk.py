"""At most once, and durable: what the disk of the server has to say (WAITAOF, Redis 7.2 and Valkey)."""

import pytest

from pool.backends.redis.backend import RedisBackend
from pool.errors import OutcomeUnknown
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, new_job, put
from tests.helpers.servers import Server, running

CAN_TELL = "valkey"  # Debian's Redis is 7.0, which has no WAITAOF


def _calls(server: Server, command: str) -> int:
    return int(server.call("INFO", "commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


def test_an_at_most_once_claim_waits_for_the_disk() -> None:
    with running(CAN_TELL, aof=True, fsync="everysec") as server:
        store = RedisBackend(server.url)
        put(store, max_retries=0)
        assert Hand(store).claim() is not None
        assert _calls(server, "waitaof") == 1
        put(store)
        assert Hand(store).claim() is not None
        assert _calls(server, "waitaof") == 1, "other jobs do not wait"
        store.close()


def test_a_claim_that_the_disk_does_not_confirm_goes_back_unstarted() -> None:
    with running(CAN_TELL, aof=True, fsync="no") as server:
        store = RedisBackend(server.url)
        job_id = put(store, max_retries=0)
        hand = Hand(store)
        assert hand.claim() is None, "this server never syncs"
        job = store.job(job_id)
        assert (job.status, job.retry_count, job.attempts) == (Status.PENDING, 0, ())
        hand.request -= 1
        assert hand.claim() is None, "the same request, the same answer"
        server.call("CONFIG", "SET", "appendfsync", "always")
        claim = hand.take()
        assert claim.job_id == job_id and claim.claim == 2
        assert hand.settle(started_at=store.server_now()).settled
        store.close()


def test_the_repeated_request_of_an_at_most_once_claim_waits_for_the_disk_too() -> None:
    """WAITAOF counts the writes of its own connection, so the repeat on a new one must write."""
    with running(CAN_TELL, aof=True, fsync="always") as server:
        store, again = RedisBackend(server.url), RedisBackend(server.url)
        put(store, max_retries=0)
        hand = Hand(store)
        claim = hand.take()
        offset = server.call("INFO", "replication")["master_repl_offset"]
        assert again.exchange(hand.lane, 1, want=ANYTHING).claim.job_id == claim.job_id
        assert server.call("INFO", "replication")["master_repl_offset"] >= offset
        assert _calls(server, "waitaof") == 2
        store.close()
        again.close()


def test_a_durable_enqueue_is_in_the_file_when_it_returns() -> None:
    with running(CAN_TELL, aof=True, fsync="everysec") as server:
        store = RedisBackend(server.url)
        job = new_job()
        store.enqueue([job], durable=True)
        server.kill()
        server.start()
        assert store.job(job.id).status is Status.PENDING
        store.close()


def test_a_durable_enqueue_that_is_not_confirmed_says_unknown() -> None:
    with running(CAN_TELL, aof=True, fsync="no") as server:
        store = RedisBackend(server.url)
        job = new_job()
        with pytest.raises(OutcomeUnknown, match=job.id):
            store.enqueue([job], durable=True)
        store.close()


def test_a_server_that_cannot_tell_is_taken_as_it_is(flavour: str) -> None:
    """No AOF, or a server without WAITAOF: said at start, and the claim is given."""
    with running(flavour) as server:
        store = RedisBackend(server.url)
        put(store, max_retries=0)
        store.enqueue([new_job()], durable=True)
        assert Hand(store).claim() is not None
        store.close()


def test_warnings_at_start_name_what_may_lose_jobs(flavour: str) -> None:
    with running(flavour) as server:
        store = RedisBackend(server.url)
        [persistence] = store.startup_warnings()
        assert "appendonly" in persistence
        server.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        assert any("noeviction" in warning for warning in store.startup_warnings())
        store.close()
    with running(flavour, aof=True) as server:
        store = RedisBackend(server.url)
        assert store.startup_warnings() == []
        store.close()
