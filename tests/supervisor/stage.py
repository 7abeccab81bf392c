"""The tests' seat in the theatre: start a supervisor over puppets, tell puppets what to do, wait for facts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pool.cli.control import PoolUnreachable, ask
from tests.helpers.until import until

Worker = dict[str, Any]


class Stage:
    """One supervisor in a directory of its own. `process` after `start`."""

    def __init__(self, scene: Path) -> None:
        self.scene = scene
        self.process: subprocess.Popen[bytes]
        self.specs: dict[str, dict[str, Any]] = {}

    # ------------------------------------------------------------------ the supervisor

    def plan(self, count: int = 2, *, keeper: bool = True, **spec: Any) -> "Stage":
        """The configuration: one group of workers and, unless told otherwise, a keeper."""
        self.specs = {"workers": {"group": "workers", "count": count, **spec}}
        if keeper:
            self.specs["keeper"] = {"role": "KEEPER", "group": "keeper", "critical": True, "stop_last": True}
        self.write_plan()
        return self

    def group(self, name: str, **spec: Any) -> "Stage":
        self.specs[name] = {"group": name, **spec}
        self.write_plan()
        return self

    def change(self, group: str = "workers", **spec: Any) -> None:
        self.specs[group].update(spec)
        self.write_plan()

    def write_plan(self, **more: Any) -> None:
        (self.scene / "plan.json").write_text(json.dumps({"specs": list(self.specs.values()), **more}))

    def start(self, *prefix: str, ready: bool = True, env: dict[str, str] | None = None, **options: Any) -> "Stage":
        command = [*prefix, sys.executable, "-m", "tests.supervisor.theatre", str(self.scene)]
        with open(self.scene / "log", "ab") as log:
            options = {"stdin": subprocess.DEVNULL, "env": {**os.environ, **(env or {})}, **options}
            self.process = subprocess.Popen(command, stderr=log, **options)
        if ready:
            self.until_state("ready")
        return self

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def ended(self, within: float = 60.0) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(within)

    def close(self) -> None:
        if hasattr(self, "process") and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGQUIT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    # ------------------------------------------------------------------ what it says

    def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        return ask(self.scene / "run" / "jobpool.sock", method, path, options or None, 60.0)

    def command(self, verb: str, **options: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/{verb}", **options)

    def status(self) -> dict[str, Any]:
        return self.ask("GET", "/status")[1]

    def state(self) -> str:
        try:
            return str(self.status()["pool"]["state"])
        except PoolUnreachable:
            return "unreachable"

    def until_state(self, *states: str) -> None:

        def reached() -> bool:
            assert self.process.poll() is None, f"the supervisor ended with {self.process.poll()}"
            return self.state() in states

        until(reached, f"state {states}")

    def workers(self, group: str = "workers") -> list[Worker]:
        return [worker for worker in self.status()["workers"] if worker["group"] == group]

    def worker(self, slot: int) -> Worker:
        """The process at work in the slot (or its empty place)."""
        return next(worker for worker in self.status()["workers"] if worker["slot"] == slot)

    def pids(self, group: str = "workers") -> set[int]:
        return {
            worker["pid"] for worker in self.workers(group) if worker["pid"] and worker["state"] in ("idle", "busy")
        }

    def until_pids(self, count: int, *, without: set[int] = frozenset()) -> set[int]:
        """The pids of the group once exactly `count` work and none of `without` lives."""

        def found() -> set[int] | None:
            all_pids = {worker["pid"] for worker in self.workers()}
            pids = self.pids()
            return pids if len(pids) == len(all_pids) == count and not pids & without else None

        return until(found, f"{count} workers without {without or 'anyone'}") or set()

    def until_worker(self, slot: int, **facts: Any) -> Worker:
        """The worker of the slot once these fields have these values."""

        def found() -> Worker | None:
            worker = self.worker(slot)
            return worker if all(worker[name] == value for name, value in facts.items()) else None

        return until(found, f"slot {slot} with {facts}")  # type: ignore[return-value]

    def until_replaced(self, worker: Worker) -> Worker:
        """The idle process of a later generation in the same slot."""

        def found() -> Worker | None:
            now = self.worker(worker["slot"])
            return now if now["state"] == "idle" and now["generation"] > worker["generation"] else None

        return until(found, f"slot {worker['slot']} replaced")  # type: ignore[return-value]

    # ------------------------------------------------------------------ puppets

    def tell(self, slot: int, word: str) -> None:
        """Have the puppet in this slot do a word, and wait until it has done it (or read it, where it may not live that long)."""
        path = self.scene / f"do-{slot}"
        new = self.scene / f"new-{slot}"
        new.write_text(word)
        new.rename(path)
        doing = self.scene / f"doing-{slot}"
        until(lambda: not path.exists() and not doing.exists(), f"slot {slot} does {word!r}")

    def set(self, name: str) -> None:
        (self.scene / name).touch()

    def unset(self, name: str) -> None:
        (self.scene / name).unlink()

    def births(self) -> list[dict[str, Any]]:
        return self._lines("births.jsonl")

    def notes(self) -> list[dict[str, Any]]:
        return self._lines("notes.jsonl")

    def until_note(self, pid: int) -> dict[str, Any]:
        return until(lambda: next((note for note in self.notes() if note["pid"] == pid), None), f"note of {pid}")  # type: ignore[return-value]

    def spawned(self) -> list[int]:
        path = self.scene / "spawned"
        until(path.exists, "spawned processes")
        return json.loads(path.read_text())

    def log(self) -> str:
        return (self.scene / "log").read_text(errors="replace")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.scene / name
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid: int) -> set[int]:
    try:
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return set()


def zombies_of(pid: int) -> list[int]:
    return [child for child in children_of(pid) if not lives(child)]


def open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
