"""The tables of the configuration of which there may be many: [[queues]], [[types]], [[schedule]] and their like."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pool.units import Duration, Name, Names, PriorityNumber, RateText, Section, require


class QueueSection(Section):
    name: str = Field(min_length=1, max_length=200, description="the queue's name; shown even when empty")
    max_pending: int = Field(0, ge=0, description="refuse new jobs above this length; 0 = no limit")


class TypeSection(Section):
    name: str = Field(
        min_length=1, max_length=200, description="a job type served over HTTP by workers in other languages"
    )
    queue: str = Field(min_length=1, max_length=200, description='its own queue, left out of "*" of the forked workers')
    payload_schema: dict[str, Any] = Field(
        default_factory=dict, alias="schema", description="JSON Schema of its payload; empty = anything"
    )
    max_retries: int = Field(3, ge=0, le=100, description="retries after the first attempt")
    backoff: list[float] = Field(default_factory=list, description="waits in seconds; empty = the default of [jobs]")
    redact: Names = Field(default_factory=list, description="payload fields that are masked wherever jobs are shown")
    limit: RateText = Field("", description='at most so many starts per time, such as "100/m"; empty = any rate')
    max_running: int = Field(0, ge=0, description="at most so many at once, over all pools; 0 = any number")


class ScheduleSection(Section):
    name: str = Field(min_length=1, max_length=200, description="unique name of the entry")
    type: str = Field(min_length=1, description="job type to enqueue at each tick")
    cron: str = Field("", description='five fields, such as "30 3 * * 1-5"; give cron or every')
    every: Duration = Field(0, description="a fixed distance instead of cron")
    timezone: str = Field("UTC", description="time zone of cron, such as Europe/Berlin")
    payload: dict[str, Any] = Field(default_factory=dict, description="payload of each job")
    queue: str = Field("", description="queue; default: that of the job type")
    priority: str | int | None = Field(None, description="priority; default: that of the job type")
    catch_up: Literal["run_once", "skip"] = Field(
        "run_once", description="ticks missed while no pool ran: one job for all of them, or none"
    )
    jitter: Duration = Field(0, description="start each job up to this much later")

    @model_validator(mode="after")
    def _has_one_rhythm(self) -> Self:
        require(bool(self.cron) != bool(self.every), "give cron or every, one of the two")
        return self


class CommandSection(Section):
    type: str = Field(min_length=1, max_length=200, description="job type that runs this executable")
    argv: list[str] = Field(
        min_length=1, description='program and arguments, never through a shell; "{field}" is replaced from the payload'
    )
    cwd: str = Field("", description="working directory; default: [app] path")
    env: dict[str, str] = Field(default_factory=dict, description="further environment variables")
    timeout: Duration = Field(0, description="longest run; 0 = no limit")
    max_retries: int = Field(3, ge=0, le=100, description="retries after the first attempt")
    redact: Names = Field(default_factory=list, description="payload fields that are masked wherever jobs are shown")
    limit: RateText = Field("", description='at most so many starts per time, such as "100/m"; empty = any rate')
    max_running: int = Field(0, ge=0, description="at most so many at once, over all pools; 0 = any number")


class TokenSection(Section):
    name: Name = Field(description="who uses it; shown in logs and as the owner of jobs")
    role: Literal["producer", "worker", "admin"] = Field(description="what it may do")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of the token, as printed by `jobpool token new`")
    max_priority: PriorityNumber = Field(10, description="producers: the highest priority it may use")
    types: Names = Field(default_factory=list, description="producers: job types it may enqueue; empty = all")
    queues: Names = Field(default_factory=lambda: ["default"], description="producers and workers: queues it may use")


class AlertSection(Section):
    on: Literal["degraded", "backend_down", "dead_rate", "overdue", "reload_failed", "schedule_missed"] = Field(
        description="what to watch for"
    )
    command: list[str] = Field(
        default_factory=list, description="program to run, the alert as JSON on its standard input"
    )
    url: str = Field("", description="or a URL to POST it to")
    every: Duration = Field(900, description="at most one alert of this kind in this time")
    above: float | None = Field(None, ge=0, description="dead_rate: share (default 0.1); overdue: jobs (default 0)")

    @model_validator(mode="after")
    def _has_one_way_out(self) -> Self:
        require(bool(self.command) != bool(self.url), "give command or url, one of the two")
        return self
