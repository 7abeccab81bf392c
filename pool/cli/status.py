"""`status` for people: the pool in a line, its workers, its queues, its store. Reads only the /status document."""

from collections.abc import Callable, Iterator
from typing import Any

from pool.cli.output import duration, one_line, rich_table, say, say_table, size
from pool.cli.watching import watch
from pool.jobs.internal import OWN_QUEUES
from pool.spoken import progress

Document = dict[str, Any]

WORKER_COLUMNS = ("slot", "group", "pid", "state", "since", "done", "failed", "memory", "restarts", "doing")
QUEUE_COLUMNS = ("queue", "pending", "scheduled", "running", "failed", "oldest", "overdue", "remark")


def show_status(document: Document) -> None:
    """One look, printed."""
    for line in headline(document):
        say(line)
    say()
    say_table(WORKER_COLUMNS, worker_rows(document), empty="no workers")
    say()
    say_table(QUEUE_COLUMNS, queue_rows(document), empty="no queues yet")


def watch_status(look: Callable[[], Document], *, as_json: bool) -> int:
    """A look each second until Ctrl-C."""
    return watch(look, show_status, picture, as_json=as_json)


def picture(document: Document) -> Any:
    """The same as `show_status`, as something that rich can draw."""
    from rich.console import Group
    from rich.text import Text

    workers = [[_cell(v) for v in row] for row in worker_rows(document)]
    queues = [[_cell(v) for v in row] for row in queue_rows(document)]
    head = Text("\n".join(headline(document)))
    return Group(head, Text(), rich_table(WORKER_COLUMNS, workers), rich_table(QUEUE_COLUMNS, queues))


def headline(document: Document) -> Iterator[str]:
    """What one must know first; trouble below it."""
    pool, backend, totals = (document.get(key) or {} for key in ("pool", "backend", "totals"))
    yield f"pool {pool.get('name')} is {pool.get('state')} (pid {pool.get('pid')}, jobpool {pool.get('version')})"
    health = (
        f"{backend.get('latency_ms')} ms"
        if backend.get("ok")
        else f"not available: {backend.get('error') or 'not asked yet'}"
    )
    yield f"store {backend.get('url') or '?'}: {health}"
    yield "  ".join(f"{name} {count:,}" for name, count in totals.items() if isinstance(count, int))
    yield from _trouble(document, pool)


def _trouble(document: Document, pool: Document) -> Iterator[str]:
    last = pool.get("last_reload") or {}
    if last and not last.get("ok"):
        yield f"! the last reload failed: {last.get('error')}"
    for sentence in pool.get("problems") or document.get("problems") or ():
        yield f"! {sentence}"
    for sentence in (document.get("backend") or {}).get("warnings") or ():
        yield f"! store: {sentence}"


def worker_rows(document: Document) -> Iterator[tuple[Any, ...]]:
    for worker in document.get("workers", ()):
        yield (
            worker.get("slot"),
            worker.get("group"),
            str(worker.get("pid") or ""),
            worker.get("state"),
            duration(_since_seconds(worker)),
            worker.get("completed"),
            worker.get("failed") or "",
            size(worker.get("rss_bytes")),
            worker.get("restarts") or "",
            _doing(worker),
        )


def queue_rows(document: Document) -> Iterator[tuple[Any, ...]]:
    for queue in document.get("queues", ()):
        counts = (queue.get(key) for key in ("pending", "scheduled", "running", "failed"))
        oldest = duration(queue.get("oldest_pending_s"))
        yield (queue.get("name"), *counts, oldest, queue.get("overdue") or "", _about(queue))


def _about(queue: Document) -> str:
    if queue.get("paused"):
        return "paused"
    if queue.get("name") in OWN_QUEUES:
        return "the web process serves it"
    return "" if queue.get("served", True) else "no group serves it"


def _since_seconds(worker: Document) -> float | None:
    jobs = worker.get("jobs") or ()
    return jobs[0].get("seconds") if jobs else worker.get("uptime_s")


def _doing(worker: Document) -> str:
    """The job it runs, or how the one before it ended and when the next starts."""
    if jobs := worker.get("jobs"):
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        said = progress(jobs[0].get("progress"), jobs[0].get("note"))
        return f"{jobs[0].get('type')} {jobs[0].get('id')}{more}" + (f", {said}" if said else "")
    last, next_start = worker.get("last_exit"), worker.get("next_start_s")
    parts = [f"last exit: {_exit_words(last)}"] if last else []
    parts += [f"starts in {duration(next_start)}"] if next_start is not None else []
    parts += [one_line(worker["why"], 60)] if worker.get("why") else []
    return ", ".join(parts)


def _exit_words(last: Document) -> str:
    how = f"signal {last['signal']}" if last.get("signal") else f"code {last.get('code')}"
    return f"{last.get('cause') or how} at {last.get('at')}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
