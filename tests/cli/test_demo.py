"""The demo tells the truth: it ends with 0 only when every job is accounted for."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pool.cli import demo_files
from pool.cli.demo_files import find_files
from pool.cli.demo_story import Account
from pool.cli.demo_view import summary_lines
from tests.helpers.until import until


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with 25 files, and some that nobody wants."""
    for n in range(25):
        (tmp_path / f"book-{n}.txt").write_text(f"chapter {n}\n" * 100)
    for name in (".git", ".venv", "__pycache__", "node_modules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "noise").write_text("noise")
    (tmp_path / "link").symlink_to(tmp_path / "book-1.txt")
    return tmp_path


def test_the_demo_kills_a_worker_and_accounts_for_every_job(library: Path) -> None:
    before = set(os.listdir("/tmp"))
    command = [sys.executable, "-m", "pool", "demo", "--path", str(library), "--workers", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=library)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "25 files under" in said
    assert "passed over: .git, .venv, __pycache__, node_modules" in said
    assert "with SIGKILL in the middle of a job" in said
    assert "its job runs again on worker" in said
    assert "30 enqueued = 29 completed + 1 failed: every job is accounted for" in said
    assert "(1 fatal_error)" in said
    assert "ms from the kill to its job's next start" in said
    assert "jobs per second" in said
    left = {name for name in set(os.listdir("/tmp")) - before if name.startswith("jobpool-demo-")}
    assert not [name for name in left if (Path("/tmp") / name / "demo.db").exists() and _is_ours(name, library)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_a_demo_that_is_ended_leaves_no_pool_behind(library: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-u", "-m", "pool", "demo", "--path", str(library)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert demo.stdout is not None
    said = next(line for line in demo.stdout if "everything of it in" in line)
    folder = Path(said.split()[-1])
    lock = folder / "run" / "jobpool.lock"
    supervisor = int(until(lambda: lock.exists() and lock.read_text().strip(), "a supervisor") or 0)

    demo.send_signal(number)

    demo.communicate(timeout=60)
    # A Python that is interrupted while it executes a text (to make a dataclass) remembers that for its end, and leaves by
    # the signal itself, though the interrupt was caught. Shells show 130 for either.
    by_signal, in_words = -number, 128 + number
    ways = {signal.SIGKILL: [by_signal], signal.SIGINT: [by_signal, in_words]}
    assert demo.returncode in ways.get(number, [in_words])
    until(lambda: not Path(f"/proc/{supervisor}").exists(), "the end of the pool")
    assert number == signal.SIGKILL or not folder.exists()
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(name: str, library: Path) -> bool:
    try:
        return str(library) in (Path("/tmp") / name / "pool.log").read_text()
    except OSError:  # another's, who has just cleared it away
        return False


IN_A_FINALIZER = """
import os, signal
from pool.cli.demo_pool import end_by_signal_in_order, pause

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass

end_by_signal_in_order()
Dying()
print("it goes on")
pause(0)
print("and on")
"""


def test_a_signal_that_comes_where_python_swallows_what_is_raised_ends_the_demo_at_the_next_look() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_FINALIZER], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("it goes on\n", 128 + signal.SIGTERM)


def test_a_folder_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pool", "demo", "--path", str(tmp_path / "nowhere")]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2


def test_noise_links_and_folders_are_passed_over(library: Path) -> None:
    found = find_files(library)
    assert sorted(Path(file).name for file in found.files) == sorted(f"book-{n}.txt" for n in range(25))
    assert found.skipped == [".git", ".venv", "__pycache__", "node_modules"]


def test_what_the_demo_does_not_take_it_says(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_files, "MAX_FILES", 20)
    with (library / "a-film.mkv").open("wb") as film:
        film.truncate(demo_files.MAX_BYTES + 1)

    found = find_files(library)

    assert len(found.files) == 20
    assert found.said[:2] == ["the first 20 files only, there are more", "1 above 256 MB passed over"]


WHOLE = Account(
    enqueued=10,
    completed=8,
    failed=Counter(fatal_error=2),
    retried=1,
    unaccounted=0,
    killed="worker 1 (pid 5)",
    recovered="worker 1.1 → worker 2.1",
    recovery_s=0.01,
    checksums=5,
    checksum_seconds=1.0,
)


def test_an_account_that_adds_up_is_whole() -> None:
    assert WHOLE.is_whole
    assert summary_lines(WHOLE)[-1].endswith("10 enqueued = 8 completed + 2 failed: every job is accounted for")


@pytest.mark.parametrize(
    "change",
    [{"completed": 7}, {"unaccounted": 1}, {"recovered": ""}, {"problems": ["the job is pending"]}, {"enqueued": 11}],
)
def test_an_account_that_does_not_add_up_says_so(change: dict[str, object]) -> None:
    account = dataclasses.replace(WHOLE, **change)  # type: ignore[arg-type]
    assert not account.is_whole
    assert "THE ACCOUNT DOES NOT MATCH" in summary_lines(account)[-1]
