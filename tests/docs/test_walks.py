"""Pages that tell a story are walked through: every block in order, at an empty desk, as a newcomer would."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pool
from tests.docs.desk import Desk
from tests.docs.pages import ROOT, Block, blocks_of
from tests.helpers.until import until

NOT_HERE = frozenset({"clone", "root", "fragment"})


def walk(desk: Desk, page: str, *, lines: slice = slice(None)) -> str:
    """Follow the page's blocks, or those within some lines; what they printed."""
    within = range(10_000)[lines]
    blocks = [block for block in blocks_of(ROOT / page) if block.line in within and not block.tags & NOT_HERE]
    return "\n".join(map(desk.follow, blocks))


def line_of(page: str, heading: str) -> int:
    return (ROOT / page).read_text().splitlines().index(heading)


def jobs_at(desk: Desk, status: str) -> int:
    """How many jobs of the desk's store are in this state."""
    url = desk.environ.get("JOBPOOL_BACKEND__URL", f"sqlite:///{desk.folder}/home/.local/state/jobpool/jobpool.db")
    with contextlib.closing(pool.Client(url)) as client:
        return sum(getattr(queue, status) for queue in client.backend().queues())


def test_the_five_minutes_of_the_readme_end_with_two_jobs_done_and_one_scheduled(desk: Desk) -> None:
    walk(desk, "README.md")

    until(lambda: jobs_at(desk, "completed") == 2, "both jobs completed")
    assert jobs_at(desk, "scheduled") == 1
    desk.run(["jobpool", "stop", "--wait"])
    assert desk.wait_stopped() == 0


NIGHT = """
import os, signal, time
import pool

@pool.job
def hold(seconds: float = 600) -> None:
    time.sleep(seconds)

@pool.job
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_ready(desk: Desk) -> bool:
    try:
        desk.run(["jobpool", "health", "--ready"])
    except AssertionError:
        return False
    return True


def test_the_commands_for_a_night_with_trouble_work_in_a_night_with_trouble(desk: Desk) -> None:
    (desk.folder / "tasks.py").write_text(NIGHT)
    desk.start(Block(ROOT / "docs/operating.md", 0, "sh", frozenset(), "jobpool start --app tasks --workers 2"))
    desk.run(["jobpool", "enqueue", "tasks.crash"])
    until(lambda: jobs_at(desk, "failed") == 1, "the job that kills workers set aside")
    until(lambda: is_ready(desk), "both workers back from their backoff")
    trouble = line_of("docs/operating.md", "# When something is wrong")
    walk(desk, "docs/operating.md", lines=slice(trouble))
    desk.run(["jobpool", "enqueue", "tasks.hold", "--max-retries", "0"])
    slot = until(lambda: slot_of_a_busy_worker(desk), "a job that hangs")
    desk.names = {"jobpool stack 1": f"jobpool stack {slot}"}

    said = walk(desk, "docs/operating.md", lines=slice(trouble, None))

    assert "tasks.py" in said and "in hold" in said  # the stack of the job that hangs
    assert "worker_lost" in said
    assert "would have retried 1 of 1 jobs" in said
    assert (desk.folder / "copy.db").exists()
    until(lambda: '"cancelled"' in desk.run(["jobpool", "jobs", "list", "--json"]), "the job that hung cancelled")


def test_code_moved_from_rq_and_celery_runs(desk: Desk) -> None:
    celery = line_of("docs/migrating.md", "## From Celery")
    walk(desk, "docs/migrating.md", lines=slice(celery))
    until(lambda: jobs_at(desk, "completed") == 1, "the mail sent")
    desk.run(["jobpool", "stop", "--wait"])
    walk(desk, "docs/migrating.md", lines=slice(celery, None))
    desk.run(["jobpool", "start", "--burst", "--app", "sync", "--workers", "1"])

    listing = json.loads(desk.run(["jobpool", "jobs", "list", "--json"]))
    assert sorted((job["type"], job["status"]) for job in listing) == [
        *[("sync.fetch", "completed")] * 4,
        ("sync.fetch", "scheduled"),
        *[("sync.store", "completed")] * 4,
        ("sync.summary", "completed"),
        ("tasks.send_email", "completed"),
        ("tasks.send_email", "scheduled"),
    ]


def slot_of_a_busy_worker(desk: Desk) -> int | None:
    workers = json.loads(desk.run(["jobpool", "status", "--json"]))["workers"]
    return next((worker["slot"] for worker in workers if worker["jobs"]), None)


def test_a_pool_starts_in_the_folder_of_the_examples(desk: Desk) -> None:
    shutil.copytree(ROOT / "docs" / "examples", desk.folder / "docs" / "examples")
    (block,) = (block for block in blocks_of(ROOT / "docs/examples/README.md") if block.language == "sh")

    desk.follow(block)

    def known() -> set[str]:
        pools = json.loads(desk.run(["jobpool", "pools", "--json"]))  # none before the first beat
        return {known for pool in pools for known in pool["types"]}

    until(lambda: {"mail.send_email", "images.thumbnail"} <= known(), "the types, which come with the next beat")


def test_the_outbox_carries_over_what_the_tour_put_into_it(desk: Desk) -> None:
    shutil.copytree(ROOT / "docs" / "examples", desk.folder, dirs_exist_ok=True)
    desk.environ["JOBPOOL_BACKEND__URL"] = f"sqlite:///{desk.folder}/jobs.db"
    (tour,) = (block for block in blocks_of(ROOT / "docs/examples/README.md") if block.file_name == "outbox_tour.py")
    desk.write(tour)

    assert desk.run([sys.executable, "outbox_tour.py"]).strip() == "1"
    assert jobs_at(desk, "pending") == 1


def test_the_test_of_the_readme_passes_without_a_pool(desk: Desk) -> None:
    blocks = blocks_of(ROOT / "README.md")
    (tasks,) = (block for block in blocks if block.file_name == "tasks.py")
    (test,) = (block for block in blocks if "def test_" in block.text)
    desk.write(tasks)
    (desk.folder / "test_tasks.py").write_text(test.text)

    said = desk.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_tasks.py"])

    assert "1 passed" in said


def test_the_trials_of_the_guarantees_end_well_though_they_last_seconds_here(desk: Desk) -> None:
    (block,) = (block for block in blocks_of(ROOT / "docs/guarantees.md") if block.language == "sh")
    desk.names = {"--minutes 10": "--minutes 0.02", "--minutes 60": "--minutes 0.02"}
    desk.environ["PYTHONPATH"] = str(ROOT)

    said = desk.follow(block)

    assert said.count("every promise was kept") == 2


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_fresh_clone_goes_from_nothing_to_the_demo_and_a_first_own_pool(desk: Desk, tmp_path: Path) -> None:
    clone = copy_of_the_sources(tmp_path / "clone")
    demo, _, go = (block for block in blocks_of(ROOT / "README.md") if "clone" in block.tags)

    done = subprocess.run(
        ["bash", "-euc", f"{demo.text}\n{go.text}\njobpool --version && jobpool check && pwd"],
        cwd=clone, env={"HOME": str(desk.folder / "home"), "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "every job is accounted for" in done.stdout
    assert done.stdout.strip().endswith("/first-pool")


def copy_of_the_sources(target: Path) -> Path:
    """What `git clone` would give, with what is not committed yet."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target
