"""Jobs that the clock enqueues; nothing about them is special, and `jobpool enqueue` can enqueue them too."""

import os
import time
from pathlib import Path

import pool

UPLOADS = Path(os.environ.get("UPLOADS", "uploads"))
DAY_S = 86_400


@pool.job(queue="housekeeping", priority="low", unique_key="clean_up")
def clean_up(days: int) -> int:
    """Remove uploads that nobody touched for so many days; how many. `unique_key`: never two at once."""
    oldest = time.time() - days * DAY_S
    old = [file for file in UPLOADS.iterdir() if file.stat().st_mtime < oldest]
    for file in old:
        file.unlink(missing_ok=True)
    return len(old)


@pool.job(queue="housekeeping")
def warm() -> None:
    """Whatever warms your cache."""
