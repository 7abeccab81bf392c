"""A newcomer's desk: an empty folder, a home of its own, `jobpool` on the path, and at most one pool that runs there."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.cli import control
from tests.docs.pages import Block
from tests.helpers.until import until

FOREGROUND = re.compile(r"^jobpool start\b(?!.*--burst)", re.MULTILINE)
STEP_S = 120


class Desk:
    """What the reader of a page does, done for them."""

    def __init__(self, **environ: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jpd-", dir="/tmp"))  # short: sockets have 107 characters
        self.log = self.folder / "pool.log"
        self.pool: subprocess.Popen[bytes] | None = None
        scripts = Path(sys.executable).parent
        given = {name: value for name, value in os.environ.items() if not name.startswith(("JOBPOOL_", "XDG_"))}
        self.environ = {
            **given,
            "HOME": str(self.folder / "home"),
            "PATH": f"{scripts}:{os.environ['PATH']}",
            **environ,
        }
        self.names: dict[str, str] = {}  # what stands on the page → what it is at this desk
        (self.folder / "home").mkdir()

    @property
    def socket(self) -> Path:
        run = self.environ.get("RUNTIME_DIRECTORY") or self.folder / "home/.local/state/jobpool/run"
        return Path(run) / "jobpool.sock"

    def follow(self, block: Block) -> str:
        """Do what the block says; what it printed."""
        if block.file_name:
            return self.write(block)
        if block.language == "python":
            return self.run([sys.executable, "-W", "error", "-c", block.text], block.where)
        if block.language == "sh" and FOREGROUND.search(block.text):
            return self.start(block)
        if block.language == "sh":
            return self.run(["bash", "-euo", "pipefail", "-c", self.without_placeholders(block.text)], block.where)
        return ""

    def write(self, block: Block) -> str:
        file = self.folder / block.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text + "\n")
        return ""

    def run(self, command: list[str], where: str = "") -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=STEP_S
        )
        assert done.returncode == 0, f"{where}: exit {done.returncode}\n{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def without_placeholders(self, text: str) -> str:
        """ID becomes the newest job, in commands about dead letters the newest of those."""
        for said, here in self.names.items():
            text = text.replace(said, here)
        return "\n".join(map(self._with_an_id, text.splitlines()))

    def _with_an_id(self, line: str) -> str:
        command, mark, remark = line.partition("#")
        if not re.search(r"\bID\b", command):
            return line
        verb = "dead" if "jobpool dead" in command else "jobs"
        newest = self.run(["bash", "-c", f"jobpool {verb} list --limit 1 | tail -1"]).split()[0]
        return re.sub(r"\bID\b", newest, command) + mark + remark

    def start(self, block: Block) -> str:
        """`jobpool start`, and what stands above it, in the background; ready when this returns."""
        script = FOREGROUND.sub("exec jobpool start", block.text)
        with self.log.open("ab") as log:
            self.pool = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until(self._is_ready, f"{block.where}: a ready pool")
        return ""

    def _is_ready(self) -> bool:
        assert self.pool is not None and self.pool.poll() is None, self.log.read_text()
        try:
            return control.ask(self.socket, "GET", "/readyz")[0] == 200
        except control.PoolUnreachable:
            return False

    def wait_stopped(self) -> int:
        assert self.pool is not None
        return self.pool.wait(60)

    def close(self) -> None:
        if self.pool is not None and self.pool.poll() is None:
            self.pool.send_signal(signal.SIGQUIT)
            self.pool.wait(60)
        if self.log.exists():
            print(self.log.read_text()[-4000:])
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def desk() -> Iterator[Desk]:
    at = Desk()
    yield at
    at.close()
