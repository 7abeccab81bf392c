"""Jobs that the client's tests enqueue."""

import pool


@pool.job(name="here.add", queue="sums", max_retries=1)
def add(a: int, b: int = 0) -> int:
    return a + b


@pool.job(name="here.report", unique_key="report:{day}")
def report(day: str) -> None: ...


@pool.job(name="here.named_once")
def named_once(a: int) -> int:
    """Another module's jobs may be known to this process as well."""
    return a
