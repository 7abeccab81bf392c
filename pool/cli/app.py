"""Every verb in one place, for `jobpool --help` and for all that is not needed in a hurry."""

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pool.cli import (
    audit,
    dead,
    demo,
    doctor,
    enqueue,
    jobs,
    light,
    limits,
    logs,
    move,
    queues,
    schedule,
    serve,
    start,
    token,
)
from pool.cli.completion import LightCommand
from pool.cli.failures import USAGE

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    help="A multi-process worker pool with a durable priority job queue.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run_app(words: list[str]) -> int:
    """Run one verb; its exit code."""
    try:
        app(words, prog_name="jobpool")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    return 0


def _coded(verb: Callable[..., int | None]) -> Callable[..., None]:
    """The verb with its returned number as the exit code."""

    @functools.wraps(verb)
    def run(*args: Any, **kwargs: Any) -> None:
        if code := verb(*args, **kwargs):
            raise typer.Exit(code)

    return run


def _add_light_verb(name: str) -> None:
    """Named in the help here, parsed and done by `light`."""

    def pass_on(context: typer.Context) -> None:
        raise typer.Exit(light.run_light(name, context.args))

    register = app.command(name, cls=LightCommand, help=light.VERBS[name].help, context_settings=PASS_ON)
    register(pass_on)


def show_help(
    verb: Annotated[
        list[str] | None, typer.Argument(metavar="VERB", help="One verb, or two such as dead retry; none: all of them.")
    ] = None,
) -> int:
    """Show the help of a verb, such as `jobpool help dead retry`."""
    words = verb or []
    if words[:1] and words[0] in light.VERBS:
        return light.run_light(words[0], ["--help"])
    return run_app([*words, "--help"])


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """A multi-process worker pool with a durable priority job queue."""


def _add_verbs() -> None:
    app.command("start")(_coded(start.start))
    app.command("check")(start.check)
    app.command("demo")(_coded(demo.demo))
    app.command("doctor")(_coded(doctor.doctor))
    for name in light.VERBS:
        _add_light_verb(name)
    app.command("enqueue")(enqueue.enqueue)
    app.add_typer(jobs.jobs_app, name="jobs")
    app.add_typer(dead.dead_app, name="dead")
    for verb in (queues.queues, queues.pause, queues.resume, queues.purge, queues.pools, queues.backup):
        app.command(verb.__name__)(verb)
    app.add_typer(schedule.schedule_app, name="schedule")
    app.command("limits")(limits.limits)
    app.command("logs")(logs.logs)
    app.command("audit")(audit.audit)
    app.command("serve")(_coded(serve.serve))
    app.command("move")(move.move)
    app.add_typer(token.token_app, name="token")
    app.command("help")(_coded(show_help))


_add_verbs()
