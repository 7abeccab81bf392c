"""The job types of the pools in tests/semantics; written into each pool's folder as `tasks`."""

import os
import time
from datetime import date
from typing import Any

from ledger import note, noted, wait_for_gate  # type: ignore[import-not-found]  # beside it, in the pool's folder

import pool


class Busy(Exception):
    """Try again soon."""


class Hopeless(Exception):
    """Never try again."""


@pool.job
@noted
def quick(n: int = 0) -> int:
    return n


@pool.job(max_retries=0)
@noted
def echo(value: Any = None, **more: Any) -> Any:
    return value


@pool.job
@noted
def long_text(length: int) -> str:
    return "x" * length


@pool.job(max_retries=1, backoff=[0.2])
@noted
def chatter(gate: str) -> None:
    attempt = pool.current().attempt
    print(f"attempt {attempt}: before")
    wait_for_gate(f"{gate}-{attempt}")
    print(f"attempt {attempt}: after")
    if attempt == 1:
        raise Busy("once more")


@pool.job
@noted
def hold(gate: str) -> str:
    print(f"waiting at {gate}")
    wait_for_gate(gate)
    return gate


@pool.job(max_retries=3, backoff={Busy: [0.05], Exception: [3600]}, fatal=(Hopeless,))
@noted
def moody(mood: str = "busy", until: int = 2) -> int:
    attempt = pool.current().attempt
    if mood == "hopeless":
        raise Hopeless("no")
    if mood == "give up":
        raise pool.GiveUp("no")
    if mood == "slow":
        raise RuntimeError("an error of no listed class")
    if mood == "asks":
        raise pool.RetryAfter(7200)
    if attempt < until:
        raise Busy(f"attempt {attempt} of order {os.getpid()}")
    return attempt


@pool.job(max_retries=0)
@noted
def broken(order: int) -> None:
    raise ValueError(f"order {order} of customer 'c{order}' is broken")


@pool.job(max_retries=0)
@noted
def picky(amount: int) -> int:
    if amount < 0:
        raise ValueError("a negative amount")
    return amount


@pool.job(timeout=0.3, max_retries=0)
@noted
def too_slow() -> None:
    time.sleep(60)


@pool.job
@noted
def stubborn() -> None:
    """Swallows every order to stop."""
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            note("swallowed")


@pool.job
@noted
def steps(gate: str) -> list[str]:
    """Says how far it is and keeps its state."""
    job = pool.current()
    done = list(job.restored or [])
    if not done:
        job.checkpoint(["first"])
        job.progress(0.5, "half way")
        wait_for_gate(gate)
        raise Busy("interrupted")
    return [*done, "second"]


@pool.job
@noted
def parent(fail: bool = False) -> str:
    child_id = pool.current().enqueue(quick, 7)
    if fail:
        raise pool.GiveUp("no child either")
    return child_id


@pool.job(max_running=2)
@noted
def two_at_once(gate: str) -> None:
    wait_for_gate(gate)


@pool.job(limit="2/s", limit_key="mail-{host}")
@noted
def send(host: str) -> None:
    """Two at once, then one each half second."""


@pool.job(redact=("token", "card"))
@noted
def pay(token: str, card: dict[str, str], amount: int = 1) -> None:
    print(f"paying {amount} with {token}")
    pool.current().progress(0.1, f"using {card['number']}")
    raise pool.GiveUp(f"card {card['number']} was refused, token {token!r}")


@pool.job
@noted
async def ripple(day: date) -> str:
    return day.isoformat()


@pool.job(unique_key="report-{day}")
@noted
def report(day: str, gate: str) -> str:
    wait_for_gate(gate)
    return day
