"""The shape of the configuration: every key, its default, its range and one line that explains it. No I/O.

`config.example.toml` is generated from these models and a test keeps it equal. Durations are seconds or "10m", sizes
bytes or "512MB". Unknown keys are refused. `config.py` finds the values and names the file and key of a wrong one.
"""

import os
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pool.identity import NAME_PATTERN, host_name

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_UNITS_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?\s*", re.IGNORECASE)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_duration(value: Any) -> Any:
    """Seconds from 30, 0.5, "30", "10m", "24h"; anything else is left for the model to refuse."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is not a duration: use seconds or a number with ms, s, m, h, d or w")
    return float(found[1]) * _UNITS_S[(found[2] or "s").lower()]


def parse_size(value: Any) -> Any:
    """Bytes from 1024, "512MB" (10^6), "512MiB" (2^20)."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value)
    if found is None or found[2].lower() not in _UNITS_BYTES:
        raise ValueError(f"{value!r} is not a size: use bytes or a number with KB, MB, GB, KiB, MiB or GiB")
    return int(float(found[1]) * _UNITS_BYTES[found[2].lower()])


def _split_commas(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0)]
Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]
Names = Annotated[list[str], BeforeValidator(_split_commas)]
Count = Annotated[int, Field(ge=1, le=2000)]
PriorityNumber = Annotated[int, Field(ge=0, le=100)]
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$")]
Metric = Literal["rss", "pss", "uss"]


class Section(BaseModel):
    """A table of the file: frozen, and strict about what it knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


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


class WorkersSection(WorkerKeys):
    pass


class GroupSection(WorkerKeys):
    name: Name = Field(description="the group's name in status and in `scale --group`")
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
    ageing: Duration = Field(0, description="waiting this long is worth ten points of priority; 0 = strict priorities")


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


class CommandSection(Section):
    type: str = Field(min_length=1, max_length=200, description="job type that runs this executable")
    argv: list[str] = Field(
        min_length=1, description='program and arguments, never through a shell; "{field}" is replaced from the payload'
    )
    cwd: str = Field("", description="working directory; default: [app] path")
    env: dict[str, str] = Field(default_factory=dict, description="further environment variables")
    timeout: Duration = Field(0, description="longest run; 0 = no limit")
    max_retries: int = Field(3, ge=0, le=100, description="retries after the first attempt")


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
    tls_cert: str = Field("", description="certificate file (PEM)")
    tls_key: str = Field("", description="key file (PEM)")


class TokenSection(Section):
    name: Name = Field(description="who uses it; shown in logs and as the owner of jobs")
    role: Literal["producer", "worker", "admin"] = Field(description="what it may do")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of the token, as printed by `jobpool token new`")
    max_priority: PriorityNumber = Field(10, description="producers: the highest priority it may use")
    types: Names = Field(default_factory=list, description="producers: job types it may enqueue; empty = all")
    queues: Names = Field(default_factory=lambda: ["default"], description="producers and workers: queues it may use")


class StatusSection(Section):
    socket_mode: str = Field("0660", pattern="^0?[0-7]{3}$", description="mode of the status socket")
    listen: str = Field("", description="also answer read-only probes on this TCP address, such as 127.0.0.1:8421")


class AlertSection(Section):
    on: Literal["degraded", "backend_down", "dead_rate", "overdue", "reload_failed", "schedule_missed"] = Field(
        description="what to watch for"
    )
    command: list[str] = Field(
        default_factory=list, description="program to run, the alert as JSON on its standard input"
    )
    url: str = Field("", description="or a URL to POST it to")
    every: Duration = Field(900, description="at most one alert of this kind in this time")


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
