"""`enqueue TYPE [JSON]`: a job from the command line, checked as one from Python or over HTTP."""

from typing import Annotated, Any

import typer

from pool.cli.flags import load
from pool.cli.output import remark, say, say_json
from pool.cli.payloads import make_type_known, read_payload
from pool.cli.store import AsJson, BackendUrl, ConfigFile, client_of, published_types, unstoppable
from pool.errors import InvalidJob
from pool.jobs.documents import job_document
from pool.jobs.registry import registry
from pool.settings import parse_duration


def enqueue(
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="The job's type, such as tasks.send_email.")],
    payload: Annotated[
        str, typer.Argument(metavar="[JSON]", help="Its arguments as a JSON object; - reads them.")
    ] = "{}",
    queue: Annotated[str | None, typer.Option("--queue", help="Default: that of the type.")] = None,
    priority: Annotated[str | None, typer.Option("--priority", help="low, medium, high, critical or 0 to 100.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Run no sooner than after this: 30, 10m, 2h.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Run no sooner than this time (RFC 3339).")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: the same key gives the first job.")] = None,
    max_retries: Annotated[int | None, typer.Option("--max-retries", min=0, max=100, help="0: at most once.")] = None,
    app: Annotated[str | None, typer.Option("--app", metavar="MODULE", help="Where the type is defined.")] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Enqueue one job. It is stored when this returns."""
    loaded = load(config, backend, app__modules=[app] if app else None)
    asked = {"queue": queue, "priority": priority, "delay": _seconds(delay), "run_at": at, "idempotency_key": key}
    options: dict[str, Any] = {"max_retries": max_retries, **asked}
    with client_of(loaded) as client, unstoppable():
        make_type_known(client, type_, loaded)
        given = {name: value for name, value in options.items() if value is not None}
        receipt = client.enqueue(type_, read_payload(payload), **given)
        job = client.get(receipt)
        is_known = registry.get(job.type) or published_types(client.backend()).get(job.type)
    if as_json:
        say_json(job_document(job))
    else:
        known = " (known already by its key)" if receipt.replayed else ""
        say(f"{job.id} {job.status.value} in queue {job.queue}{known}")
        if not is_known:
            remark(
                "No running pool knows this type and no --app is given: it got the default queue, priority and retries"
            )
        if receipt.payload_differs:
            remark("The first job with this key has another payload; it was left as it is")


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else float(parse_duration(text))
    except ValueError as error:
        raise InvalidJob(f"--delay {error}") from None
