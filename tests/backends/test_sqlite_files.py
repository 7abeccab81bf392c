"""The database's file: where it may not be, who may share it, and what happens when it vanishes or the disk is full."""

import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pool.backends.sqlite import files
from pool.errors import BackendFull, BackendUnavailable, ConfigError, StoreTooNew
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, beat, drain, new_job, new_jobs, put, some_pool
from tests.helpers.stores import in_child, open_sqlite

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount or to become other users")
ALICE, BOB, TEAM = 40_001, 40_002, 40_100


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobpool.db")


# ---------------------------------------------------------------- what cannot be opened


def test_a_missing_folder_is_named_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"folder {tmp_path}/none does not exist.*mkdir -p"):
        put(open_sqlite(f"{tmp_path}/none/jobpool.db"))


def test_the_constructor_touches_nothing(tmp_path: Path) -> None:
    open_sqlite(f"{tmp_path}/none/jobpool.db")
    open_sqlite(f"{tmp_path}/jobpool.db")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_database_is_not_made_when_that_was_not_asked_for(path: str) -> None:
    with pytest.raises(BackendUnavailable, match="no database at this path"):
        put(open_sqlite(path, create=False))
    assert not Path(path).exists()
    put(open_sqlite(path))
    put(open_sqlite(path, create=False))


def test_a_file_that_is_no_database_is_named_and_left_alone(path: str) -> None:
    Path(path).write_text("dear diary\n" * 500)
    with pytest.raises(BackendUnavailable, match=rf"{path} .*not an SQLite database"):
        put(open_sqlite(path))
    assert Path(path).read_text() == "dear diary\n" * 500


def test_a_database_of_another_program_is_left_alone(path: str) -> None:
    with sqlite3.connect(path) as foreign:
        foreign.execute("CREATE TABLE recipes (text)")
    foreign.close()
    with pytest.raises(BackendUnavailable, match="another program"):
        put(open_sqlite(path))
    with closing(sqlite3.connect(path)) as foreign:
        assert foreign.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="not a regular file"):
        put(open_sqlite(str(tmp_path)))


def test_a_damaged_database_is_named(path: str) -> None:
    store = open_sqlite(path)
    store.enqueue(new_jobs(500))
    store.close()
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(os.urandom(60_000))
    with pytest.raises(BackendUnavailable, match=rf"{path} .*(damaged|malformed)"):
        drain(Hand(open_sqlite(path)))


def test_a_newer_schema_is_refused(path: str) -> None:
    store = open_sqlite(path)
    put(store)
    store.close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreTooNew, match="version 99"):
        put(open_sqlite(path))


def test_a_network_file_system_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None can be mounted here, so only the kernel's answer is replaced."""
    monkeypatch.setattr(files, "_file_system_of", lambda folder: "nfs4")
    with pytest.raises(ConfigError, match=r"network file system \(nfs4\)"):
        put(open_sqlite(path))


@needs_root
def test_an_unreadable_database_is_named(public: Path) -> None:
    path = str(public / "jobpool.db")
    put(open_sqlite(path))
    os.chmod(path, 0o600)
    assert (
        _as_user(BOB, lambda: _refusal_of(path))
        == f"backend {path} is not available: it may not be read by this user; check its owner, group and mode"
    )
    os.chmod(path, 0o644)
    assert "may not be written by this user" in _as_user(BOB, lambda: _refusal_of(path))


def _refusal_of(path: str) -> str:
    try:
        put(open_sqlite(path))
    except BackendUnavailable as problem:
        return str(problem)
    return "accepted"


# ---------------------------------------------------------------- two users, one store


def _as_user(uid: int, work: Callable[[], object], groups: tuple[int, ...] = ()) -> object:
    def become() -> object:
        os.setgroups(list(groups))
        os.setgid(uid)
        os.setuid(uid)
        os.umask(0o022)
        return work()

    return in_child(become).result()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that strangers may enter. Not below pytest's own, which each session closes to them again."""
    folder = Path(tempfile.mkdtemp(prefix="jobpool-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared(public: Path) -> str:
    """A folder of alice that the team may write."""
    folder = public / "shared"
    folder.mkdir()
    os.chown(folder, ALICE, TEAM)
    folder.chmod(0o770)
    return str(folder / "jobpool.db")


def _work_a_while(path: str) -> int:
    store = open_sqlite(path)
    store.wait(ANYTHING, 0)
    put(store)
    put(store)
    done = len(drain(Hand(store), ANYTHING)[:1])
    return done


def _enqueue_one(path: str) -> str:
    return put(open_sqlite(path))


@needs_root
@pytest.mark.parametrize("first, second", [(ALICE, BOB), (BOB, ALICE)])
def test_a_service_and_a_web_app_of_another_user_share_a_store(shared: str, first: int, second: int) -> None:
    """Whoever comes first makes the files; -wal, -shm, lock and bells must let the other in."""
    gate_out, gate_in = os.pipe()
    ready_out, ready_in = os.pipe()

    def hold() -> object:
        _work_a_while(shared)
        keep = open_sqlite(shared)
        keep.queues()
        os.write(ready_in, b"!")
        os.close(gate_in)
        os.read(gate_out, 1)
        return True

    def become() -> object:
        os.setgroups([TEAM])
        os.setgid(first)
        os.setuid(first)
        os.umask(0o077)
        return hold()

    child = in_child(become)
    os.close(ready_in)
    if os.read(ready_out, 1) == b"":
        child.result()
    job_id = _as_user(second, lambda: _enqueue_one(shared), (TEAM,))
    assert _as_user(second, lambda: _work_a_while(shared), (TEAM,)) == 1
    os.close(gate_in)
    child.result()
    assert _as_user(first, lambda: open_sqlite(shared).job(str(job_id)).status, (TEAM,)) is Status.COMPLETED


@needs_root
def test_a_passing_root_leaves_no_file_that_locks_the_owner_out(shared: str) -> None:
    in_child(lambda: _work_a_while(shared)).result()  # its process ends without closing anything: all it made is left
    for file in Path(shared).parent.rglob("*"):
        assert (file.stat().st_uid, file.stat().st_gid) == (ALICE, TEAM), file
    assert _as_user(ALICE, lambda: _work_a_while(shared)) == 1
    assert _as_user(BOB, lambda: _work_a_while(shared), (TEAM,)) == 1


@needs_root
def test_a_stranger_stays_outside(shared: str) -> None:
    _as_user(ALICE, lambda: _work_a_while(shared), (TEAM,))
    for file in Path(shared).parent.rglob("*"):
        assert not stat.S_IMODE(file.stat().st_mode) & 0o007, file


# ---------------------------------------------------------------- deleted, replaced


def test_a_database_deleted_in_use_is_reported_and_not_made_anew(path: str) -> None:
    store = open_sqlite(path)
    put(store)
    for file in Path(path).parent.glob("jobpool.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    with pytest.raises(BackendUnavailable, match="deleted while in use"):
        store.beat(beat(some_pool()))
    with pytest.raises(BackendUnavailable, match="deleted while in use"):
        put(store)
    assert not Path(path).exists()
    store.wait(ANYTHING, 0.05)


def test_no_database_is_made_beside_the_wal_of_one_that_was_moved_away(path: str, tmp_path: Path) -> None:
    """A program that enqueues meanwhile must not make the -wal, which holds accepted jobs, look like a leftover."""
    store = open_sqlite(path)
    job_id = put(store)
    os.rename(path, tmp_path / "moved.db")
    with pytest.raises(BackendUnavailable, match="put the database back"):
        put(open_sqlite(path))
    assert not Path(path).exists()
    os.rename(tmp_path / "moved.db", path)
    assert open_sqlite(path).job(job_id).id == job_id


def test_a_database_put_in_its_place_is_opened_and_not_harmed(path: str, tmp_path: Path) -> None:
    """A restored backup: the old handle must not delete the -wal of its successor, which has the same name."""
    store = open_sqlite(path)
    put(store)
    other = str(tmp_path / "other.db")
    backup = open_sqlite(other)
    kept = [put(backup) for _ in range(3)]
    backup.close()
    _put_in_place(other, path)
    successor = open_sqlite(path)
    kept.append(put(successor))
    store.beat(beat(some_pool()))
    kept.append(put(store))
    assert drain(Hand(store)) == kept
    store.close()
    assert successor.queues()[0].completed == 5


def _put_in_place(other: str, path: str) -> None:
    """As one restores a backup: the side files of the old database go too."""
    for suffix in ("-wal", "-shm"):
        Path(path + suffix).unlink()
    os.rename(other, path)


def test_a_database_put_beside_the_wal_of_another_is_refused(path: str, tmp_path: Path) -> None:
    """SQLite would mix the two. Nothing is opened until a person has decided whose -wal it is."""
    store = open_sqlite(path)
    put(store)
    other = str(tmp_path / "other.db")
    backup = open_sqlite(other)
    kept = put(backup)
    backup.close()
    os.rename(other, path)
    for user in (open_sqlite(path), store):
        user._store.look_at_file()
        with pytest.raises(BackendUnavailable, match="replaced while the -wal of the old one is still there"):
            put(user)
    Path(f"{path}-wal").unlink()
    Path(f"{path}-shm").unlink()
    assert drain(Hand(store)) == [kept]


def test_a_database_copied_with_all_its_side_files_is_opened(path: str, tmp_path: Path) -> None:
    store = open_sqlite(path)
    job_id = put(store)
    copy = tmp_path / "copy"
    copy.mkdir()
    for suffix in ("", "-wal", "-lock"):
        shutil.copy(path + suffix, copy / f"jobpool.db{suffix}")
    assert open_sqlite(str(copy / "jobpool.db")).job(job_id).id == job_id


def test_an_idle_worker_notices_the_new_file_too(path: str, tmp_path: Path) -> None:
    store = open_sqlite(path)
    store.wait(ANYTHING, 0)
    other = str(tmp_path / "other.db")
    backup = open_sqlite(other)
    put(backup)
    backup.close()
    _put_in_place(other, path)
    store.wait(ANYTHING, 30.0)
    assert len(drain(Hand(store))) == 1


# ---------------------------------------------------------------- disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@needs_root
def test_a_full_disk_refuses_in_words_loses_nothing_and_works_again(small_disk: Path) -> None:
    path = str(small_disk / "jobpool.db")
    store = open_sqlite(path)
    hand = Hand(store)
    accepted = [put(store)]
    hand.take()
    with pytest.raises(BackendFull, match="disk is full"):
        while True:
            accepted.append(put(store, payload='"' + "x" * 60_000 + '"'))
    for _ in range(3):
        with pytest.raises(BackendFull):
            store.enqueue(new_jobs(2000))
    assert store.queues()[0].pending == len(accepted) - 1, "reading still works"
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert hand.complete(), "the result that waited for room is recorded"
    assert drain(hand) == accepted[1:]
    store.close()


@needs_root
def test_a_disk_that_is_full_from_the_start_is_reported(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 4_190_208)
    with pytest.raises(BackendUnavailable):
        put(open_sqlite(str(small_disk / "jobpool.db")))
    (small_disk / "filler").unlink()
    put(open_sqlite(str(small_disk / "jobpool.db")))


def test_the_wal_stays_short_under_load(path: str) -> None:
    store = open_sqlite(path)
    hand = Hand(store)
    peak = 0
    for _ in range(20):
        store.enqueue([new_job(payload='"' + "x" * 5_000 + '"') for _ in range(200)])
        drain(hand)
        peak = max(peak, os.path.getsize(f"{path}-wal"))
    assert peak <= 20_000_000


def test_the_wal_that_a_reader_held_up_is_cut_when_it_has_gone(path: str) -> None:
    store = open_sqlite(path)
    put(store)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM jobs").fetchone()
    for _ in range(25):
        store.enqueue([new_job(payload='"' + "x" * 5_000 + '"') for _ in range(200)])
    store.promote()
    assert os.path.getsize(f"{path}-wal") > 16 * 2**20
    reader.execute("COMMIT")
    reader.close()
    store.promote()
    assert os.path.getsize(f"{path}-wal") <= 16 * 2**20


def test_the_last_to_leave_folds_the_wal_away(path: str) -> None:
    one, two = open_sqlite(path), open_sqlite(path)
    put(one)
    put(two)
    one.close()
    assert Path(f"{path}-wal").exists()
    two.close()
    assert not Path(f"{path}-wal").exists()
    put(one)
