"""Verbs about queues and the store: `queues`, `pause`, `resume`, `purge`, `pools`, `schedule list|run`, `backup`."""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from pool.backends.contract import Backend, PoolState, QueueState
from pool.cli.audit import note
from pool.cli.choosing import choosing
from pool.cli.failures import Refused
from pool.cli.flags import load
from pool.cli.output import duration, remark, rich_table, say, say_json, say_table, text_of
from pool.cli.selection import DryRun, Selection
from pool.cli.store import AsJson, BackendUrl, ConfigFile, opened
from pool.cli.watching import watch
from pool.jobs.checks import checked_queue
from pool.jobs.lifecycle import Status
from pool.settings import Config
from pool.why import STALE_BEAT_S, queues_named_by, serves

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
WAITING = (Status.PENDING, Status.SCHEDULED)
PURGE_AT_ONCE = 1000


def queues(
    watch_them: Annotated[bool, typer.Option("--watch", help="Look again each second.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List the queues with what waits, runs and failed in them."""
    loaded = load(config, backend)
    with opened(loaded) as store:

        def look() -> list[dict[str, Any]]:
            return _queue_documents(store, (queue.name for queue in loaded.config.queues))

        if watch_them:
            watch(look, _say_queues, _picture, as_json=as_json)
        else:
            say_json(look()) if as_json else _say_queues(look())


def _queue_documents(store: Backend, configured: Iterable[str]) -> list[dict[str, Any]]:
    """Every queue by name, configured ones that are empty too."""
    states = {name: QueueState(name=name) for name in configured} | {state.name: state for state in store.queues()}
    pools = store.pools()
    return [queue_document(states[name], pools) for name in sorted(states)]


def queue_document(state: QueueState, pools: Sequence[PoolState]) -> dict[str, Any]:
    """A queue's counts and whether a living pool serves it."""
    served = any(serves(pool, state.name) for pool in pools if not pool.lost and pool.age_s < STALE_BEAT_S)
    return {**dataclasses.asdict(state), "served": served}


def pause(queue: QueueName, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Hand out nothing from this queue until it is resumed; running jobs finish."""
    loaded = load(config, backend)
    with opened(loaded) as store:
        known = _known_queues(store, loaded.config)
        note(store, "pause", {"queue": checked_queue(queue)})
        store.set_queue(queue, paused=True)
    say(f"queue {queue} is paused; go on with: jobpool resume {queue}")
    if queue not in known:
        _say_unknown(queue, known)


def _known_queues(store: Backend, config: Config) -> set[str]:
    """Those that had a job or a setting, that are configured, or that a pool names."""
    named = {name for pool in store.pools() for name in queues_named_by(pool)}
    return {state.name for state in store.queues()} | {each.name for each in config.queues} | named


def _say_unknown(queue: str, known: set[str]) -> None:
    """A typing error must not look like a paused queue."""
    near = get_close_matches(queue, known, n=1)
    meant = f" Did you mean {near[0]}? Then: jobpool resume {queue}; jobpool pause {near[0]}." if near else ""
    remark(
        f"No queue {queue} is known yet; it is remembered as paused and holds back the first job enqueued there.{meant}"
    )


def resume(queue: QueueName, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Hand out jobs from this queue again."""
    with opened(load(config, backend)) as store:
        note(store, "resume", {"queue": checked_queue(queue)})
        store.set_queue(queue, paused=False)
    say(f"queue {queue} is resumed")


@choosing("status type text older_than newer_than", among=WAITING)
def purge(
    chosen: Selection,
    queue: QueueName,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Remove its dead letters too.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Remove the waiting jobs of a queue, all or by filter. Running jobs are not touched."""
    if Status.RUNNING in chosen.statuses:
        raise typer.BadParameter("running jobs are never purged: cancel them first")
    also = (Status.FAILED,) if failed and chosen.statuses == WAITING else ()
    statuses = (*chosen.statuses, *also)
    which = dataclasses.replace(chosen, queue=queue, statuses=statuses)
    with opened(load(config, backend)) as store:
        count = _count(store, which)
        if not dry_run:
            _ask(yes, f"Remove {count:,} jobs of queue {queue}? They cannot be brought back")
            note(store, "purge", {"filters": which.said, "statuses": [str(s) for s in statuses], "matching": count})
            count = _remove(store, which)
    if as_json:
        say_json({"queue": queue, "removed": 0 if dry_run else count, "matching": count, "dry_run": dry_run})
    else:
        say(f"{'would remove' if dry_run else 'removed'} {count:,} jobs of queue {queue}")


def _is_whole_queue(which: Selection) -> bool:
    return which.said.keys() == {"queue"}


def _count(store: Backend, which: Selection) -> int:
    if not _is_whole_queue(which) or Status.COMPLETED in which.statuses or Status.CANCELLED in which.statuses:
        return sum(1 for _ in which.jobs(store))
    state = next((s for s in store.queues() if s.name == which.queue), QueueState(name=which.queue or ""))
    return sum(getattr(state, status.value) for status in which.statuses if status is not None)


def _remove(store: Backend, which: Selection) -> int:
    """A whole queue by its own step, chosen jobs by their ids; bounded steps either way."""
    if _is_whole_queue(which):
        statuses = frozenset(status for status in which.statuses if status is not None)
        return sum(iter(lambda: store.purge(which.queue or "", statuses=statuses, limit=PURGE_AT_ONCE), 0))
    ids = list(which.targets(store))
    return sum(store.delete(ids[at : at + PURGE_AT_ONCE]) for at in range(0, len(ids), PURGE_AT_ONCE))


def _ask(yes: bool, question: str) -> None:
    """A person confirms on a terminal; a program must say --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("nothing removed: without a terminal to ask on, add --yes")
    if not typer.confirm(question):
        raise Refused("nothing removed")


def pools(as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """List the pools on this store, on all hosts, with their last beat."""
    with opened(load(config, backend)) as store:
        found = store.pools()
    documents = [pool_document(pool) for pool in found]
    if as_json:
        say_json(documents)
        return
    rows = [
        (d["name"], d["host"], d["state"], f"{duration(d['age_s'])} ago", _counts(d["workers"]), d["version"] or "")
        for d in documents
    ]
    say_table(("pool", "host", "state", "last beat", "workers", "version"), rows, empty="no pools on this store")


def pool_document(pool: PoolState) -> dict[str, Any]:
    """A pool on whatever host, as last beaten."""
    return {
        "name": pool.pool.name,
        "host": pool.pool.host,
        "incarnation": pool.pool.incarnation,
        "state": "lost" if pool.lost else "alive",
        "age_s": pool.age_s,
        **{key: pool.facts.get(key) for key in ("version", "workers", "groups", "schedule")},
        "types": sorted(pool.facts.get("types") or ()),
    }


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the copy.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Write a consistent copy of the SQLite database, also while the pool works."""
    from pool.cli.backup import copy_database

    size = copy_database(load(config, backend), file)
    say_json({"file": str(file), "bytes": size}) if as_json else say(f"wrote {file} ({size:,} bytes)")


QUEUE_COLUMNS = ("queue", "pending", "scheduled", "running", "completed", "failed", "oldest", "overdue", "remark")


def _say_queues(documents: list[dict[str, Any]]) -> None:
    say_table(QUEUE_COLUMNS, _queue_rows(documents), empty="no queues yet")


def _picture(documents: list[dict[str, Any]]) -> Any:
    """The same, as something that rich can draw again and again."""
    return rich_table(QUEUE_COLUMNS, [[text_of(cell) for cell in row] for row in _queue_rows(documents)])


def _queue_rows(documents: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    counts = ("name", "pending", "scheduled", "running", "completed", "failed")
    return [
        (*(d[key] for key in counts), duration(d["oldest_pending_s"]), d["overdue"] or "", _queue_remark(d))
        for d in documents
    ]


def _queue_remark(document: dict[str, Any]) -> str:
    if document["paused"]:
        return "paused"
    return "" if document["served"] else "no running pool serves it"


def _counts(workers: dict[str, int] | None) -> str:
    return ", ".join(f"{count} {state}" for state, count in (workers or {}).items())
