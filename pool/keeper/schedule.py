"""Fires `[[schedule]]` entries: the tick record and its job enter the store in one step, so no two pools fire one tick."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pool.backends.contract import Backend
from pool.errors import CallerError
from pool.jobs.checks import Options, Terms, new_job, payload_text
from pool.jobs.job import NewJob
from pool.jobs.published import PublishedTypes
from pool.jobs.schedule import Firing, Timing, due, next_tick, timing_from
from pool.logs import log
from pool.settings import Config, ScheduleSection

LONGEST_SLEEP_S = 1.0

KnownTypes = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule entry with its timing read; `version` changes when the entry does."""

    settings: ScheduleSection
    timing: Timing
    version: str


class Timetable:
    """All entries of this configuration. The store's wall clock decides what is due; the store remembers the last tick."""

    def __init__(self, config: Config, backend: Backend, known_types: KnownTypes) -> None:
        self._backend, self._known_types = backend, known_types
        self._defaults = Terms(max_retries=config.jobs.max_retries, max_kills=config.jobs.max_kills)
        self._max_payload = config.jobs.max_payload
        self._entries = [read_entry(settings) for settings in config.schedule]
        self._next_at: dict[str, float] = {}
        self.missed: dict[str, int] = {}  # entry → ticks missed since somebody emptied this

    def fire(self, now: float) -> float | None:
        """Fire what is due; sleep until the next tick, at most a second. Nothing is asked of the store in between."""
        if not self._entries:
            return float("inf")
        store_now = self._backend.server_now()
        for entry in self._entries:
            if store_now >= self._next_at.get(entry.settings.name, 0.0):
                self._look_at(entry, store_now)
        return max(0.0, min(LONGEST_SLEEP_S, min(self._next_at.values()) - store_now))

    def _look_at(self, entry: Entry, now: float) -> None:
        name = entry.settings.name
        last = self._backend.last_tick(name)
        if last is None:
            self._backend.tick(name, entry.version, now, None)  # a new entry owes nothing for the time before it
        else:
            firing = due(entry.timing, last=last, now=now, catch_up=entry.settings.catch_up)
            if firing is not None:
                self._fire(entry, firing)
        self._next_at[name] = next_tick(entry.timing, now) or float("inf")

    def _fire(self, entry: Entry, firing: Firing) -> None:
        job = self._job(entry, firing) if firing.runs else None
        receipt = self._backend.tick(entry.settings.name, entry.version, firing.tick, job)
        if firing.missed:
            self.missed[entry.settings.name] = self.missed.get(entry.settings.name, 0) + firing.missed
            log.warning("schedule ticks missed", entry=entry.settings.name, missed=firing.missed)
        if receipt is not None:
            log.info("schedule fired", entry=entry.settings.name, job=receipt.job_id)

    def _job(self, entry: Entry, firing: Firing) -> NewJob | None:
        settings = entry.settings
        options = Options(
            queue=settings.queue or None,
            priority=settings.priority,
            delay=random.uniform(0, settings.jitter) if settings.jitter else None,
        )
        published = PublishedTypes([{"types": self._known_types()}]).get(settings.type)
        try:
            if published is not None:
                options["unique_key"] = published.unique_key_of(settings.payload)
                options["limit_key"] = published.limit_key_of(settings.payload)
            return new_job(
                settings.type,
                payload_text(settings.payload),
                self._terms(settings.type),
                options,
                max_payload=self._max_payload,
            )
        except CallerError as error:
            log.error("schedule entry cannot be enqueued", entry=settings.name, error=str(error))
            return None

    def _terms(self, type_name: str) -> Terms:
        """What the workers published of this type; the defaults of [jobs] until they have."""
        known: dict[str, Any] = self._known_types().get(type_name, {})
        return Terms(
            queue=known.get("queue", self._defaults.queue),
            priority=known.get("priority", self._defaults.priority),
            max_retries=known.get("max_retries", self._defaults.max_retries),
            max_kills=known.get("max_kills", self._defaults.max_kills),
            timeout=known.get("timeout", self._defaults.timeout),
            limit=known.get("limit", ""),
            max_running=known.get("max_running", 0),
        )


def read_entry(settings: ScheduleSection) -> Entry:
    """The entry with its cron or distance read; InvalidJob says what is wrong with it."""
    timing = timing_from(cron=settings.cron, every=settings.every, timezone=settings.timezone)
    return Entry(settings, timing, json.dumps(settings.model_dump(mode="json"), sort_keys=True))
