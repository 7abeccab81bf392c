"""A child that does what a file tells it: the tests' stand-in for workers and keepers. It opens no store.

Words in `<scene>/do-<slot>`: `exit N`, `raise`, `die SIGNAL`, `announce EXIT`, `job SECONDS HARD_SECONDS`, `finish`,
`silent`, `store`, `grow MB`, `spawn`, `deaf` (ignores SIGTERM), `daemon` (leaves an orphan behind), `end` (of the job),
`result SECONDS HARD_SECONDS` (a job at its finish), `late` (a job that ends when its stack is asked for).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from pool.board.lanes import NO_JOB, Phase
from pool.board.record import Exit, Role, State
from pool.seat import Seat

ANY_RANDOM = random.Random()
# Words whose end nobody can wait for: the puppet may not live to see it.
LAST_WORDS = {"exit", "raise", "die", "grow"}


class Puppet:
    def __init__(self, seat: Seat, scene: Path) -> None:
        self.seat, self.scene = seat, scene
        self.is_told = self.is_deaf = self.is_silent = False
        self.exit, self.state = Exit.NONE, State.BOOTING
        self.since = time.monotonic()
        self.store_since = 0.0
        self.claim = self.job_until = 0
        self.jobs = 0
        self.ballast: list[bytearray] = []

    def live(self) -> int:
        signal.signal(signal.SIGTERM, self.be_told)
        self.in_hand.unlink(missing_ok=True)  # what the one before did not live to finish
        self.tell_about_birth()
        self.show(State.IDLE)
        os.write(self.seat.announce_fd, b"p")
        while not self.may_leave():
            self.take_word()
            self.end_job_when_over()
            if not self.is_silent:
                self.show(self.state)
            time.sleep(0.02)
        self.exit = self.exit or Exit.STOPPED
        self.show(State.RETIRING)
        return 0

    def be_told(self, *_: object) -> None:
        self.is_told = not self.is_deaf

    def may_leave(self) -> bool:
        if self.state == State.BUSY:
            return False
        return self.is_told or self.exit in (Exit.BARRED, Exit.BURST_DONE, Exit.ORPHANED)

    def show(self, state: State) -> None:
        self.state = state
        now = time.monotonic()
        self.seat.record.process.write(
            state, self.exit, self.since, now, self.store_since, self.jobs, 0, 0, sum(map(len, self.ballast))
        )

    def tell_about_birth(self) -> None:
        facts = {
            "pid": os.getpid(),
            "slot": self.seat.worker.slot,
            "generation": self.seat.worker.generation,
            "group": os.getpgid(0),
            "open": {
                name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if is_open(name)
            },
            "environ": {name: os.environ.get(name) for name in ("NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC")},
            "random": random.random(),
            "oom": int(Path("/proc/self/oom_score_adj").read_text()),
            "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            "wakeup_fd": signal.set_wakeup_fd(-1),
        }
        with open(self.scene / "births.jsonl", "a") as file:
            file.write(json.dumps(facts) + "\n")

    # ------------------------------------------------------------------ words

    @property
    def in_hand(self) -> Path:
        """The word that is being done: it is gone when it is done."""
        return self.scene / f"doing-{self.seat.worker.slot}"

    def take_word(self) -> None:
        path = self.scene / f"do-{self.seat.worker.slot}"
        if path.exists():
            word, *rest = path.read_text().split()
            if word in LAST_WORDS:
                path.unlink()
            else:
                path.rename(self.in_hand)
            getattr(self, f"do_{word}")(*rest)
            self.in_hand.unlink(missing_ok=True)

    def do_exit(self, code: str) -> None:
        os._exit(int(code))

    def do_raise(self) -> None:
        raise RuntimeError("the puppet's strings are cut, redis://user:hunter2@host/0")

    def do_die(self, name: str) -> None:
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(60)

    def do_announce(self, name: str) -> None:
        self.exit = Exit[name]
        self.show(State.RETIRING)
        os.write(self.seat.announce_fd, b"p")

    def do_job(self, seconds: str, hard_seconds: str = "0") -> None:
        now = time.monotonic()
        self.claim += 1
        self.job_until = now + float(seconds)
        hard = now + float(hard_seconds) if float(hard_seconds) else 0.0
        self.show(State.BUSY)
        self.write_lane(Phase.STARTED, uuid.uuid4().bytes, now, hard)

    def do_finish(self) -> None:
        """The result is in hand and being stored: no deadline any more."""
        lane = self.seat.record.lanes[0].state.read()
        self.store_since = time.monotonic()
        self.write_lane(Phase.STARTED, lane.job, lane.since, 0.0)

    def do_result(self, seconds: str, hard_seconds: str = "0") -> None:
        self.do_job(seconds, hard_seconds)
        self.do_finish()

    def do_end(self) -> None:
        self.job_until = time.monotonic()
        self.end_job_when_over()

    def do_late(self) -> None:
        """No stack is written, so the supervisor waits for one as long as it ever does."""
        signal.signal(signal.SIGUSR2, lambda *_: self.do_end())
        self.do_job("600", "0.1")

    def do_silent(self) -> None:
        self.is_silent = True

    def do_store(self) -> None:
        self.store_since = time.monotonic()

    def do_grow(self, megabytes: str) -> None:
        block = bytearray(int(megabytes) << 20)
        block[::4096] = b"x" * len(block[::4096])
        self.ballast.append(block)

    def do_deaf(self) -> None:
        self.is_deaf = True

    def do_spawn(self) -> None:
        """One subprocess in our group, one in a session of its own."""
        mine = subprocess.Popen(["sleep", "301"])
        strange = subprocess.Popen(["sleep", "302"], start_new_session=True)
        self.note_spawned(mine.pid, strange.pid)

    def do_daemon(self) -> None:
        """An orphan: its parent ends at once, so it becomes the supervisor's child."""
        script = "import os\nif os.fork() == 0:\n os.setsid()\n print(os.getpid(), flush=True)\n os.close(1)\n os.execvp('sleep', ['sleep', '303'])\n"
        out = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, close_fds=True)
        self.note_spawned(int(out.stdout))

    def note_spawned(self, *pids: int) -> None:
        temporary = self.scene / "spawned.new"
        temporary.write_text(json.dumps(pids))
        temporary.rename(self.scene / "spawned")

    def end_job_when_over(self) -> None:
        if self.job_until and time.monotonic() >= self.job_until:
            self.job_until, self.jobs, self.store_since = 0, self.jobs + 1, 0.0
            self.write_lane(Phase.NONE, NO_JOB, time.monotonic(), 0.0)
            self.show(State.IDLE)

    def write_lane(self, phase: Phase, job: bytes, since: float, hard: float) -> None:
        self.seat.record.lanes[0].state.write(phase, self.claim, job, since, hard, self.claim, b"test.job", b"default")


def is_open(name: str) -> bool:
    """Not so the descriptor by which the folder was listed."""
    return os.path.lexists(f"/proc/self/fd/{name}")


class Gravedigger(Puppet):
    """A keeper: marks each death note done and writes it down."""

    def live(self) -> int:
        self.do_deaf()  # it leaves when all others have left, as the real one
        signal.signal(signal.SIGTERM, self.be_told)
        return super().live()

    def be_told(self, *_: object) -> None:
        self.is_told = True

    def may_leave(self) -> bool:
        self.settle()
        if os.getppid() != self.seat.parent.pid:
            return True
        return self.is_told and not any(record.tenant.read().role == Role.WORKER for record in self.unsettled())

    def unsettled(self) -> list:
        records = [record for record in self.seat.board.taken() if record.tenant.read().role == Role.WORKER]
        return [r for r in records if r.done.read().pid != r.tenant.read().pid != 0]  # 0: freed between the reads

    def settle(self) -> None:
        if (self.scene / "store-is-away").exists():
            return
        for record in self.unsettled():
            note = record.note.read()
            if note.pid:
                line = {**note._asdict(), "started": record.started_claims(), "stack": record.stack.read().text}
                with open(self.scene / "notes.jsonl", "a") as file:
                    file.write(json.dumps(line) + "\n")
                record.done.write(note.generation, note.pid)


def run_puppet(scene: Path, seat: Seat) -> int:
    """`<scene>/broken` makes every worker fail to boot; `broken-<slot>` that one; `slow` keeps it from being ready."""
    if seat.role == Role.KEEPER:
        return Gravedigger(seat, scene).live()
    slot, group = seat.worker.slot, seat.group
    if any((scene / name).exists() for name in ("broken", f"broken-{slot}", f"broken-{group}")):
        seat.record.remark.write(b"ModuleNotFoundError: No module named 'tasks'")
        return 3
    while (scene / "slow").exists():
        time.sleep(0.02)
    return Puppet(seat, scene).live()
