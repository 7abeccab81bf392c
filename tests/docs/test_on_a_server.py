"""The pages for servers, followed by root on a machine with a real systemd: tests/systemd/lab.sh boots it. About 40 s."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.docs.test_walks import copy_of_the_sources

LAB = ROOT / "tests" / "systemd" / "lab.sh"
LAB_FAILED = 125
PAGES = ("systemd/README.md", "docs/operating.md")
REQUIRED = ("systemctl", "unshare", "setpriv", "useradd", "runuser")


def system_python_is_new_enough() -> bool:
    asked = subprocess.run(["/usr/bin/python3", "-c", "import sys, venv, ensurepip; print(sys.version_info >= (3, 11))"],
        capture_output=True, text=True)  # fmt: skip
    return asked.stdout.strip() == "True"


@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can boot a systemd")
@pytest.mark.skipif(any(shutil.which(name) is None for name in REQUIRED), reason=f"needs {', '.join(REQUIRED)}")
def test_an_empty_server_gets_a_pool_an_upgrade_and_its_backup_back_by_the_book(tmp_path: Path) -> None:
    if not system_python_is_new_enough():
        pytest.skip("the system's Python is older than 3.11, or has no venv")
    clone = copy_of_the_sources(tmp_path / "clone")
    pip = [word for name, value in os.environ.items() if name.startswith("PIP_") for word in ("-E", f"{name}={value}")]
    lab = subprocess.run(
        [str(LAB), "-t", "500", "-n", "host", "-p", str(clone), "--copy", *pip, "--", "/usr/bin/python3", "-m", "tests.docs.inside"],
        capture_output=True, text=True, timeout=580,
    )  # fmt: skip
    print(lab.stdout[-20_000:])
    if lab.returncode == LAB_FAILED and "ok " not in lab.stdout:
        pytest.skip(f"no systemd can be booted here: {lab.stderr[-500:]}")
    assert lab.returncode == 0, lab.stdout[-6000:] + lab.stderr[-2000:]
    meant = {block.where for page in PAGES for block in blocks_of(ROOT / page) if "root" in block.tags}
    assert meant <= {line.removeprefix("ok ") for line in lab.stdout.splitlines()}
