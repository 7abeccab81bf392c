"""Configuration to children: which processes run, how many, and what each of them runs. The wiring is visible here.

Our own heavy libraries are imported in the parent, before the fork, so that all children share their memory; they are
never used there. User code is imported by the workers only, so that a rolling reload picks up new code.
"""

import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pool import logs, titles
from pool.backends import spool
from pool.board.record import Role
from pool.config import PREFIX, Loaded, runtime_dir, state_dir
from pool.errors import ConfigError
from pool.identity import new_pool_id
from pool.keeper.loop import run_keeper
from pool.seat import ChildSpec, MemoryRule, Seat
from pool.settings import Config, GroupSection, WorkerKeys
from pool.supervisor.planned import Plan, Reread
from pool.watch import run_watch
from pool.worker.brief import Brief, results_folder
from pool.worker.loop import run_worker

DEFAULT_GROUP = "workers"
KEEPER_LEAST_SILENCE_S = 2.0  # a loaded machine must not cost a healthy keeper its life
KEEPER_LEAST_BOOT_S = 3.0
WEB_SILENCE_S = 15.0  # its event loop shows life each second

# What only the parent reads: a change of it needs no new processes.
PARENT_KEYS = frozenset({"count", "count_min", "count_max", "target_wait", "memory_kill", "memory_check_seconds"})
WORKER_SECTIONS = ("pool", "app", "backend", "jobs", "queues", "types", "commands", "log")
KEEPER_SECTIONS = (*WORKER_SECTIONS, "schedule", "retention", "alerts")
WEB_SECTIONS = (*WORKER_SECTIONS, "web", "tokens")

# What is settled when the parent starts and stays until it starts again.
# Each would import it by itself, eight times over, and into memory of its own.
NEEDED_BY_EACH_WORKER = ("pool.logs.sink", "pool.declaration", "pydantic.type_adapter", "pydantic.json_schema")
RESTART_KEYS = ("pool.name", "pool.runtime_dir", "pool.state_dir", "status.socket_mode", "status.listen", "app.preload")


@dataclass(frozen=True, slots=True)
class Options:
    """Modes of one run that no file sets. `burst`: end when nothing is pending. `watch`: roll when a file changes."""

    burst: bool = False
    watch: bool = False


def make_plan(loaded: Loaded, *, options: Options | None = None, notices: tuple[str, ...] = ()) -> Plan:
    """The plan that this configuration means; ConfigError when a part of it is not installed or not importable."""
    options, config = options or Options(), loaded.config
    _import_libraries(config)
    pool = new_pool_id(config.pool.name)
    return Plan(
        pool=pool,
        specs=tuple(_children(config, options, edition=str(pool))),
        runtime_dir=runtime_dir(config),
        state_dir=state_dir(config),
        stop_timeout=config.pool.stop_timeout,
        merge_memory=config.pool.merge_memory,
        socket_mode=int(config.status.socket_mode, 8),
        status_listen=config.status.listen,
        config_path=str(loaded.path.absolute()) if loaded.path else None,
        count_sources=_count_sources(loaded),
        file_counts=_file_counts(loaded),
        departures_dir=spool.departures_in(results_folder(config)),  # where the keeper of the next start will look
        notices=(*loaded.warnings, *notices),
    )


def groups_of(config: Config) -> Iterator[tuple[str, WorkerKeys]]:
    """Every group of workers by name, the default one first."""
    yield DEFAULT_GROUP, config.workers
    for group in config.groups:
        yield group.name, group


# ---------------------------------------------------------------- the children


def _children(config: Config, options: Options, edition: str) -> Iterator[ChildSpec]:
    brief = Brief(results_folder(config), edition, options.burst)
    for name, group in groups_of(config):
        yield _workers(config, name, group, brief)
    yield _keeper(config)
    if config.web.enabled:
        yield _web(config)
    if options.watch:
        yield _spec(config, Role.WATCH, "watch", functools.partial(run_watch, config), fingerprint=config.app.path)


def _workers(config: Config, name: str, group: WorkerKeys, brief: Brief) -> ChildSpec:
    own_stop = group.stop_timeout if isinstance(group, GroupSection) else None
    return _spec(
        config,
        Role.WORKER,
        name,
        functools.partial(run_worker, config, name, brief),
        fingerprint=_fingerprint(config, WORKER_SECTIONS, group.model_dump(exclude=set(PARENT_KEYS))),
        count=group.count,
        lanes=1 + group.claims_ahead if group.concurrency == 1 else group.concurrency,
        stop_timeout=config.pool.stop_timeout if own_stop is None else own_stop,
        burst=brief.is_burst,
        memory=MemoryRule(
            limit=group.memory_limit,
            kill=group.memory_kill,
            metric=group.memory_metric,
            check_seconds=group.memory_check_seconds,
        ),
        max_jobs=group.max_jobs,
        max_age=group.max_age,
        count_min=group.count_min,
        count_max=group.count_max,
        target_wait=group.target_wait,
        queues=tuple(group.queues),
        min_priority=group.min_priority,
        max_priority=group.max_priority,
    )


def _keeper(config: Config) -> ChildSpec:
    """Noticing its silence, the wait before its restart and its boot stay below half a lease together."""
    lease = config.backend.lease
    queues = {name: group.queues for name, group in groups_of(config)}
    return _spec(
        config,
        Role.KEEPER,
        "keeper",
        functools.partial(run_keeper, config),
        fingerprint=_fingerprint(config, KEEPER_SECTIONS, queues),
        critical=True,
        stop_last=True,
        silence_timeout=max(lease / 4, KEEPER_LEAST_SILENCE_S),
        first_delay=min(config.restart.first_delay, lease / 10),
        max_delay=min(config.restart.max_delay, lease / 10),
        boot_timeout=max(min(config.pool.boot_timeout, lease / 8), KEEPER_LEAST_BOOT_S),
    )


def _web(config: Config) -> ChildSpec:
    server = _load("pool.web.server", "the HTTP API ([web] enabled)")
    server.refuse_unsafe(config)
    run_web: Callable[[Config, Seat], int] = server.run_web
    return _spec(
        config,
        Role.WEB,
        "web",
        functools.partial(run_web, config),
        fingerprint=_fingerprint(config, WEB_SECTIONS, {}),
        silence_timeout=WEB_SILENCE_S,
    )


def _spec(
    config: Config, role: Role, group: str, run: Callable[[Seat], int], *, fingerprint: str, **more: Any
) -> ChildSpec:
    """What all children have in common, and what this one has of its own."""
    shared = {
        "count": 1,
        "stop_timeout": config.pool.stop_timeout,
        "boot_timeout": config.pool.boot_timeout,
        "retire_timeout": config.pool.retire_timeout,
        "first_delay": config.restart.first_delay,
        "max_delay": config.restart.max_delay,
        "healthy_after": config.restart.healthy_after,
    }
    return ChildSpec(
        role=role,
        group=group,
        run=functools.partial(_run_child, config, run),
        fingerprint=fingerprint,
        **(shared | more),
    )


def _run_child(config: Config, run: Callable[[Seat], int], seat: Seat) -> int:
    """The first thing in every child: its log lines bear its own name (a worker knows its own better)."""
    titles.name_process(f"worker {seat.worker.slot}" if seat.role is Role.WORKER else seat.role.name.lower())
    if seat.role is not Role.WORKER:
        logs.configure(config.log, pool=config.pool.name, who=seat.role.name.lower(), in_parent=False)
    return run(seat)


def _fingerprint(config: Config, sections: tuple[str, ...], own: Mapping[str, Any]) -> str:
    """Changes exactly when something changes that a running child of this kind would not notice."""
    seen = config.model_dump(mode="json", include=set(sections))
    text = json.dumps([seen, own], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---------------------------------------------------------------- libraries


def _import_libraries(config: Config) -> None:
    if config.backend.url.startswith(("redis", "valkey", "unix:")):
        _load("hiredis", "the Redis backend")
        _load("pool.backends.redis.backend", "the Redis backend")
        _load("pool.backends.redis.scripts", "the Redis backend").read_steps_of_workers()
    else:
        _load("pool.backends.sqlite.backend", "the SQLite backend")
    for name in NEEDED_BY_EACH_WORKER:
        _load(name, "every worker")
    for name in config.app.preload:
        _load(name, "[app] preload")


def _load(name: str, wanted_by: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = " Install it with: pip install 'jobpool[web]'" if "web" in name else ""
        raise ConfigError(f"{wanted_by} needs {name}, which cannot be imported: {error}.{extra}") from error


# ---------------------------------------------------------------- counts and reloads


def _count_sources(loaded: Loaded) -> dict[str, str]:
    named = {group.name: "file" if "count" in group.model_fields_set else "default" for group in loaded.config.groups}
    return {DEFAULT_GROUP: loaded.origin("workers.count"), **named}


def _file_counts(loaded: Loaded) -> dict[str, int]:
    named = {group.name: group.count for group in loaded.config.groups if "count" in group.model_fields_set}
    default = loaded.file_values.get("workers.count")
    return {DEFAULT_GROUP: default, **named} if isinstance(default, int) else named


def make_reread(loaded: Loaded, load: Callable[[], Loaded], *, options: Options | None = None) -> Reread:
    """A function that loads the configuration again and plans anew; on ConfigError what was known before stays."""
    latest = loaded

    def reread() -> Plan:
        nonlocal latest
        fresh = load()
        _refuse_emptied(latest, fresh)
        notices = (*_fixed_values(latest, fresh), *_needs_restart(loaded.config, fresh.config))
        plan = make_plan(_with_settled_keys(loaded.config, fresh), options=options, notices=notices)
        latest = fresh
        return plan

    return reread


def _refuse_emptied(before: Loaded, now: Loaded) -> None:
    """An editor or a deploy may be writing it at this very moment; nobody means "everything by default, another store"."""
    if before.file_values and now.path and not now.file_values:
        raise ConfigError(f"configuration file {now.path} is empty: is it just being written?")


def _fixed_values(before: Loaded, now: Loaded) -> Iterator[str]:
    """What the file changed in vain."""
    for key in sorted(now.fixed_by_environment):
        if before.file_values.get(key) != now.file_values.get(key):
            variable = PREFIX + key.replace(".", "__").upper()
            yield f"{key} changed in {now.path}, but {variable} in the environment fixes it: not reloadable"


def _needs_restart(started: Config, now: Config) -> Iterator[str]:
    for key in RESTART_KEYS:
        if _value(started, key) != _value(now, key):
            yield f"{key} changed; it takes effect when jobpool is started again"


def _with_settled_keys(started: Config, fresh: Loaded) -> Loaded:
    """The new configuration with the keys that cannot change while the parent runs."""
    kept = {name: getattr(started.pool, name) for name in ("name", "runtime_dir", "state_dir")}
    pool = fresh.config.pool.model_copy(update=kept)
    config = fresh.config.model_copy(update={"pool": pool, "status": started.status})
    return Loaded(config, fresh.path, fresh.sources, fresh.file_values, fresh.warnings)


def _value(config: Config, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
