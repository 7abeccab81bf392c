"""Verbs that talk to a running pool: health, status, reload, scale, drain, undrain, stop, restart, stack.

They are typed in emergencies and by probes each second, so nothing heavy is loaded for them: no typer, no rich (but for
a table on a terminal), no pydantic.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pool.cli import control
from pool.cli.failures import NEGATIVE, OK
from pool.cli.output import remark, say, say_json
from pool.paths import find_socket

Arguments = argparse.Namespace
PROBE_TIMEOUT_S = 2.0
COMMAND_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: what it says in the help, its own arguments, and what it does."""

    help: str
    run: Callable[[Arguments], int]
    arguments: Callable[[argparse.ArgumentParser], Any] = lambda parser: None


def run_light(name: str, words: list[str]) -> int:
    """Parse the words after the verb and do it; argparse ends the process with 2 on wrong usage."""
    return VERBS[name].run(parser_of(name).parse_args(words))


def parser_of(name: str) -> argparse.ArgumentParser:
    """What the verb understands."""
    verb = VERBS[name]
    parser = argparse.ArgumentParser(prog=f"jobpool {name}", description=verb.help)
    parser.add_argument("--config", metavar="FILE", help="configuration file")
    parser.add_argument("--socket", metavar="PATH", help="status socket of the pool; default: as configured")
    verb.arguments(parser)
    return parser


def options_of(name: str) -> list[argparse.Action]:
    """The verb's options, for the shell that completes them."""
    return [action for action in parser_of(name)._actions if action.option_strings]


def ask(
    arguments: Arguments, method: str, path: str, *, timeout: float | None = PROBE_TIMEOUT_S, **body: Any
) -> tuple[int, Any]:
    """Status code and document of the pool's answer; PoolUnreachable when there is none."""
    return control.ask(socket_of(arguments), method, path, body or None, timeout)


def socket_of(arguments: Arguments) -> str:
    """The socket that was named, else the configured one."""
    return arguments.socket or str(find_socket(arguments.config))


# ---------------------------------------------------------------- looking


def health(arguments: Arguments) -> int:
    """0 healthy, 1 not, 69 nothing there."""
    code, document = ask(arguments, "GET", "/readyz" if arguments.ready else "/healthz")
    if arguments.json:
        say_json(document)
    else:
        say(_health_words(code, document))
    return OK if code == 200 else NEGATIVE


def _health_words(code: int, document: dict[str, Any]) -> str:
    reasons = "; ".join(map(str, document.get("reasons", ())))
    state = document.get("state") or ("ok" if code == 200 else "not ok")
    if code != 200 and state == "ready":  # the pool is, its store is not
        state = "not ready"
    return f"{state}: {reasons}" if reasons else str(state)


def status(arguments: Arguments) -> int:
    """One look, or one each second with --watch."""
    from pool.cli.status import show_status, watch_status

    def look() -> dict[str, Any]:
        document: dict[str, Any] = ask(arguments, "GET", "/status")[1]
        return document

    if arguments.watch:
        return watch_status(look, as_json=arguments.json)
    say_json(look()) if arguments.json else show_status(look())
    return OK


def top(arguments: Arguments) -> int:
    """The pool live, with keys; plain lines where there is no terminal."""
    from pool.cli.top import run_top

    return run_top(arguments, socket_of(arguments))


# ---------------------------------------------------------------- ordering


def order(
    arguments: Arguments, verb: str, done: str, *, timeout: float | None = COMMAND_TIMEOUT_S, **options: Any
) -> int:
    """Send an order and say how it went; 1 when the pool refused or failed."""
    given = {key: value for key, value in options.items() if value is not None}
    code, document = ask(arguments, "POST", f"/{verb}", timeout=timeout, **given)
    if arguments.json:
        say_json(document)
    elif code < 300:
        say(document.get("message") or done)
    else:
        remark(f"jobpool: {why(document)}")
    if code < 300 and arguments.socket is None:
        _write_down(arguments.config, verb, given)
    return OK if code < 300 else NEGATIVE


def _write_down(config: str | None, verb: str, options: dict[str, Any]) -> None:
    """In the audit log, once it is done: an order must not wait for a store that is away. Only then is much loaded."""
    from pool.cli.audit import note_order

    note_order(config, verb, options)


def why(document: Any) -> str:
    """The sentence in a refusal."""
    return str((document.get("detail") or document.get("error")) if isinstance(document, dict) else document)


def reload(arguments: Arguments) -> int:
    timeout = None if arguments.wait else COMMAND_TIMEOUT_S
    return order(arguments, "reload", "reloaded", timeout=timeout, rolling=arguments.rolling, wait=arguments.wait)


def scale(arguments: Arguments) -> int:
    return order(arguments, "scale", f"scaled to {arguments.count}", count=arguments.count, group=arguments.group)


def drain(arguments: Arguments) -> int:
    return order(arguments, "drain", "draining: running jobs finish, no new ones start", group=arguments.group)


def undrain(arguments: Arguments) -> int:
    return order(arguments, "undrain", "taking jobs again", group=arguments.group)


def restart(arguments: Arguments) -> int:
    return order(arguments, "restart", "restarting", group=arguments.group, slot=arguments.slot)


def stop(arguments: Arguments) -> int:
    """Ask, then with --wait (or --now) stay until the socket is gone."""
    from pool.cli.stopping import wait_until_gone, watch_supervisor

    watched = watch_supervisor(socket_of(arguments)) if arguments.wait or arguments.now else None
    code = order(arguments, "stop", "stopping: running jobs finish first", now=arguments.now)
    if code == OK and (arguments.wait or arguments.now):
        wait_until_gone(socket_of(arguments), watched)
        remark("stopped")
    return code


def stack(arguments: Arguments) -> int:
    code, document = ask(arguments, "POST", "/stack", timeout=COMMAND_TIMEOUT_S, slot=arguments.slot)
    if arguments.json or code >= 300:
        say_json(document) if arguments.json else remark(f"jobpool: {why(document)}")
    else:
        say(own_frames(document.get("stack", "")))
    return OK if code < 300 else NEGATIVE


def own_frames(stack: str) -> str:
    """The stack without what lies below the worker's entry, which is the same in all of them."""
    lines = stack.splitlines()
    below = [n for n, line in enumerate(lines) if line.endswith("in run_worker")]
    return "\n".join(lines[: below[-1]] if below else lines)


# ---------------------------------------------------------------- arguments


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _group(parser: argparse.ArgumentParser) -> None:
    _json(parser)
    parser.add_argument("--group", metavar="NAME", help="only this group of workers")


def _health(parser: argparse.ArgumentParser) -> None:
    _json(parser)
    parser.add_argument("--ready", action="store_true", help="also ask whether it can work, and why not")


def _status(parser: argparse.ArgumentParser) -> None:
    _json(parser)
    parser.add_argument("--watch", action="store_true", help="look again each second")


def _top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", metavar="N", type=_count, default=0, help="show N pictures, then end")


def _reload(parser: argparse.ArgumentParser) -> None:
    _json(parser)
    parser.add_argument("--rolling", action="store_true", help="replace all workers one by one (new code)")
    parser.add_argument("--wait", action="store_true", help="wait until the last old worker has left")


def _scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", metavar="N", type=_count, help="how many workers")
    _group(parser)


def _restart(parser: argparse.ArgumentParser) -> None:
    _group(parser)
    parser.add_argument("--slot", type=int, help="only this worker")


def _stop(parser: argparse.ArgumentParser) -> None:
    _json(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--wait", action="store_true", help="return when everything has left")
    how.add_argument("--now", action="store_true", help="kill running jobs; they go back to their queue")


def _stack(parser: argparse.ArgumentParser) -> None:
    _json(parser)
    parser.add_argument("slot", metavar="SLOT", type=int, help="the worker's slot, see: jobpool status")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 2000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers (1 to 2000)")
    return int(text)


VERBS: dict[str, Verb] = {
    "status": Verb("Show the pool, its workers and its queues.", status, _status),
    "top": Verb("Watch the pool live: workers, queues, failures; keys to pause, retry, scale.", top, _top),
    "health": Verb("Ask whether the pool is alive: 0 yes, 1 no, 69 nothing there.", health, _health),
    "reload": Verb("Read the configuration again and apply what changed.", reload, _reload),
    "scale": Verb("Run this many workers.", scale, _scale),
    "drain": Verb("Stop taking jobs, but stay up.", drain, _group),
    "undrain": Verb("Take jobs again.", undrain, _group),
    "restart": Verb("Replace workers one by one.", restart, _restart),
    "stop": Verb("Stop the pool; running jobs finish first.", stop, _stop),
    "stack": Verb("Show what a worker's Python is doing right now.", stack, _stack),
}
