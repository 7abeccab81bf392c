"""`start` and `check` as the command line has them: a running supervisor, or all that is in the way of one."""

from typing import Annotated

import typer

from pool.cli.flags import load
from pool.cli.output import say, say_json
from pool.cli.starting import MOST_WORKERS, modules, run_pool
from pool.cli.store import AsJson, BackendUrl, ConfigFile

Workers = Annotated[
    int | None,
    typer.Option("--workers", "-w", min=1, max=MOST_WORKERS, metavar="N", help="Worker processes; default: cores."),
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
    return run_pool(workers=workers, queues=queues, app=app, backend=backend, config=config, burst=burst, watch=watch)


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

    loaded = load(config, backend, workers__count=workers, workers__queues=queues, app__modules=modules(app))
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
