"""`start` and `check`: from the command line to a running supervisor, or to all that is in the way of one."""

from typing import Annotated

import typer

from pool import logs
from pool.cli.output import say, say_json
from pool.cli.store import AsJson, BackendUrl, ConfigFile, load
from pool.config import Loaded
from pool.logs import log
from pool.supervisor.planned import Plan, Reread

Workers = Annotated[
    int | None, typer.Option("--workers", "-w", min=1, max=2000, metavar="N", help="Worker processes; default: cores.")
]
Queues = Annotated[str | None, typer.Option("--queues", metavar="A,B", help="Serve only these, the first one first.")]
App = Annotated[list[str] | None, typer.Option("--app", metavar="MODULE", help="Your module with the jobs.")]


def start(
    workers: Workers = None,
    queues: Queues = None,
    app: App = None,
    backend: BackendUrl = None,
    config: ConfigFile = None,
    burst: Annotated[
        bool, typer.Option("--burst", help="End when no job is pending: 0, or 1 if a worker died.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="For development: new code at every change of a file.")
    ] = False,
) -> int:
    """Run the pool in the foreground until it is told to stop."""
    from pool.cli.preflight import refuse_unusable_store
    from pool.plan import Options, make_plan, make_reread

    latest: list[Loaded] = []

    def read() -> Loaded:
        latest[:] = [load(config, backend, workers__count=workers, workers__queues=queues, app__modules=_modules(app))]
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


def check(
    workers: Workers = None,
    queues: Queues = None,
    app: App = None,
    backend: BackendUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Check the configuration, the job modules and the store, and start nothing."""
    from pool.cli.preflight import examine

    loaded = load(config, backend, workers__count=workers, workers__queues=queues, app__modules=_modules(app))
    report = examine(loaded)
    if as_json:
        say_json(report)
        return
    say(f"configuration {report['config'] or 'has no file'}: fine")
    for warning in report["warnings"]:
        say(f"  warning: {warning}")
    say(f"store {report['backend']}: {report['store']}")
    for group in report["groups"]:
        say(
            f"group {group['name']}: {group['count']} workers ({group['count_source']}), queues {', '.join(group['queues'])}"
        )
    say(f"{len(report['types'])} job types: {', '.join(report['types']) or 'none; name your module with --app'}")


def _modules(app: list[str] | None) -> list[str] | None:
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
