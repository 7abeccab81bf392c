"""The power fails: of the -wal the disk has what was synced, and of the rest some first part, cut anywhere.

What is found then is the store as it was after some step, and never an older one than the last that was acknowledged to
a person or a program. Workers' words after it may be lost: their jobs run again.
"""

import os
import random
import shutil
import struct
from contextlib import closing
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.backends.sqlite.backend import SqliteBackend
from tests.backends.contract.test_model import Driver

STEPS, CUT_SHARE = 120, 0.2
Sight = dict[str, tuple[str, int, int]]


class Witness:
    """Notes after each step how the store looked, how long the valid part of its -wal was, and when it was last synced."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.sights: list[Sight] = []
        self.synced_bytes = 0
        self.oldest_allowed = 0  # index into sights
        self._sync = os.fdatasync
        self._was_synced = False
        monkeypatch.setattr(os, "fdatasync", self._note_sync)

    def _note_sync(self, fd: int) -> None:
        self._sync(fd)
        self.synced_bytes, self._was_synced = self.valid_bytes(), True

    def valid_bytes(self) -> int:
        """From the index of the -wal: its header of 32 bytes and so many frames of a page and 24 bytes."""
        with open(f"{self.path}-shm", "rb") as index:
            page, frames = struct.unpack_from("=HI", index.read(48), 14)
        return 32 + frames * (page + 24)

    def look(self, store: SqliteBackend) -> None:
        self.sights.append(seen(store))
        if self._was_synced:
            self.oldest_allowed, self._was_synced = len(self.sights) - 1, False


def seen(store: SqliteBackend) -> Sight:
    jobs = store.jobs(JobFilter(), limit=1000).jobs
    return {job.id: (job.status, job.claim, job.retry_count) for job in jobs}


@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_after_a_power_cut_nothing_acknowledged_is_missing_and_no_step_is_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    rng, path = random.Random(f"power {seed}"), tmp_path / "jobpool.db"
    with closing(SqliteBackend(str(path))) as store:
        driver = Driver(store, seed)
        store.queues()
        witness = Witness(path, monkeypatch)
        lost_something = 0
        for number in range(STEPS):
            name = rng.choices(list(driver.weights), list(driver.weights.values()))[0]
            enqueued = driver.model.enqueued
            getattr(driver, name)()
            witness.look(store)
            if driver.model.enqueued > enqueued and name.startswith("enqueue"):
                assert witness.oldest_allowed == len(witness.sights) - 1, "an enqueue that is not on the disk"
            if rng.random() < CUT_SHARE:
                end = rng.randint(witness.synced_bytes, witness.valid_bytes())
                found = _after_a_cut(path, tmp_path / str(number), end)
                assert found in witness.sights[witness.oldest_allowed :]
                lost_something += found != witness.sights[-1]
    assert lost_something, "no cut took anything"


def _after_a_cut(path: Path, folder: Path, end: int) -> Sight:
    """What a new start finds when the -wal ends after so many bytes; the index of it is lost."""
    folder.mkdir()
    for suffix in ("", "-lock", "-wal"):
        shutil.copy(f"{path}{suffix}", folder / f"jobpool.db{suffix}")
    os.truncate(folder / "jobpool.db-wal", end)
    with closing(SqliteBackend(str(folder / "jobpool.db"))) as store:
        return seen(store)
