"""The shape of the configuration: every key, its default, its range and one line that explains it. No I/O.

`config.example.toml` is generated from these models and a test keeps it equal. Durations are seconds or "10m", sizes
bytes or "512MB". Unknown keys are refused. `config.py` finds the values and names the file and key of a wrong one.
"""

import os
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pool.identity import host_name
from pool.tables import AlertSection, CommandSection, QueueSection, ScheduleSection, TokenSection, TypeSection
from pool.units import (
    Count,
    Duration,
    Metric,
    Name,
    Names,
    PriorityNumber,
    Section,
    Size,
    parse_duration,
    parse_size,
    require,
    require_distinct,
)

__all__ = [
    "AlertSection",
    "CommandSection",
    "Config",
    "QueueSection",
    "ScheduleSection",
    "Section",
    "TokenSection",
    "TypeSection",
    "parse_duration",
    "parse_size",
]


class PoolSection(Section):
    name: Name = Field(
        default_factory=host_name,
        description="the pool's name in status, logs and worker ids; default: the host's name",
    )
    runtime_dir: str = Field(
        "",
        description="where the status socket and the lock live; default: $RUNTIME_DIRECTORY, else $XDG_RUNTIME_DIR/jobpool, else a private directory",
    )
    state_dir: str = Field(
        "",
        description="where the database and the spool live; default: $STATE_DIRECTORY, else $XDG_STATE_HOME/jobpool, else ~/.local/state/jobpool",
    )
    stop_timeout: Duration = Field(
        30, description="after SIGTERM workers have this long to finish their job; then SIGKILL and the job goes back"
    )
    boot_timeout: Duration = Field(30, description="a child that is not ready by then is killed and counted as crashed")
    retire_timeout: Duration = Field(
        0, description="how long a worker replaced by a reload may finish its job; 0 = as long as it takes"
    )
    merge_memory: bool = Field(
        False,
        description="let the kernel keep pages of equal contents once for all processes (KSM, Linux 6.4); ksmd must run",
    )


class AppSection(Section):
    modules: Names = Field(
        default_factory=list, description="Python modules that define the jobs, imported in each worker"
    )
    path: str = Field(".", description="put first on sys.path before the modules are imported")
    preload: Names = Field(
        default_factory=list, description="libraries imported once in the parent to save memory; never your job modules"
    )


class BackendSection(Section):
    url: str = Field(
        "",
        description="sqlite:///path, redis://host:6379/0, rediss://… (TLS), redis+sentinel://…, redis+cluster://…; default: sqlite in state_dir",
    )
    url_file: str = Field(
        "",
        description="read the URL from this file, so that no password stands here; $CREDENTIALS_DIRECTORY is searched for relative names",
    )
    namespace: Name = Field("default", description="Redis only: keeps several applications apart on one server")
    lease: Duration = Field(
        60,
        description="a pool that shows no life for this long has lost its jobs to the others; no job needs to be shorter",
        ge=1,
    )


class WorkerKeys(Section):
    """The keys that [workers] and each [[groups]] share."""

    count: Count = Field(
        default_factory=lambda: os.cpu_count() or 1, description="worker processes; default: the number of cores"
    )
    queues: Names = Field(
        default_factory=lambda: ["*"],
        description='["*"] serves all queues by priority, then age; a list is strict: the first queue that has a job wins',
    )
    min_priority: PriorityNumber = Field(0, description="serve only jobs of at least this priority")
    max_priority: PriorityNumber = Field(100, description="serve only jobs of at most this priority")
    max_jobs: int = Field(
        0, ge=0, description="replace a worker after about this many jobs (up to 10 % fewer); 0 = never"
    )
    max_age: Duration = Field(
        0, description="replace a worker after about this time (up to 10 % sooner), between jobs; 0 = never"
    )
    concurrency: Annotated[int, Field(ge=1, le=256)] = Field(
        1, description="jobs at once in one process; above 1 all its job types must be async def"
    )
    claims_ahead: Annotated[int, Field(ge=0, le=64)] = Field(
        31,
        description="a worker whose jobs are shorter than a call to the store claims up to so many more with one call; 0 = never",
    )
    memory_limit: Size = Field(
        512_000_000, description="soft ceiling: a worker above it finishes its job, then is replaced; 0 = off"
    )
    memory_kill: Size = Field(0, description="hard ceiling: a worker above it is killed in mid-job; 0 = off")
    memory_metric: Metric = Field(
        "rss", description="what counts as its size: rss, pss (shared pages divided) or uss (its own pages only)"
    )
    memory_check_seconds: Duration = Field(5, description="how often the parent looks at each worker's memory", ge=0.5)
    count_min: int | None = Field(
        None, ge=1, description="autoscaling: never fewer workers than this (needs count_max and target_wait)"
    )
    count_max: int | None = Field(None, ge=1, le=2000, description="autoscaling: never more workers than this")
    target_wait: Duration | None = Field(
        None, description="autoscaling: add a worker when the oldest pending job waits longer than this"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        require(len(self.queues) > 0, 'queues is empty: name some, or "*" for all')
        require("*" not in self.queues or len(self.queues) == 1, 'queues: "*" means all of them and stands alone')
        require(self.min_priority <= self.max_priority, "min_priority is above max_priority: no job would fit")
        is_kill_above = not self.memory_kill or not self.memory_limit or self.memory_kill >= self.memory_limit
        require(is_kill_above, "memory_kill is below memory_limit: a worker would be killed before it is replaced")
        self._check_autoscaling()
        return self

    def _check_autoscaling(self) -> None:
        given = [self.count_min, self.count_max, self.target_wait]
        if given == [None, None, None]:
            return
        require(None not in given, "autoscaling needs count_min, count_max and target_wait, all three")
        require((self.count_min or 0) <= (self.count_max or 0), "count_min is above count_max")


class WorkersSection(WorkerKeys):
    pass


class GroupSection(WorkerKeys):
    name: Annotated[Name, Field(max_length=24)] = Field(description="the group's name in status and in `scale --group`")
    stop_timeout: Duration | None = Field(
        None, description="this group's own deadline on stop; default: that of [pool]"
    )


class RestartSection(Section):
    first_delay: Duration = Field(
        1, description="wait before the first restart of a crashed worker; doubles with each further crash"
    )
    max_delay: Duration = Field(60, description="the longest wait between restarts of one slot")
    healthy_after: Duration = Field(10, description="a worker that lived this long starts again at first_delay")


class BackoffSection(Section):
    first: Duration = Field(15, description="wait before the first retry")
    factor: float = Field(2, ge=1, le=100, description="each further wait is this many times longer")
    cap: Duration = Field(3600, description="the longest wait")
    jitter: float = Field(
        0.1, ge=0, le=1, description="random share added to each wait, so that failed jobs do not return all at once"
    )


class JobsSection(Section):
    max_retries: int = Field(
        3, ge=0, le=100, description="retries after the first attempt; 0 = at most once, whatever happens"
    )
    backoff: BackoffSection = Field(
        default_factory=BackoffSection, description="how long a retry waits, where the job type has no rule of its own"
    )
    timeout: Duration = Field(0, description="the longest a job may run; 0 = no limit")
    max_kills: int = Field(
        3, ge=1, le=100, description="a job that killed this many workers is failed with worker_lost"
    )
    max_payload: Size = Field(65_536, ge=1, description="the longest payload, as JSON")
    max_result: Size = Field(
        1_048_576, ge=1, description="the longest result, as JSON; a job that returns more has failed"
    )
    ageing: Duration = Field(0, description="waiting this long is worth ten points of priority; 0 = strict priorities")


class RetentionSection(Section):
    completed: Duration = Field(86_400, description="how long completed and cancelled jobs can be looked up")
    failed: Duration = Field(2_592_000, description="how long dead letters are kept")
    idempotency: Duration = Field(604_800, description="how long an idempotency key answers with its first job")


class WebSection(Section):
    enabled: bool = Field(
        False, description="run the HTTP API and dashboard in a child of its own (needs the extra jobpool[web])"
    )
    listen: str = Field("127.0.0.1:8420", description="address and port, or a path for a Unix socket")
    behind_proxy: bool = Field(
        False, description="needed to listen beyond loopback without TLS: a proxy in front adds it"
    )
    long_poll: Duration = Field(30, le=300, description="no request waits longer than this for a job or its end")
    callback_hosts: Names = Field(
        default_factory=list,
        description='hosts that a job\'s callback_url may name, "*.example.org" for all below; empty = no callbacks',
    )
    callback_private: bool = Field(
        False, description="callbacks may go to private addresses, and over http; never where producers are strangers"
    )
    callback_secret: str = Field("", description="key of the signature on callbacks (HMAC-SHA256)")
    tls_cert: str = Field("", description="certificate file (PEM)")
    tls_key: str = Field("", description="key file (PEM)")

    @model_validator(mode="after")
    def _has_both_files(self) -> Self:
        require(bool(self.tls_cert) == bool(self.tls_key), "tls_cert and tls_key belong together")
        signed = not self.callback_hosts or bool(self.callback_secret)
        require(signed, "callback_hosts needs callback_secret, with which callbacks are signed")
        return self


class StatusSection(Section):
    socket_mode: str = Field("0660", pattern="^0?[0-7]{3}$", description="mode of the status socket")
    listen: str = Field("", description="also answer read-only probes on this TCP address, such as 127.0.0.1:8421")


class LogSection(Section):
    level: Literal["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="the least important line to print"
    )
    format: Literal["text", "json"] = Field("text", description="text for people, json for machines")
    file: str = Field(
        "", description="write to this file instead of standard error; survives logrotate (SIGUSR1 reopens)"
    )


class Config(Section):
    """The whole configuration, validated and frozen."""

    pool: PoolSection = Field(default_factory=PoolSection, description="the pool as a whole")
    app: AppSection = Field(default_factory=AppSection, description="your code")
    backend: BackendSection = Field(default_factory=BackendSection, description="where jobs rest")
    workers: WorkersSection = Field(default_factory=WorkersSection, description="the default group of workers")
    groups: tuple[GroupSection, ...] = Field((), description="further groups, each with its own keys of [workers]")
    restart: RestartSection = Field(default_factory=RestartSection, description="how crashed workers come back")
    jobs: JobsSection = Field(
        default_factory=JobsSection, description="defaults for job types that say nothing themselves"
    )
    queues: tuple[QueueSection, ...] = Field((), description="queues with settings")
    types: tuple[TypeSection, ...] = Field((), description="job types without a Python function, served over HTTP")
    schedule: tuple[ScheduleSection, ...] = Field((), description="jobs enqueued by the clock")
    commands: tuple[CommandSection, ...] = Field((), description="job types that run any executable")
    retention: RetentionSection = Field(default_factory=RetentionSection, description="how long finished jobs are kept")
    web: WebSection = Field(default_factory=WebSection, description="HTTP API and dashboard")
    tokens: tuple[TokenSection, ...] = Field((), description="who may use the HTTP API")
    status: StatusSection = Field(default_factory=StatusSection, description="the health and control socket")
    alerts: tuple[AlertSection, ...] = Field((), description="what to do when something is wrong")
    log: LogSection = Field(default_factory=LogSection, description="what is written where")

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        require_distinct(("workers", *(group.name for group in self.groups)), "group name")
        require_distinct((queue.name for queue in self.queues), "queue")
        require_distinct((entry.name for entry in self.schedule), "schedule entry")
        require_distinct((token.name for token in self.tokens), "token")
        require_distinct((token.sha256.lower() for token in self.tokens), "token with the sha256")
        require_distinct([*(t.name for t in self.types), *(c.type for c in self.commands)], "job type")
        return self
