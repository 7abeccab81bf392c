"""The move itself: what stands in its way, and its steps, each of which may be interrupted and done again."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from pool.backends.contract import Backend
from pool.backends.moving import SOURCE, TARGET, CarriedJob, Mark, Movable
from pool.cli.failures import Refused
from pool.clock import monotonic_now
from pool.jobs.lifecycle import Reason, Status

AT_ONCE = 500
LONGEST_WAIT_S = 150.0  # for jobs that dead pools hold
LOOK_AGAIN_S = 1.0

Told = Callable[[int, int], None]  # jobs carried, and how many there are


@dataclass(frozen=True, slots=True)
class Side:
    """A store, as itself and as something that can be moved. `name` is its URL without passwords, and its namespace."""

    name: str
    backend: Backend
    store: Movable


@dataclass(slots=True)
class Account:
    """What there is to be carried, or what was."""

    jobs: int = 0
    keys: int = 0
    queues: int = 0
    schedules: int = 0
    batches: int = 0

    def as_document(self) -> dict[str, int]:
        return asdict(self)


def side_of(backend: Backend, namespace: str) -> Side:
    """Only the kind that is asked for is imported."""
    if backend.kind == "sqlite":
        from pool.backends.sqlite.moving import SqliteMoving

        return Side(backend.url, backend, SqliteMoving(backend))
    from pool.backends.redis.moving import RedisMoving

    return Side(f"{backend.url} (namespace {namespace})", backend, RedisMoving(backend))


# ---------------------------------------------------------------- what stands in the way


def refuse_if_impossible(source: Side, target: Side) -> None:
    """Refused, with the remedy, when a move cannot begin or go on."""
    if source.name == target.name:
        raise Refused(f"{source.name} is both ends of the move; name another --to")
    ours, theirs = source.store.mark(), target.store.mark()
    _refuse_other_move(source, ours, SOURCE, target)
    if ours is not None and ours.is_over and (theirs is None or theirs.is_over):
        raise Refused(f"the jobs of {source.name} have been moved to {ours.peer} already")
    if theirs is not None and not theirs.is_over:
        _refuse_other_move(target, theirs, TARGET, source)
    elif any(target.store.count()):
        raise Refused(
            f"{target.name} holds {target.store.count()[0]:,} jobs already: move into an empty store or namespace"
        )
    for side in (source, target):
        _refuse_running_pools(side)


def _refuse_other_move(side: Side, mark: Mark | None, role: str, other: Side) -> None:
    if mark is None or (mark.role, mark.peer) == (role, other.name):
        return
    if mark.is_over:
        raise Refused(f"the jobs of {side.name} have been moved to {mark.peer} already")
    way = f"--to {mark.peer}" if mark.role == SOURCE else f"--from {mark.peer}"
    raise Refused(f"{side.name} takes part in another move, which was interrupted: end that one first ({way})")


def _refuse_running_pools(side: Side) -> None:
    signs = side.store.signs_of_life()
    if not signs:
        return
    last = signs[0]
    raise Refused(
        f"pool {last.pool} runs on {side.name} (its last sign of life was {last.age_s:.0f} s ago): stop it first. "
        f"If it was killed, try again when its lease of {last.lease_seconds:.0f} s is over"
    )


# ---------------------------------------------------------------- the steps


def look(source: Side) -> Account:
    """What a move would carry. Changes nothing."""
    jobs, keys = source.store.count()
    books = source.store.books()
    return Account(jobs, keys, len(books.queues), len(books.ticks), len(books.batches))


def move(source: Side, target: Side, told: Told, sleep: Callable[[float], None], say: Callable[[str], None]) -> Account:
    """All of it; afterwards the source is empty for good and the target open. Interrupted, it is simply called again."""
    if (mark := source.store.mark()) is not None and mark.is_over:
        target.store.set_mark(None)  # all that was left to do
        return Account()
    _close_both(source, target)
    _end_running(source, sleep, say)
    account = look(source)
    _carry_books(source, target)
    _carry_jobs(source, target, account.jobs, told)
    _carry_keys(source, target)
    source.store.set_mark(Mark(role=SOURCE, peer=target.name, is_over=True))
    target.store.set_mark(None)
    return account


def _close_both(source: Side, target: Side) -> None:
    """The target first: a source that is closed always has a target that knows of it."""
    theirs = target.store.mark()
    if theirs is None or theirs.is_over:
        target.store.set_mark(Mark(role=TARGET, peer=source.name))
    if source.store.mark() is None:
        source.store.set_mark(Mark(role=SOURCE, peer=target.name))


def _end_running(source: Side, sleep: Callable[[float], None], say: Callable[[str], None]) -> None:
    """Jobs that dead pools hold go back to pending, by the usual rules; those in living hands are waited for."""
    deadline, last_said = monotonic_now() + LONGEST_WAIT_S, 0
    while running := sum(queue.running for queue in source.backend.queues()):
        if source.backend.recover_expired():
            continue
        if monotonic_now() > deadline:
            raise Refused(
                f"{running:,} jobs of {source.name} are still held by somebody: wait until they have ended, then move again"
            )
        if running != last_said:
            say(f"waiting for {running:,} jobs that are still held")
        last_said = running
        sleep(LOOK_AGAIN_S)


def _carry_books(source: Side, target: Side) -> None:
    """Before the jobs: a batch must be there before its members. The target adds them up once, whatever happens."""
    target.store.hold_books(source.store.books())


def _carry_jobs(source: Side, target: Side, total: int, told: Told) -> None:
    carried = 0
    for portion in source.store.jobs(AT_ONCE):
        target.store.hold([_readable(job) for job in portion])
        source.store.drop([job.job.id for job in portion])
        carried += len(portion)
        told(carried, total)


def _readable(carried: CarriedJob) -> CarriedJob:
    """A waiting record that nobody can read would be set aside at its claim: it travels as that."""
    job = carried.job
    if job.type or not job.status.is_live:
        return carried
    over = replace(job, status=Status.FAILED, reason=Reason.INVALID_RECORD, finished_at=job.updated_at)
    return replace(carried, job=over)


def _carry_keys(source: Side, target: Side) -> None:
    while keys := source.store.keys(AT_ONCE):
        target.store.hold_keys(keys)
        source.store.drop_keys(keys)
    source.store.drop_books()
