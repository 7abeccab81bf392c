"""`limits`: what limits there are, how much of each is used, and who waits for it."""

from dataclasses import asdict
from typing import Any

from pool.backends.contract import LimitState
from pool.cli.flags import load
from pool.cli.output import duration, say_json, say_table
from pool.cli.store import AsJson, BackendUrl, ConfigFile, opened
from pool.clock import as_rfc3339


def limits(as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """List the limits that job types declare: what each allows, how many run, how many wait."""
    with opened(load(config, backend)) as store:
        states, now = store.limits(), store.server_now()
    if as_json:
        say_json([_document(state) for state in states])
        return
    rows = [
        (state.key, _rate(state), state.max_running or "any", state.running, state.waiting, _opens(state, now))
        for state in states
    ]
    say_table(("limit", "rate", "at once", "running", "waiting", "next start"), rows, empty="no limits")


def _document(state: LimitState) -> dict[str, Any]:
    return {**asdict(state), "opens_at": as_rfc3339(state.opens_at)}


def _rate(state: LimitState) -> str:
    return f"{state.count:,} per {duration(state.per_s)}" if state.count else "any"


def _opens(state: LimitState, now: float) -> str:
    if state.opens_at is not None:
        return f"in {duration(max(0.0, state.opens_at - now))}"
    return "at once" if state.has_room else "when one ends"
