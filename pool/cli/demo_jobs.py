"""The jobs of `jobpool demo`: real checksums of real files, some that fail and come back, one that never will."""

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pool

CHUNK = 1 << 20
SHORT_BACKOFF_S = [0.5, 0.5, 1.0]


@pool.job(name="demo.checksum", max_retries=1, backoff=SHORT_BACKOFF_S)
def checksum(path: str) -> dict[str, Any]:
    """SHA-256 of one file."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return {"sha256": digest.hexdigest(), "pid": os.getpid()}


@pool.job(name="demo.careful_checksum", priority="high", backoff=SHORT_BACKOFF_S)
def careful_checksum(path: str, seconds: float) -> dict[str, Any]:
    """The same, slowly: long enough for somebody to kill its worker in the middle."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        result = checksum(path)
        time.sleep(0.02)
    return {**result, "attempt": pool.current().attempt}


@pool.job(name="demo.flaky_checksum", max_retries=3, backoff=SHORT_BACKOFF_S)
def flaky_checksum(path: str, fails: int) -> dict[str, Any]:
    """Fails so many times, as a busy server would, and then succeeds."""
    if pool.current().attempt <= fails:
        raise ConnectionError("the disk of the neighbours is busy")
    return checksum(path)


@pool.job(name="demo.hopeless_checksum")
def hopeless_checksum(path: str) -> None:
    """Can never succeed, and says so: no retry is wasted on it."""
    raise pool.GiveUp(f"{Path(path).name} does not exist and never will")
