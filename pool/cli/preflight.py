"""What can be known to go wrong before anything is started: the store's place, the job modules, the schedule."""

import os
from pathlib import Path
from typing import Any

from pool.backends import opening
from pool.config import Loaded
from pool.errors import BackendUnavailable, ConfigError, JobpoolError
from pool.jobs.registry import registry
from pool.settings import Config

SQLITE_MAGIC = b"SQLite format 3\0"
SCHEMES = ("sqlite", "redis", "rediss", "unix", "valkey", "valkeys")


def refuse_unusable_store(loaded: Loaded) -> None:
    """ConfigError for a URL nobody speaks or a place where no database can be. Opens no backend."""
    url = loaded.config.backend.url
    scheme = url.partition("://")[0].partition("+")[0].lower()
    if scheme not in SCHEMES:
        opening.open_backend(url)  # says in its own words what is wrong with it
    if scheme == "sqlite":
        path = sqlite_path(url)
        if loaded.origin("backend.url") == "default":
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        _refuse_unusable_file(path)


def sqlite_path(url: str) -> Path:
    """The file of a sqlite URL: sqlite:///relative.db or sqlite:////absolute/path.db."""
    return Path(opening.sqlite_path(url))


def _refuse_unusable_file(path: Path) -> None:
    if not path.parent.is_dir():
        raise ConfigError(f"database {path}: the folder {path.parent} does not exist; make it, or name another place")
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        raise ConfigError(
            f"database {path} lies on a read-only file system; mount it for writing, or name another place"
        )
    if not path.exists():
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise ConfigError(f"database {path}: the folder {path.parent} is not writable for this user")
        return
    if path.is_dir():
        raise ConfigError(f"database {path} is a folder; name a file in it, such as {path}/jobpool.db")
    if not os.access(path, os.R_OK | os.W_OK):
        raise ConfigError(f"database {path} is not readable and writable for this user")
    with path.open("rb") as file:
        start = file.read(len(SQLITE_MAGIC))
    if start and start != SQLITE_MAGIC:
        raise ConfigError(f"{path} is not an SQLite database; move it away, or name another file with --backend")


# ---------------------------------------------------------------- check


def examine(loaded: Loaded) -> dict[str, Any]:
    """All of `check`: the report, or the first thing that makes a start impossible as ConfigError."""
    from pool.plan import make_plan

    refuse_unusable_store(loaded)
    plan = make_plan(loaded)
    read_schedule(loaded.config)
    import_modules(loaded.config)
    return {
        "config": plan.config_path,
        "warnings": list(loaded.warnings),
        "backend": opening.mask_url(loaded.config.backend.url),
        "store": _store_words(loaded),
        "runtime_dir": str(plan.runtime_dir),
        "state_dir": str(plan.state_dir),
        "groups": [
            {"name": s.group, "count": s.count, "count_source": plan.count_sources[s.group], "queues": list(s.queues)}
            for s in plan.specs
            if s.group in plan.count_sources
        ],
        "types": registry.known(),
        "schedule": [entry.name for entry in loaded.config.schedule],
    }


def import_modules(config: Config) -> None:
    """The app's modules, as a worker will import them, without its hooks; ConfigError with the cleaned traceback."""
    from pool.worker.boot import BootFailed, import_app

    try:
        import_app(config)
    except BootFailed as error:
        raise ConfigError(str(error)) from None


def read_schedule(config: Config) -> None:
    """Every entry's cron or distance; ConfigError names the entry."""
    from pool.keeper.schedule import read_entry

    for settings in config.schedule:
        try:
            read_entry(settings)
        except JobpoolError as error:
            raise ConfigError(f"schedule entry {settings.name!r}: {error}") from None


def _store_words(loaded: Loaded) -> str:
    """A look at the store. It may be away now and back at the start, so this refuses nothing."""
    url = loaded.config.backend.url
    if url.startswith("sqlite") and not sqlite_path(url).exists():
        return "not there yet, will be made at the first start"
    backend = opening.open_backend(url, create=False, namespace=loaded.config.backend.namespace)
    try:
        return f"answers in {backend.ping() * 1000:.1f} ms"
    except BackendUnavailable as error:
        return f"does not answer now: {error.why}"
    finally:
        backend.close()
