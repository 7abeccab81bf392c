"""Pages that tell a story are walked through: every block in order, at an empty desk, as a newcomer would."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.desk import Desk
from tests.docs.pages import ROOT, Block, blocks_of
from tests.helpers.until import until

NOT_HERE = frozenset({"clone", "root", "fragment"})


def walk(desk: Desk, page: str) -> list[tuple[Block, str]]:
    """Follow the page's blocks; what each printed."""
    return [(block, desk.follow(block)) for block in blocks_of(ROOT / page) if not block.tags & NOT_HERE]


def jobs_at(desk: Desk, status: str) -> int:
    listing = desk.run(["jobpool", "jobs", "list", "--status", status, "--json"])
    return listing.count('"id"')


def test_the_five_minutes_of_the_readme_end_with_two_jobs_done_and_one_scheduled(desk: Desk) -> None:
    walk(desk, "README.md")

    until(lambda: jobs_at(desk, "completed") == 2, "both jobs completed")
    assert jobs_at(desk, "scheduled") == 1
    desk.run(["jobpool", "stop", "--wait"])
    assert desk.wait_stopped() == 0


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
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target
