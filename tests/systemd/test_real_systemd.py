"""The shipped unit on a real systemd, booted as PID 1 of namespaces of its own (lab.sh). Root only, about 45 s."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LAB_FAILED = 125
PACKAGES = "/srv/packages"
REQUIRED = ("systemctl", "unshare", "setpriv", "useradd")


def has_the_same_system_python() -> bool:
    """The packages of this environment are used by /usr/bin/python3 inside, so both must be of one version."""
    asked = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
    )
    return asked.stdout.split() == [str(part) for part in sys.version_info[:2]]


@pytest.mark.serial
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can boot a systemd")
@pytest.mark.skipif(any(shutil.which(name) is None for name in REQUIRED), reason=f"needs {', '.join(REQUIRED)}")
def test_every_scene_on_a_real_systemd_ends_well() -> None:
    if not has_the_same_system_python():
        pytest.skip("the system's Python is of another version than this environment")
    # Inside, the unit sees neither /home nor this machine's /tmp, where the checkout and its packages may be.
    binds = ["-p", str(HERE.parents[1]), "-b", f"{sysconfig.get_path('purelib')}:{PACKAGES}"]
    words = [str(HERE / "lab.sh"), "-t", "500", *binds, "--", "/usr/bin/python3", "tests/systemd/inside.py", PACKAGES]
    lab = subprocess.run(words, capture_output=True, text=True, timeout=560)
    print(lab.stdout[-20_000:])
    if lab.returncode == LAB_FAILED and "ok scene_" not in lab.stdout:
        pytest.skip(f"no systemd can be booted here: {lab.stderr[-500:]}")
    assert lab.returncode == 0, lab.stderr[-2000:]
    assert lab.stdout.count("ok scene_") == (HERE / "inside.py").read_text().count("\ndef scene_")
