"""What is uploaded is what runs: an sdist, the wheel that is built from it, and empty environments that get it."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_walks import copy_of_the_sources
from tests.helpers.until import until

LOWEST, HIGHEST = (3, 11), (3, 14)
BUILD = "from setuptools import build_meta as b; import sys; print(getattr(b, sys.argv[1])(sys.argv[2]))"
SAFELY: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
# Python 3.12.0 to 3.12.3 warn of every "?1" in SQL by mistake (gh-117995).
WARNINGS = "error,ignore:Binding"
TASKS = "import pool\n\n@pool.job\ndef add(a: int, b: int) -> int:\n    return a + b\n"


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("JOBPOOL_", "XDG_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**given, "HOME": str(cwd), **environ},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from its contents."""
    work = tmp_path_factory.mktemp("dist")
    venv.create(work / "venv", with_pip=True)
    python = work / "venv" / "bin" / "python"
    (wanted,) = re.findall(r'^requires = \["(.+)"\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    run(python, "-m", "pip", "install", "-q", wanted, cwd=work)
    run(python, "-c", BUILD, "build_sdist", str(work), cwd=copy_of_the_sources(work / "sources"))
    (sdist,) = work.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(work / "unpacked", **SAFELY)
    (unpacked,) = (work / "unpacked").iterdir()
    run(python, "-c", BUILD, "build_wheel", str(work), cwd=unpacked)
    return work


def tracked() -> set[str]:
    """Every file of the repository, and those that will be."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.mark.timeout(600)
def test_the_wheel_has_every_file_of_the_package_and_says_what_it_needs(dist: Path) -> None:
    """One test: the wheel is built once, whichever process of the test run gets it. The sdist has the whole repository."""
    (unpacked,) = (dist / "unpacked").iterdir()
    assert sorted(name for name in tracked() if not (unpacked / name).is_file()) == []
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (folder,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        metadata, commands = (packed.read(f"{folder}/{name}").decode() for name in ("METADATA", "entry_points.txt"))
    files = {name for name in names if ".dist-info/" not in name}

    assert files == {name for name in tracked() if name.startswith("pool/")}
    assert {Path(name).suffix for name in files} >= {".py", ".sql", ".lua", ".html", ".css", ".js"}
    assert "pool/py.typed" in files
    assert "Requires-Python: >=3.11" in metadata
    assert set(re.findall(r"^Provides-Extra: (\w+)$", metadata, re.MULTILINE)) == {"web", "test", "dev"}
    assert "License-Expression: MIT" in metadata
    assert "# jobpool" in metadata  # the README is the long description
    assert "jobpool = pool.__main__:main" in commands


def pythons() -> Iterator[str]:
    """One interpreter of each version from 3.11 on that this machine has; this one's first."""
    yield str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    for minor in range(LOWEST[1], HIGHEST[1] + 1):
        if minor == sys.version_info.minor:
            continue
        homes = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"))
        found = shutil.which(f"python3.{minor}") if not homes else str(homes[-1])
        if found and subprocess.run([found, "-c", "import ssl, sqlite3, venv"], capture_output=True).returncode == 0:
            yield found


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder with a short name: the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="jpe-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", list(pythons()), ids=lambda path: Path(path).name)
def test_in_an_empty_environment_it_installs_starts_and_does_a_job(dist: Path, python: str, place: Path) -> None:
    run(python, "-m", "venv", place / "venv", cwd=place)
    (wheel,) = dist.glob("*.whl")
    bin_ = place / "venv" / "bin"
    run(bin_ / "python", "-m", "pip", "install", "-q", wheel, cwd=place)
    (place / "tasks.py").write_text(TASKS)

    run(bin_ / "python", "-m", "pip", "check", cwd=place)
    assert re.fullmatch(r"jobpool \d+\.\d+\.\d+", run(bin_ / "jobpool", "--version", cwd=place))
    assert "1 job types: tasks.add" in run(bin_ / "jobpool", "check", "--app", "tasks", cwd=place)
    # SQL, and what it needs: a store is made, a job done
    environ = {"JOBPOOL_BACKEND__URL": f"sqlite:///{place}/jobs.db", "PYTHONWARNINGS": WARNINGS}
    run(bin_ / "python", "-c", "from tasks import add; add.enqueue(2, b=3)", cwd=place, **environ)
    run(bin_ / "jobpool", "start", "--burst", "--workers", "1", "--app", "tasks", cwd=place, **environ)
    assert "completed" in run(bin_ / "jobpool", "jobs", "list", cwd=place, **environ)
    assert "every job is accounted for" in run(bin_ / "jobpool", "demo", "--path", str(ROOT / "docs"), cwd=place)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_with_the_extra_web_the_dashboard_has_its_files(dist: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    (wheel,) = dist.glob("*.whl")
    bin_ = tmp_path / "venv" / "bin"
    run(bin_ / "python", "-m", "pip", "install", "-q", f"{wheel}[web]", cwd=tmp_path)

    token = json.loads(run(bin_ / "jobpool", "token", "new", "me", "--role", "admin", "--json", cwd=tmp_path))
    (tmp_path / "jobpool.toml").write_text(
        f'[backend]\nurl = "sqlite:///{tmp_path}/jobs.db"\n[[tokens]]\nname = "me"\nrole = "admin"\nsha256 = "{token["sha256"]}"\n'
    )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    serve = [str(bin_ / "jobpool"), "serve", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(serve, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    try:
        until(lambda: answers(port, "/healthz"), "an answer")
        page = answers(port, "/") or ""
        sheets = re.findall(r'href="(/[^"]+\.css[^"]*)"', page)
        assert sheets and all(answers(port, sheet) for sheet in sheets)
    finally:
        process.terminate()
        assert process.wait(60) == 0


def answers(port: int, path: str) -> str | None:
    """The text at the path; None where nobody answers."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())
    return None
