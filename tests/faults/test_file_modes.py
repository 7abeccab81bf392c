"""Whatever the umask of whoever starts it, no file of a pool may be read or written by strangers."""

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import OpenHouse
from tests.helpers.house import House
from tests.helpers.servers import Server
from tests.web.serving import tokens_toml

UMASKS = ("000", "022", "077")
SETTINGS = '[log]\nfile = "FOLDER/state/log/jobpool.log"\n[web]\nenabled = true\nlisten = "FOLDER/run/web.sock"\n'


def opened_under(umask: str, open_house: OpenHouse, **options: object) -> House:
    prefix = ("sh", "-c", f'umask {umask}; exec "$@"', "sh")
    house = open_house(workers=1, settings=SETTINGS + tokens_toml(), prefix=prefix, start=False, **options)
    house.config_file.write_text(house.config_file.read_text().replace("FOLDER", str(house.folder)))
    (house.folder / "state" / "log").mkdir(parents=True, mode=0o750)
    (house.folder / "state").chmod(0o750)
    house.start()
    house.wait_for((house.folder / "run" / "web.sock").exists, "the web child")
    return house


def files_of(house: House) -> Iterator[Path]:
    for name in ("run", "state"):
        folder = house.folder / name
        yield from (folder, *folder.rglob("*"))
    yield from house.folder.glob("jobs.db*")


def modes(house: House) -> dict[str, str]:
    """Each with its kind and rights, as `ls` shows them."""
    seen = {}
    for path in files_of(house):
        with contextlib.suppress(FileNotFoundError):  # some are there for a moment
            seen[str(path.relative_to(house.folder))] = stat.filemode(path.lstat().st_mode)
    return seen


def kinds(seen: dict[str, str]) -> set[str]:
    return {Path(name).name.partition(".")[0] + Path(name).suffix for name in seen}


def open_to_strangers(seen: dict[str, str]) -> list[str]:
    return [f"{mode} {name}" for name, mode in seen.items() if mode[-3:] != "---"]


def written_by_the_group(seen: dict[str, str]) -> list[str]:
    """The group may speak with a socket, and share the database where somebody gave it that right; nothing else."""
    return [f"{mode} {name}" for name, mode in seen.items() if mode[5] == "w" and mode[0] not in "sp"]


@pytest.mark.parametrize("umask", UMASKS)
def test_a_pool_on_sqlite_leaves_nothing_open_to_strangers(open_house: OpenHouse, umask: str) -> None:
    house = opened_under(umask, open_house)
    job = house.enqueue("tasks.hold")
    house.wait_for_worker_of(job)
    seen = modes(house)
    house.release()
    house.wait_until(job, "completed")
    seen |= modes(house)
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobpool.sock", "web.sock", "types.json"} <= kinds(seen)
    assert {"state", "run", "jobpool.log"} <= {Path(name).name for name in seen}
    assert open_to_strangers(seen) == []
    assert written_by_the_group(seen) == []


@pytest.mark.parametrize("umask", UMASKS)
def test_what_is_kept_on_disk_while_the_store_is_away_is_not_open_to_strangers(
    open_house: OpenHouse, server: Server, umask: str
) -> None:
    house = opened_under(umask, open_house, backend=server.url)
    job = house.enqueue("tasks.hold")
    house.wait_for_worker_of(job)
    server.stop()
    house.release()
    house.wait_for(lambda: house.runs(job)[0].ended, "the end of the job")
    house.stop()
    seen = modes(house)
    assert [name for name in seen if "spool" in name and seen[name][0] == "-"], f"nothing was kept: {seen}"
    assert open_to_strangers(seen) == []
    assert written_by_the_group(seen) == []
    server.start()
    house.start()
    assert house.wait_until(job, "completed").claim == 1
    assert len(house.runs(job)) == 1
