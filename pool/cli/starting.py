"""From flags to a running supervisor. Whoever starts a pool with plain words pays for no parser and no other verb."""

from collections.abc import Sequence
from typing import Any

from pool import logs
from pool.cli.flags import load
from pool.config import Loaded
from pool.logs import log
from pool.supervisor.planned import Plan, Reread

SWITCHES = frozenset({"burst", "watch"})
NAMES = {f"--{name}": name for name in ("workers", "queues", "app", "backend", "config", *SWITCHES)} | {"-w": "workers"}
MOST_WORKERS = 2000


def plain_flags(words: Sequence[str]) -> dict[str, Any] | None:
    """The flags of `start` if nothing is unusual about these words; None: a real parser must say what they mean."""
    flags: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name = NAMES.get(word)
        if name is None or (name in flags and name != "app"):
            return None
        value = True if name in SWITCHES else _plain_value(name, next(rest, ""))
        if value is None:
            return None
        flags[name] = [*flags.get(name, ()), value] if name == "app" else value
    return flags


def _plain_value(name: str, text: str) -> str | int | None:
    if not text or text.startswith("-"):
        return None
    if name != "workers":
        return text
    is_count = text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= MOST_WORKERS
    return int(text) if is_count else None


def run_pool(
    *,
    workers: int | None = None,
    queues: str | None = None,
    app: list[str] | None = None,
    backend: str | None = None,
    config: str | None = None,
    burst: bool = False,
    watch: bool = False,
) -> int:
    """Run a pool until it is told to stop; its exit code. Each reload lays the same flags over the file."""
    from pool.cli.preflight import refuse_unusable_store
    from pool.plan import Options, make_plan, make_reread

    latest: list[Loaded] = []

    def read() -> Loaded:
        latest[:] = [load(config, backend, workers__count=workers, workers__queues=queues, app__modules=modules(app))]
        return latest[0]

    loaded = read()
    refuse_unusable_store(loaded)
    _configure_logs(loaded)
    if not (loaded.config.app.modules or loaded.config.commands):
        log.warning("this pool has no jobs to run: name your module with --app, or in [app] modules")
    options = Options(burst=burst, watch=watch)
    plan = make_plan(loaded, options=options)
    return supervise(plan, _with_logs(make_reread(loaded, read, options=options), latest))


def supervise(plan: Plan, reread: Reread) -> int:
    """The supervisor's whole life; its exit code."""
    from pool.supervisor.loop import Supervisor
    from pool.supervisor.status_desk import StatusDesk
    from pool.supervisor.systemd import Systemd

    try:
        return Supervisor(plan, reread=reread, residents=(StatusDesk(), Systemd())).run()
    finally:
        logs.close()


def modules(app: list[str] | None) -> list[str] | None:
    """--app may be repeated, and may name several with commas."""
    return [name.strip() for text in app for name in text.split(",") if name.strip()] if app else None


def _configure_logs(loaded: Loaded) -> None:
    logs.configure(loaded.config.log, pool=loaded.config.pool.name, who="supervisor", in_parent=True)


def _with_logs(reread: Reread, latest: list[Loaded]) -> Reread:
    """A reload also changes how the supervisor itself logs."""

    def reread_all() -> Plan:
        plan = reread()
        _configure_logs(latest[0])
        return plan

    return reread_all
