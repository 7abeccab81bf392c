"""Moving a store: whatever is in one kind is the same in the other, whoever is killed on the way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pool.backends.contract import AuditEntry, Backend, JobFilter
from pool.backends.moving import Books, CarriedJob, Mark
from pool.backends.opening import open_backend
from pool.cli import moving
from pool.cli.failures import Refused
from pool.cli.moving import Side
from pool.errors import BackendFull, BackendUnavailable, StoreMoved
from pool.jobs.ids import new_job_id
from pool.jobs.job import Job, NewBatch, Outcome
from pool.jobs.lifecycle import Status
from tests.backends.redis_lab import CONTENT, QUEUE_SETS
from tests.helpers.builders import ANYTHING, Hand, beat, drain, new_job, new_jobs, put, some_pool
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, running
from tests.helpers.stores import in_child

WAYS = [("sqlite", "redis"), ("redis", "sqlite"), ("sqlite", "sqlite"), ("redis", "redis")]
LATER_S = 86_400.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(DEFAULT_FLAVOUR) as found:
        yield found


@pytest.fixture
def open_side(server: Server, tmp_path: Path) -> Iterator[Callable[[str, str], Side]]:
    """A side of this kind under a name of the test's own."""
    with ExitStack() as stack:
        space = new_job_id()

        def open_one(kind: str, name: str) -> Side:
            url = server.url if kind == "redis" else f"sqlite:///{tmp_path}/{name}.db"
            backend = open_backend(url, namespace=f"{name}-{space}", producer=True)
            stack.callback(backend.close)
            return moving.side_of(backend, f"{name}-{space}")

        yield open_one


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-to-{way[1]}")
def sides(request: pytest.FixtureRequest, open_side: Callable[[str, str], Side]) -> tuple[Side, Side]:
    source, target = request.param
    return open_side(source, "source"), open_side(target, "target")


def move(source: Side, target: Side) -> moving.Account:
    """As the command does, quietly."""
    moving.refuse_if_impossible(source, target)
    return moving.move(source, target, lambda done, total: None, lambda seconds: None, lambda text: None)


def furnish(store: Backend) -> dict[str, str]:
    """A job in every state a job can rest in, and something of everything else; ids by name."""
    made: dict[str, str] = {}
    hand = Hand(store)
    follow = {"on_success": new_job(queue="next", limit_key="f", limit_count=2, limit_per_s=3.0)}

    def put_and_take(name: str, **fields: Any) -> None:
        made[name] = put(store, priority=90, **fields)
        assert hand.take().job_id == made[name]

    put_and_take("completed", idempotency_key="once", payload='{"n":1}')
    hand.settle(result='{"got":"ü"}', output="said\n", started_at=store.server_now())
    put_and_take("failed", owner="shop", max_retries=7)
    hand.fail()
    put_and_take("retried", max_retries=7, **follow)
    hand.retry(LATER_S)
    put_and_take("returned", unique_key="u", timeout=12.5)
    store.report(hand.as_held(), progress=0.5, note="half", checkpoint='{"at":3}')
    hand.give_back()
    made["cancelled"] = put(store)
    store.cancel(made["cancelled"])
    made["scheduled"] = put(store, delay=LATER_S, expires_in=2 * LATER_S, parent_id=made["failed"])
    made["limited"] = put(store, limit_key="k", limit_count=5, limit_per_s=60.0, limit_running=2)
    made["emoji"] = put(
        store, queue="große 🎉", payload='{"t":"🎉"}', max_retries=0, owner="o\0p", idempotency_key="k\0"
    )
    batch = new_job_id()
    made["member"] = store.enqueue([new_job()], batch=NewBatch(id=batch, on_complete=new_job(queue="after")))[0].job_id
    store.tick("nightly", "v1", 1000.0, new_job())
    store.set_queue("default", max_pending=77)
    store.set_queue("still", paused=True)
    store.set_ageing(600.0)
    store.set_setting("colour", "blue")
    store.note(AuditEntry(who="ann", act="purge", details='{"n":1}'))
    gone = put(store, idempotency_key="gone", priority=95)
    hand.take()
    hand.fail()
    store.delete([gone])
    return made


def everything(store: Backend) -> dict[str, Any]:
    """All that people can see, but for what belongs to the store itself."""
    found: dict[str, Job] = {}
    after = None
    while True:
        page = store.jobs(JobFilter(), after=after, limit=500)
        found |= {job.id: comparable(store.job(job.id)) for job in page.jobs}
        if (after := page.after) is None:
            break
    numbers = store.statistics()
    queues = {
        q.name: (q.pending, q.scheduled, q.running, q.completed, q.failed, q.overdue, q.paused, q.max_pending)
        for q in store.queues()
    }
    totals = (numbers.enqueued, numbers.completed, numbers.retried, numbers.failed, numbers.cancelled, numbers.delayed)
    return {"jobs": found, "queues": queues, "totals": totals, "hours": numbers.hours, "ageing": store.ageing(),
            "tick": store.last_tick("nightly"), "last": store.last_job("nightly"), "colour": store.setting("colour"),
            "audit": store.audit()}  # fmt: skip


def comparable(job: Job) -> Job:
    """Without what the stores show differently: the last change, and the last claim of a job that is over."""
    return replace(job, updated_at=0.0, claimed_at=None, run_at=round(job.run_at, 4))


def test_everything_arrives_as_it_was(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = furnish(source.backend)
    before = everything(source.backend)

    account = move(source, target)

    after = everything(target.backend)
    assert after["jobs"] == before["jobs"]
    assert after == before
    assert account.jobs == len(before["jobs"])
    assert source.store.count() == (0, 0)
    batch = before["jobs"][made["member"]].batch_id
    assert target.backend.batch(batch).open == 1


def test_what_has_moved_behaves_as_it_would_have(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = furnish(source.backend)
    move(source, target)
    store = target.backend

    again = store.enqueue([new_job(idempotency_key="once", payload='{"n":1}')])[0]
    other = store.enqueue([new_job(idempotency_key="once", payload='{"n":2}')])[0]
    assert (again.job_id, again.payload_differs, other.payload_differs) == (made["completed"], False, True)
    forgotten = store.enqueue([new_job(idempotency_key="gone")])[0]
    assert (forgotten.status, forgotten.replayed) == (Status.FAILED, True)
    assert store.enqueue([new_job(unique_key="u")])[0].job_id == made["returned"]
    assert store.tick("nightly", "v1", 1000.0, new_job()) is None

    hand = Hand(store)
    claim = hand.take()
    assert claim.job_id == made["returned"]
    assert (claim.claim, claim.checkpoint, claim.timeout) == (2, '{"at":3}', 12.5)
    hand.complete()
    assert store.enqueue([new_job(unique_key="u")])[0].replayed is False
    store.revive(made["failed"])
    drain(hand)
    assert {state.name for state in store.queues() if state.pending} == set()
    assert store.job(made["member"]).status is Status.COMPLETED
    assert [job.queue for job in store.jobs(JobFilter(queue="after")).jobs] == ["after"]


def test_equal_priorities_stay_in_line(sides: tuple[Side, Side]) -> None:
    source, target = sides
    ids = [receipt.job_id for receipt in source.backend.enqueue(list(reversed(new_jobs(1200))))]
    move(source, target)
    assert drain(Hand(target.backend)) == ids


def test_there_and_back(open_side: Callable[[str, str], Side]) -> None:
    here, there = open_side("sqlite", "here"), open_side("redis", "there")
    furnish(here.backend)
    before = everything(here.backend)
    move(here, there)
    move(there, here)
    assert everything(here.backend) == before


def test_a_move_is_killed_at_every_step_and_ends_whole(sides: tuple[Side, Side]) -> None:
    """Each run dies one call to a store later than the one before, until one comes to its end."""
    source, target = sides
    furnish(source.backend)
    source.backend.enqueue(new_jobs(700, queue="many"))
    before = everything(source.backend)
    for step in range(1, 1000):
        child = in_child(lambda step=step: _move_and_die(source, target, step))
        if not _died(child.pid, child.answer_fd):
            break
    assert step > 4
    assert everything(target.backend) == before
    assert source.store.count() == (0, 0)


def _move_and_die(source: Side, target: Side, steps: int) -> None:
    left = [steps]
    for side in (source, target):
        for name in ("set_mark", "hold", "drop", "hold_keys", "drop_keys", "hold_books", "drop_books"):
            setattr(side.store, name, _deadly(getattr(side.store, name), left))
    move(source, target)


def _deadly(step: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        step(*args)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return run


def _died(pid: int, answer_fd: int) -> bool:
    with os.fdopen(answer_fd, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or b"Traceback" not in text, text.decode(errors="replace")
    return os.WIFSIGNALED(status)


# ---------------------------------------------------------------- meanwhile, and what is refused


def test_nothing_is_handed_out_or_taken_in_meanwhile(sides: tuple[Side, Side]) -> None:
    source, target = sides
    put(source.backend)
    moving._close_both(source, target)
    target.store.hold([job for portion in source.store.jobs(10) for job in portion])
    for side in sides:
        assert Hand(side.backend).claim() is None
        with pytest.raises(StoreMoved):
            put(side.backend)
        with pytest.raises(StoreMoved):
            side.backend.tick("nightly", "v1", 2000.0, new_job())
        with pytest.raises(StoreMoved):
            side.backend.set_queue("default", paused=False)


def test_a_moved_store_says_where_its_jobs_are(sides: tuple[Side, Side]) -> None:
    source, target = sides
    put(source.backend)
    move(source, target)
    with pytest.raises(StoreMoved) as refusal:
        put(source.backend)
    assert target.name in str(refusal.value)
    assert put(target.backend)


def test_a_pool_that_runs_on_either_side_forbids_it(sides: tuple[Side, Side]) -> None:
    source, target = sides
    put(source.backend)
    for side in sides:
        pool = some_pool("busy")
        side.backend.beat(beat(pool))
        with pytest.raises(Refused, match="pool busy@"):
            move(source, target)
        side.backend.leave(pool)
    assert move(source, target).jobs == 1


def test_a_target_with_jobs_and_another_move_are_refused(
    sides: tuple[Side, Side], open_side: Callable[[str, str], Side]
) -> None:
    source, target = sides
    elsewhere = open_side("sqlite", "elsewhere")
    put(source.backend)
    put(elsewhere.backend)
    with pytest.raises(Refused, match="holds 1 jobs already"):
        move(source, elsewhere)
    moving._close_both(source, target)
    empty = open_side("sqlite", "empty")
    with pytest.raises(Refused, match="another move, which was interrupted"):
        move(source, empty)
    assert move(source, target).jobs == 1
    for other in (empty, target):
        with pytest.raises(Refused, match="have been moved to"):
            move(source, other)


def test_a_job_of_a_dead_pool_is_taken_back_first(open_side: Callable[[str, str], Side]) -> None:
    source, target = open_side("sqlite", "source"), open_side("redis", "target")
    job = put(source.backend)
    url = source.backend.url
    in_child(lambda: _take(url)).result()
    source.backend.beat(beat(some_pool()))  # somebody who has long left
    for state in source.backend.pools():
        source.backend.leave(state.pool)
    assert move(source, target).jobs == 1
    assert target.backend.job(job).status is Status.PENDING


def _take(url: str) -> None:
    store = open_backend(url)
    assert Hand(store).claim(ANYTHING) is not None
    store.close()


def test_the_outcomes_of_attempts_travel(sides: tuple[Side, Side]) -> None:
    source, target = sides
    job = put(source.backend, max_retries=20)
    hand = Hand(source.backend)
    for _ in range(12):
        hand.take()
        hand.retry()
    hand.take()
    hand.settle(Outcome.FAILED, output="last words", started_at=1.0)
    before = source.backend.job(job).attempts
    move(source, target)
    assert target.backend.job(job).attempts == before
    assert len(before) == 10


# ---------------------------------------------------------------- no rollback on Redis

MOVE_STEPS: dict[str, Callable[[Side, list[CarriedJob]], object]] = {
    "put on": lambda side, jobs: side.store.set_mark(Mark(role="target", peer="elsewhere")),
    "take off": lambda side, jobs: side.store.set_mark(None),
    "hold": lambda side, jobs: side.store.hold(jobs),
    "drop": lambda side, jobs: side.store.drop([job.job.id for job in jobs]),
    "hold books": lambda side, jobs: side.store.hold_books(
        Books(queues={"default": (True, 5)}, hours={1: {"failed": 3}})
    ),
}
KEYS = ("jobs", "state", "past", "ids", "heads", "dues", "queues", "stats", "unique", "idem", "idem_at", "bells", "expiry",
        "pools", "moving", *(f"{part}:default" for part in QUEUE_SETS))  # fmt: skip


@pytest.mark.parametrize("step", MOVE_STEPS)
def test_a_key_of_the_wrong_type_stops_a_step_before_it_writes(
    server: Server, open_side: Callable[[str, str], Side], step: str
) -> None:
    other = open_side("sqlite", "other")
    other.backend.enqueue(new_jobs(3))
    jobs = next(other.store.jobs(10))
    for key in KEYS:
        side = open_side("redis", f"spoilt-{step.replace(' ', '')}-{key.replace(':', '')}")
        side.backend.enqueue(new_jobs(2))
        if step != "put on":
            side.store.set_mark(Mark(role="target", peer="elsewhere"))
        spoilt = f"{side.store._key('').decode()}{key}"  # type: ignore[attr-defined]
        server.call("DEL", spoilt)
        server.call("SET", spoilt, "not ours")
        before = _picture(server, spoilt)
        try:
            MOVE_STEPS[step](side, jobs)
        except BackendUnavailable:
            assert _picture(server, spoilt) == before, f"{step} wrote although {key} was broken"
        else:
            assert server.call("GET", spoilt) == "not ours"


def _picture(server: Server, spoilt: str) -> dict[bytes, object]:
    root = spoilt.partition("}")[0] + "}:*"
    with server.client() as client:
        return {key: CONTENT[client.type(key)](client, key) for key in sorted(client.keys(root))}


def test_a_full_target_keeps_what_it_has_and_the_source_the_rest(
    server: Server, open_side: Callable[[str, str], Side]
) -> None:
    source, target = open_side("sqlite", "source"), open_side("redis", "target")
    source.backend.enqueue(new_jobs(900))
    moving.refuse_if_impossible(source, target)
    moving._close_both(source, target)
    server.call("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(BackendFull):
            move(source, target)
        assert source.store.count()[0] == 900
    finally:
        server.call("CONFIG", "SET", "maxmemory", "0")
    assert move(source, target).jobs == 900
    assert target.store.count()[0] == 900


# ---------------------------------------------------------------- as a person types it


def command(*words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "pool", "move", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def test_the_command_tells_first_and_moves_then(server: Server, tmp_path: Path) -> None:
    here, space = f"sqlite:///{tmp_path}/here.db", f"there-{new_job_id()}"
    store = open_backend(here)
    store.enqueue(new_jobs(30))
    store.close()
    words = ("--from", here, "--to", server.url, "--to-namespace", space)

    told = json.loads(command(*words, "--dry-run", "--json"))
    assert (told["jobs"], told["dry_run"]) == (30, True)
    told = json.loads(command(*words, "--json"))
    assert (told["jobs"], told["dry_run"]) == (30, False)
    assert "have been moved to" in command(*words, code=1)
    assert "is not there" in command("--from", f"sqlite:///{tmp_path}/typo.db", "--to", here, code=78)

    moved = open_backend(server.url, namespace=space)
    assert sum(queue.pending for queue in moved.queues()) == 30
    moved.close()
