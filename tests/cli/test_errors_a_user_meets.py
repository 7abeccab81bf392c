"""Each is a clear sentence, never a traceback of ours, with the exit code that says whose matter it is."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.house import House
from tests.helpers.until import until

OpenHouse = Callable[..., House]


def start_fails(house: House, *flags: str) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = house.cli("start", *flags, check=False)
    assert "Traceback" not in done.stderr or "tasks" in done.stderr
    return done


@pytest.mark.parametrize("count", ["0", "-1", "many", "2001"])
def test_a_wrong_number_of_workers_is_wrong_usage(open_house: OpenHouse, count: str) -> None:
    done = start_fails(open_house(start=False), "--workers", count)
    assert done.returncode == 2
    assert "--workers" in done.stderr


def test_an_unknown_key_is_answered_with_the_nearest(open_house: OpenHouse) -> None:
    house = open_house(start=False, settings="cuont = 3\n")
    for verb in ("start", "check"):
        done = house.cli(verb, check=False)
        assert done.returncode == 78
        assert "jobpool.toml: unknown key workers.cuont; did you mean count?" in done.stderr


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite:////nowhere/at/all/jobs.db", "the folder /nowhere/at/all does not exist"),
        ("sqlite:////tmp", "is a folder"),
        ("postgres://host/db", "names no backend"),
        ("sqlite://jobs.db", "names no file"),
    ],
)
def test_a_place_where_no_store_can_be_is_bad_configuration(open_house: OpenHouse, url: str, sentence: str) -> None:
    done = start_fails(open_house(start=False), "--backend", url)
    assert done.returncode == 78
    assert sentence in done.stderr


def test_a_file_that_is_no_database_is_left_alone(open_house: OpenHouse) -> None:
    house = open_house(start=False)
    other = house.folder / "letter.txt"
    other.write_text("Dear colleague, this is no database")
    done = start_fails(house, "--backend", f"sqlite:///{other}")
    assert done.returncode == 78
    assert "is not an SQLite database" in done.stderr
    assert other.read_text() == "Dear colleague, this is no database"


READING = [("jobs", "list"), ("dead", "list"), ("queues",), ("audit",)]
WRITING = [("enqueue", "tasks.quick"), ("pause", "default"), ("purge", "default", "--yes"), ("jobs", "cancel", "--all")]


@pytest.mark.parametrize("spoil", ["file system", "file"])
def test_a_database_that_may_only_be_read_is_named_with_what_is_wrong(
    open_house: OpenHouse, tmp_path: Path, spoil: str
) -> None:
    house = open_house(backend=f"sqlite:///{tmp_path}/store/jobs.db", start=False)
    (tmp_path / "store").mkdir()
    house.start()
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    assert house.stop() == 0
    house.client.close()  # or it would fold the -wal away later
    words = read_only(tmp_path / "store", spoil)

    for verb in READING + WRITING:
        done = at_read_only(house, words, *verb)
        assert done.returncode == 69, (verb, done.stdout, done.stderr)
        assert done.stderr.count("\n") == 1
        assert f"{tmp_path}/store/jobs.db is not available: it may not be written" in done.stderr
    for verb in [("start",), ("check",)]:
        done = at_read_only(house, words, *verb)
        assert done.returncode == 78, (verb, done.stdout, done.stderr)
        expected = "lies on a read-only file system" if spoil == "file system" else "is not readable and writable"
        assert expected in done.stderr
    done = at_read_only(house, words, "doctor")
    assert done.returncode == 1
    assert f"{tmp_path}/store/jobs.db" in done.stdout


def read_only(folder: Path, spoil: str) -> list[str]:
    """The words before a command for which what is in this folder cannot be written; skips where that cannot be had."""
    if spoil == "file":
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        as_nobody_special = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]  # root without its capabilities
        return as_nobody_special if os.geteuid() == 0 else []
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f'mount --bind "{folder}" "{folder}" && mount -o remount,bind,ro "{folder}" && exec "$@"'
    words = ["unshare", *own, "--mount", "sh", "-c", mount, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    return words


def at_read_only(house: House, words: list[str], *verb: str) -> subprocess.CompletedProcess[str]:
    command = [*words, sys.executable, "-m", "pool", *verb, "--config", str(house.config_file)]
    return subprocess.run(
        command, cwd=house.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )


def test_a_second_pool_on_the_same_runtime_directory_is_refused_and_the_first_lives_on(open_house: OpenHouse) -> None:
    house = open_house()
    done = start_fails(house)
    assert done.returncode == 78
    assert f"pid {house.pid}" in done.stderr
    house.wait_until(house.enqueue("tasks.quick"), "completed")


def test_an_app_that_cannot_be_imported_shows_its_own_traceback(open_house: OpenHouse) -> None:
    house = open_house(start=False, app="import pool\nimport no_such_library\n")
    started = house.cli("start", check=False)
    checked = house.cli("check", check=False)
    for done in (started, checked):
        assert done.returncode == 78
        assert "No module named 'no_such_library'" in done.stderr
        assert "tasks.py" in done.stderr


def test_a_module_that_is_not_there_is_named(open_house: OpenHouse) -> None:
    done = open_house(start=False).cli("check", "--app", "taskz", check=False)
    assert done.returncode == 78
    assert "app module 'taskz' cannot be imported" in done.stderr
    assert "taskz.py is not in /" in done.stderr
    assert "[app] path" in done.stderr


def test_a_file_given_for_a_module_is_answered_with_the_modules_name(open_house: OpenHouse) -> None:
    done = open_house(start=False).cli("check", "--app", "tasks.py", check=False)
    assert done.returncode == 78
    assert "tasks.py is no module: name it as in `import tasks`" in done.stderr


@pytest.mark.parametrize("typed", ["./tasks.py", "tasks:app", "tasks/", "jobs/tasks.py"])
def test_what_is_no_module_is_answered_with_the_module(open_house: OpenHouse, typed: str) -> None:
    done = open_house(start=False).cli("check", "--app", typed, check=False)

    assert done.returncode == 78
    assert re.search(r"is no module: name it as in `import (jobs\.)?tasks`", done.stderr), done.stderr


def test_a_pool_without_jobs_says_how_to_name_them(open_house: OpenHouse) -> None:
    house = open_house(start=False)
    house.config_file.write_text(house.config_file.read_text().replace('["tasks"]', "[]"))
    house.start()
    assert "name your module with --app" in house.log_text()


def test_a_ready_pool_whose_store_is_away_does_not_call_itself_ready(open_house: OpenHouse) -> None:
    house = open_house(backend="redis://127.0.0.1:1/0", workers=1, wait=False)
    asked = until(
        lambda: (
            (done := house.cli("health", "--ready", check=False)).stdout.startswith("not ready: the backend") and done
        ),
        "a pool that is up while its store is away",
    )
    assert asked.returncode == 1


@pytest.mark.parametrize("words", [("status",), ("health",), ("scale", "3"), ("stop",), ("reload",), ("stack", "1")])
def test_where_no_pool_runs_it_is_said_with_69(open_house: OpenHouse, words: tuple[str, ...]) -> None:
    done = open_house(start=False).cli(*words, check=False)
    assert done.returncode == 69
    assert "no pool is running" in done.stderr
    assert "jobpool start" in done.stderr


def test_at_the_default_place_a_client_makes_no_store(open_house: OpenHouse) -> None:
    house = open_house(start=False)
    house.config_file.write_text("")
    done = house.cli("enqueue", "tasks.quick", check=False)
    assert done.returncode == 69
    assert "/.local/state/jobpool/jobpool.db" in done.stderr
    assert not list(house.folder.rglob("*.db"))


def test_a_job_that_is_not_there(open_house: OpenHouse) -> None:
    done = open_house().cli("jobs", "show", "0198a0b0-0000-7000-8000-000000000000", check=False)
    assert done.returncode == 1
    assert "no job" in done.stderr


def test_a_malformed_record_is_set_aside_and_shown(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    job_id = house.enqueue("tasks.quick", delay=3600)
    database = sqlite3.connect(house.folder / "jobs.db", isolation_level=None)
    try:
        database.execute("UPDATE jobs SET max_retries = 'lots', run_at = 0 WHERE payload = '{}'")
    finally:
        database.close()
    lost = house.wait_until(job_id, "failed")
    assert lost.reason == "invalid_record"
    assert "the stored record cannot be read" in house.cli("jobs", "show", job_id).stdout
    assert house.cli_json("dead", "list")[0]["id"] == job_id
    house.wait_until(house.enqueue("tasks.quick"), "completed")


def test_an_internal_error_is_a_sentence_and_a_way_to_its_details(open_house: OpenHouse) -> None:
    from pool.cli.failures import BUG, run_guarded

    def broken() -> int:
        raise RuntimeError("oops")

    assert run_guarded(broken) == BUG
