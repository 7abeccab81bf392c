"""Outages of a Redis server: what a caller hears, how fast, and that nothing is lost or doubled on the way."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from pool.backends.redis.backend import RedisBackend
from pool.errors import BackendFull, BackendUnavailable, OutcomeUnknown
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, new_job, new_jobs, put
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, free_port, running
from tests.helpers.stores import in_child
from tests.helpers.until import until

WITHIN_SECONDS = 2.0
SLACK_SECONDS = 8.0  # a busy machine


@pytest.fixture
def server(flavour: str) -> Iterator[Server]:
    with running(flavour, aof=True) as found:
        yield found


@pytest.fixture
def store(server: Server) -> Iterator[RedisBackend]:
    found = RedisBackend(server.url, "outage")
    yield found
    found.close()


def _seconds_to_refuse(call) -> float:
    begin = time.monotonic()
    with pytest.raises(BackendUnavailable):
        call()
    return time.monotonic() - begin


# ---------------------------------------------------------------- the connection goes


def test_a_killed_connection_is_replaced_unseen(server: Server, store: RedisBackend) -> None:
    hand = Hand(store)
    for _ in range(10):
        put(store)
        server.call("CLIENT", "KILL", "TYPE", "normal")
        hand.take()
        server.call("CLIENT", "KILL", "TYPE", "normal")
        assert hand.complete()
    assert store.statistics().completed == 10


def test_a_restart_loses_nothing_and_the_same_object_works_on(server: Server, store: RedisBackend) -> None:
    hand = Hand(store)
    ids = [receipt.job_id for receipt in store.enqueue(new_jobs(5))]
    hand.take()
    server.restart()
    assert hand.complete()
    server.kill()
    server.start()
    done = {hand.take().job_id for _ in range(4) if hand.held is None or hand.complete()}
    assert hand.complete()
    assert done == set(ids[1:])
    assert store.statistics().completed == 5


def test_while_the_server_is_down_every_call_refuses_at_once(server: Server, store: RedisBackend) -> None:
    put(store)
    server.stop()
    for call in (lambda: put(store), Hand(store).claim, store.queues, store.ping, store.recover_expired):
        assert _seconds_to_refuse(call) < WITHIN_SECONDS + SLACK_SECONDS
    begin = time.monotonic()
    store.wait(ANYTHING, 30)
    assert time.monotonic() - begin < SLACK_SECONDS, "a wait for an absent store is bounded"
    server.start()
    assert Hand(store).claim() is not None


def test_a_frozen_server_is_given_up_within_two_seconds(server: Server, store: RedisBackend) -> None:
    put(store)
    hand = Hand(store)
    server.freeze()
    for call in (store.ping, hand.claim):
        taken = _seconds_to_refuse(call)
        assert 1.0 < taken < WITHIN_SECONDS + SLACK_SECONDS
    server.thaw()
    hand.request -= 1  # the same request again
    assert hand.claim() is not None


def test_an_enqueue_to_a_frozen_server_says_that_its_outcome_is_unknown(server: Server, store: RedisBackend) -> None:
    store.ping()
    jobs = new_jobs(2)
    server.freeze()
    with pytest.raises(OutcomeUnknown) as refusal:
        store.enqueue(jobs)
    assert refusal.value.job_ids == tuple(job.id for job in jobs)
    server.thaw()
    assert [receipt.job_id for receipt in store.enqueue(jobs)] == [job.id for job in jobs]
    assert store.statistics().enqueued == 2


class Cutter:
    """A proxy that passes requests on and cuts the line instead of giving the first reply back."""

    def __init__(self, port: int, cuts: int) -> None:
        self._target, self.cuts = port, cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with near, socket.create_connection(("127.0.0.1", self._target)) as far:
                self._pass_on(near, far)

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        while request := near.recv(65536):
            far.sendall(request)
            reply = far.recv(65536)
            if self.cuts > 0 and b"NOSCRIPT" not in reply:
                self.cuts -= 1
                return
            near.sendall(reply)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def test_a_lost_reply_of_enqueue_stores_the_job_once(server: Server) -> None:
    cutter = Cutter(server.port, cuts=1)
    store = RedisBackend(f"redis://127.0.0.1:{cutter.port}/0", "outage")
    job = new_job()
    receipt = store.enqueue([job])[0]
    assert receipt.job_id == job.id
    assert store.statistics().enqueued == 1
    store.close()
    cutter.close()


def test_two_lost_replies_of_enqueue_are_told_with_the_ids(server: Server) -> None:
    cutter = Cutter(server.port, cuts=2)
    store = RedisBackend(f"redis://127.0.0.1:{cutter.port}/0", "outage")
    job = new_job()
    with pytest.raises(OutcomeUnknown, match=job.id):
        store.enqueue([job])
    assert store.enqueue([job])[0].job_id == job.id
    assert store.statistics().enqueued == 1
    store.close()
    cutter.close()


def test_a_lost_reply_of_a_claim_hands_out_one_job(server: Server) -> None:
    cutter = Cutter(server.port, cuts=0)
    store = RedisBackend(f"redis://127.0.0.1:{cutter.port}/0", "outage")
    store.enqueue(new_jobs(3))
    hand = Hand(store)
    cutter.cuts = 1
    first = hand.take()
    assert [queue.running for queue in store.queues()] == [1]
    cutter.cuts = 1
    answer = hand.settle(want=ANYTHING)
    assert answer.settled is True and answer.claim is not None and answer.claim.job_id != first.job_id
    assert store.statistics().completed == 1
    store.close()
    cutter.close()


# ---------------------------------------------------------------- the server refuses


def test_a_server_turned_replica_refuses_and_is_found_again(server: Server, store: RedisBackend) -> None:
    put(store)
    hand = Hand(store)
    hand.take()
    server.call("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(BackendUnavailable, match="replica"):
        put(store)
    with pytest.raises(BackendUnavailable):
        hand.complete()
    server.call("REPLICAOF", "NO", "ONE")
    hand.request -= 1
    assert hand.complete()


def test_a_blocking_script_makes_the_store_away_and_no_more(server: Server, store: RedisBackend) -> None:
    server.call("CONFIG", "SET", "lua-time-limit", 50)
    put(store)
    hand = Hand(store)
    blocker = threading.Thread(target=_block, args=(server,))
    blocker.start()
    until(lambda: _is_blocked(store), "the blocked server")
    with pytest.raises(BackendUnavailable):
        hand.claim()
    server.call("SCRIPT", "KILL")
    blocker.join()
    hand.request -= 1
    assert hand.claim() is not None


def _block(server: Server) -> None:
    import redis

    with server.client(socket_timeout=60) as client, pytest.raises(redis.RedisError):
        client.eval("while true do end", 0)


def _is_blocked(store: RedisBackend) -> bool:
    try:
        store.ping()
    except BackendUnavailable:
        return True
    return False


def test_a_full_server_refuses_new_jobs_and_settles_old_ones(flavour: str) -> None:
    with running(flavour, maxmemory="20mb") as server:
        store = RedisBackend(server.url, "full")
        put(store)
        hand = Hand(store)
        hand.take()
        accepted = 1
        with pytest.raises(BackendFull, match="maxmemory"):
            while True:
                accepted += len(store.enqueue(new_jobs(100, payload='"' + "x" * 10_000 + '"')))
        assert [queue.pending + queue.running for queue in store.queues()] == [accepted]
        assert hand.complete()
        while hand.claim():
            assert hand.complete()
        assert store.statistics().completed == accepted
        store.close()


def test_scripts_flushed_between_calls_are_sent_again(server: Server, store: RedisBackend) -> None:
    hand = Hand(store)
    for _ in range(3):
        put(store)
        server.call("SCRIPT", "FLUSH")
        hand.take()
        server.call("SCRIPT", "FLUSH")
        assert hand.complete()
    assert store.statistics().completed == 3


# ---------------------------------------------------------------- wrong addresses


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:nonsense@127.0.0.1:{port}/0", "password is wrong"),
        ("redis://127.0.0.1:{port}/0", "wants a password"),
        ("redis://:secret@127.0.0.1:{port}/99", "database number"),
        ("redis://:secret@no-such-host.invalid:{port}/0", "does not resolve|was not resolved"),
        ("redis://:secret@127.0.0.1:1/0", "refused"),
        ("unix:///nowhere/redis.sock", "no such file"),
        ("redis+sentinel://127.0.0.1:1/house/0", "refused"),
        ("rediss://:secret@127.0.0.1:{port}/0", "TLS"),
    ],
)
def test_a_wrong_address_is_told_in_words_without_the_password(url: str, words: str) -> None:
    with running(DEFAULT_FLAVOUR, password="secret") as server:
        store = RedisBackend(url.format(port=server.port))
        begin = time.monotonic()
        with pytest.raises(BackendUnavailable, match=f"(?i){words}") as refusal:
            store.enqueue([new_job()])
        assert time.monotonic() - begin < WITHIN_SECONDS + SLACK_SECONDS
        assert "secret" not in str(refusal.value) and "nonsense" not in str(refusal.value)
        assert not isinstance(refusal.value, OutcomeUnknown)
        assert "secret" not in store.url
        store.close()


def test_a_silent_address_is_given_up_within_two_seconds() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", free_port()))
        silent.listen(1)
        store = RedisBackend(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        assert _seconds_to_refuse(store.ping) < WITHIN_SECONDS + SLACK_SECONDS
        store.close()


# ---------------------------------------------------------------- forks


def test_a_forked_child_opens_a_connection_of_its_own(server: Server, store: RedisBackend) -> None:
    put(store)
    mine = store._session.command("CLIENT", "ID")
    child = in_child(lambda: (store._session.command("CLIENT", "ID"), len(store.queues()), store.close()))
    theirs, queues, _ = child.result()
    assert theirs != mine and queues == 1
    assert store._session.command("CLIENT", "ID") == mine, "the parent's connection was disturbed"


def test_a_child_that_only_ends_leaves_the_parents_connection_alone(server: Server, store: RedisBackend) -> None:
    mine = store._session.command("CLIENT", "ID")
    pid = os.fork()
    if pid == 0:
        store.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert store._session.command("CLIENT", "ID") == mine


# ---------------------------------------------------------------- sleeping


def test_a_socket_timeout_shorter_than_the_sleep_disturbs_no_idle_worker(server: Server) -> None:
    store = RedisBackend(server.url + "?socket_timeout=0.5", "outage")
    before = store._session.command("CLIENT", "ID")
    begin = time.monotonic()
    store.wait(ANYTHING, 3.5)
    assert time.monotonic() - begin >= 3.4
    assert store._session.command("CLIENT", "ID") == before
    put(store)
    assert Hand(store).claim() is not None
    store.close()


def test_an_interrupted_wait_never_gets_replies_out_of_step(server: Server, store: RedisBackend) -> None:
    out, into = os.pipe()
    os.write(into, b"!")
    for number in range(20):
        store.wait(ANYTHING, 5, interrupt_fd=out)
        put(store)
        assert [queue.pending for queue in store.queues()] == [number + 1]
    os.close(out)
    os.close(into)


def test_a_signal_does_not_end_a_call(server: Server, store: RedisBackend) -> None:
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for _ in range(500):
            put(store)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung and store.statistics().enqueued == 500


def test_bells_hold_one_token_however_often_they_are_rung(server: Server, store: RedisBackend) -> None:
    store.wait(ANYTHING, 0)
    for _ in range(50):
        put(store)
    assert server.call("LLEN", "{jobpool:outage}:bell:0:100:*:") == 1


def test_a_bell_whose_token_was_lost_costs_one_second(server: Server, store: RedisBackend) -> None:
    store.wait(ANYTHING, 0)
    put(store)
    server.call("DEL", "{jobpool:outage}:bell:0:100:*:")
    begin = time.monotonic()
    store.wait(ANYTHING, 30)
    assert time.monotonic() - begin < SLACK_SECONDS
    assert store.job(Hand(store).take().job_id).status is Status.RUNNING
