"""How the demo looks: a progress bar above the live workers on a terminal, plain lines in a pipe or a log."""

from typing import TYPE_CHECKING, Any, Protocol

from pool.cli.output import duration, is_terminal, rich_table, say
from pool.clock import monotonic_now

if TYPE_CHECKING:
    from rich.live import Live

    from pool.cli.demo_story import Account

Workers = list[dict[str, Any]]
LINE_EVERY_S = 1.0
COLUMNS = ("worker", "pid", "state", "done", "restarts", "doing")


class View(Protocol):
    """What the demo needs of a place to be shown."""

    def __enter__(self) -> "View": ...
    def __exit__(self, *_: object) -> None: ...
    def say(self, sentence: str) -> None: ...
    def show(self, done: int, total: int, workers: Workers) -> None: ...
    def say_summary(self, account: "Account") -> None: ...


def make_view() -> View:
    return TerminalView() if is_terminal() else PlainView()


class PlainView:
    """A line for each event, and one a second for progress."""

    def __init__(self) -> None:
        self._next_line = 0.0

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, sentence: str) -> None:
        say(sentence)

    def show(self, done: int, total: int, workers: Workers) -> None:
        if monotonic_now() >= self._next_line or done == total:
            self._next_line = monotonic_now() + LINE_EVERY_S
            states = [worker["state"] for worker in workers]
            say(f"{done:,} of {total:,} jobs done, workers: {', '.join(states)}")

    def say_summary(self, account: "Account") -> None:
        say()
        for line in summary_lines(account):
            say(line)


class TerminalView(PlainView):
    """Redrawn in place; events stay above it."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(highlight=False)
        self._progress = Progress(TextColumn("jobs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._task = self._progress.add_task("jobs", total=None)
        self._live: Live | None = None

    def __enter__(self) -> "TerminalView":
        from rich.live import Live

        self._live = Live(console=self._console, refresh_per_second=12)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False)

    def show(self, done: int, total: int, workers: Workers) -> None:
        from rich.console import Group

        self._progress.update(self._task, completed=done, total=total)
        if self._live is not None:
            self._live.update(Group(self._progress, rich_table(COLUMNS, [row_of(worker) for worker in workers])))


def row_of(worker: dict[str, Any]) -> list[str]:
    """A worker's line in the live table."""
    jobs = worker["jobs"]
    doing = f"{jobs[0]['type']} for {duration(jobs[0]['seconds'])}" if jobs else ""
    if not jobs and worker["next_start_s"] is not None:
        doing = f"{(worker['last_exit'] or {}).get('cause', '')}; starts in {duration(worker['next_start_s'])}"
    values = (worker["slot"], worker["pid"] or "", worker["state"], worker["completed"], worker["restarts"], doing)
    return [str(value) for value in values]


def summary_lines(account: "Account") -> list[str]:
    """Every job accounted for, in a few lines."""
    failed = sum(account.failed.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(account.failed.items()))
    rate = account.checksums / account.checksum_seconds if account.checksum_seconds > 0 else 0.0
    verdict = "every job is accounted for" if account.is_whole else "THE ACCOUNT DOES NOT MATCH"
    lines = [
        "Summary",
        f"  enqueued   {account.enqueued:>7,}",
        f"  completed  {account.completed:>7,}",
        f"  failed     {failed:>7,}   {f'({reasons})' if reasons else ''}".rstrip(),
        f"  retried    {account.retried:>7,}   times",
        f"  killed     {account.killed or 'nobody'}; its job: {account.recovered or 'not recovered'}",
    ]
    if account.recovery_s is not None:
        lines.append(f"  recovery   {account.recovery_s * 1000:,.0f} ms from the kill to its job's next start")
    lines.append(
        f"  speed      {rate:,.0f} jobs per second ({account.checksums:,} checksums in {account.checksum_seconds:.2f} s)"
    )
    lines += [f"  problem    {problem}" for problem in account.problems]
    lines.append(f"  {account.enqueued:,} enqueued = {account.completed:,} completed + {failed:,} failed: {verdict}")
    return lines
