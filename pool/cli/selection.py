"""Which jobs a verb means: ids, or filters that `jobs cancel|retry` and `dead …` share."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pool.backends.contract import Backend, JobFilter
from pool.cli.audit import note
from pool.cli.failures import NEGATIVE
from pool.cli.listing import matching
from pool.cli.output import remark, say, say_json
from pool.clock import monotonic_now
from pool.errors import CallerError, InvalidJob
from pool.jobs.fingerprint import fingerprint_of
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.times import parse_time
from pool.units import parse_duration

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Rate = Annotated[float | None, typer.Option("--rate", min=0.01, metavar="N", help="At most so many per second.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Ids, or what a person said of the jobs they mean; `statuses` are those the verb is about."""

    statuses: tuple[Status | None, ...]
    ids: tuple[str, ...] = ()
    type: str | None = None
    queue: str | None = None
    reason: Reason | None = None
    text: str | None = None
    before: str | None = None
    older_than: str | None = None
    newer_than: str | None = None
    group: str | None = None
    batch: str | None = None
    everything: bool = False

    @property
    def said(self) -> dict[str, Any]:
        """The filters that were given, as they go to the audit log."""
        names = ("type", "queue", "reason", "text", "before", "older_than", "newer_than", "group", "batch")
        given = {name: getattr(self, name) for name in names}
        return {name: str(value) for name, value in given.items() if value is not None}

    def require(self, verb: str) -> None:
        """Everything at once only when a person says so in as many words; ids and filters do not mix."""
        if not self.ids and not self.said and not self.everything:
            raise typer.BadParameter(f"say which: job ids, filters such as --type, or --all (jobpool {verb} --help)")
        if self.ids and (self.said or self.everything):
            raise typer.BadParameter("give job ids or filters, not both")

    def jobs(self, store: Backend, limit: int | None = None) -> Iterator[Job]:
        """The jobs that the filters mean, newest first within each status."""
        fits = self._fits(store.server_now())
        count = 0
        for status in self.statuses:
            for job in matching(store, self._filter(status), None):
                if limit is not None and count >= limit:
                    return
                if fits(job):
                    count += 1
                    yield job

    def targets(self, store: Backend) -> Sequence[str]:
        """Ids of the jobs that are meant, all of them before anything is done to the first."""
        return self.ids or [job.id for job in self.jobs(store)]

    def _filter(self, status: Status | None) -> JobFilter:
        return JobFilter(
            status=status,
            type=self.type,
            queue=self.queue,
            reason=self.reason.value if self.reason else None,
            text=self.text,
            finished_before=parse_time(self.before, "--before") if self.before else None,
            batch_id=self.batch,
        )

    def _fits(self, now: float) -> Callable[[Job], bool]:
        oldest = now - _age(self.newer_than, "--newer-than") if self.newer_than else 0.0
        newest = now - _age(self.older_than, "--older-than") if self.older_than else float("inf")
        return lambda job: (
            oldest <= (job.finished_at or job.created_at) <= newest and self.group in (None, fingerprint_of(job))
        )


def _age(text: str, option: str) -> float:
    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise InvalidJob(f"{option} {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is done to each job. `done_word` is its past form, `verb` the command as typed."""

    verb: str
    done_word: str
    do: Callable[[str], Job]
    details: dict[str, Any] | None = None


def act_on_each(store: Backend, which: Selection, act: Act, *, dry_run: bool, rate: float | None, as_json: bool) -> int:
    """Act on each job by itself, written down before and after; one that refuses stops no other. 1 when any refused."""
    targets = which.targets(store)
    if not dry_run:
        asked = {"jobs": list(which.ids[:100])} if which.ids else {"filters": which.said}
        note(store, act.verb, {**asked, **(act.details or {}), "matching": len(targets)})
    done, refused = _act(store, targets, act, dry_run=dry_run, rate=rate)
    if not dry_run and len(targets) > 1:
        note(store, act.verb, {"done": len(done), "refused": len(refused)})
    if as_json:
        say_json({act.done_word: done, "refused": refused, "dry_run": dry_run})
    else:
        say(f"{'would have ' if dry_run else ''}{act.done_word} {len(done)} of {len(targets)} jobs")
        for sentence in refused.values():
            remark(sentence)
    return NEGATIVE if refused else 0


def _act(
    store: Backend, targets: Sequence[str], act: Act, *, dry_run: bool, rate: float | None
) -> tuple[list[str], dict[str, str]]:
    done: list[str] = []
    refused: dict[str, str] = {}
    began = monotonic_now()
    for number, job_id in enumerate(targets):
        if rate and not dry_run:
            time.sleep(max(0.0, began + number / rate - monotonic_now()))
        try:
            done.append(store.job(job_id).id if dry_run else act.do(job_id).id)
        except CallerError as error:
            refused[job_id] = str(error)
    return done, refused
