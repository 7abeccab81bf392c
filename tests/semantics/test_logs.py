"""`jobpool logs`: what is read while it is written, over attempts and rotations (point 16)."""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.house import House
from tests.helpers.until import GENEROUS_SECONDS


def test_logs_that_are_followed_show_each_line_while_it_is_written_and_end_with_the_job(house: House) -> None:
    job_id = house.enqueue("tasks.chatter", {"gate": "chat"})
    house.wait_for_worker_of(job_id)
    with following(house, job_id) as heard:
        house.wait_for(lambda: "attempt 1: before" in heard.text(), "what was printed already")
        assert heard.process.poll() is None
        house.release("chat-1")
        house.wait_for(lambda: "attempt 1: after" in heard.text(), "the line that came later")
        house.release("chat-2")
        assert heard.process.wait(GENEROUS_SECONDS) == 0
    said = re.findall(r"attempt (\d: (?:before|after))", heard.text())
    assert said == ["1: before", "1: after", "2: before", "2: after"]


def test_logs_of_a_job_that_waits_are_followed_from_its_start(house: House) -> None:
    house.store.set_queue("later", paused=True)
    job_id = house.enqueue("tasks.hold", {"gate": "wait"}, queue="later")
    with following(house, job_id) as heard:
        house.wait_for(lambda: "--- pending" in heard.text(), "that it waits")
        house.store.set_queue("later", paused=False)
        house.wait_for(lambda: "waiting at wait" in heard.text(), "its first line")
        house.release("wait")
        assert heard.process.wait(GENEROUS_SECONDS) == 0


def test_logs_of_a_worker_are_followed_over_a_rotation_until_the_key_is_pressed(house: House) -> None:
    """A worker that is busy leaves the old file with its next line."""
    job_id = house.enqueue("tasks.chatter", {"gate": "slot"})
    worker = house.wait_for_worker_of(job_id)
    house.release("slot-2")
    with following(house, str(worker.slot)) as heard:
        house.wait_for(lambda: "attempt 1: before" in heard.text(), "what it logged before")
        log, old = house.folder / "jobpool.log", house.folder / "jobpool.log.1"
        log.rename(old)
        house.send_signal(signal.SIGUSR1)
        house.wait_for(log.exists, "a new log file")
        house.kill(worker.pid, signal.SIGUSR1)  # it gets it from the supervisor too, perhaps a moment later
        house.release("slot-1")
        house.wait_for(lambda: "attempt 1: after" in heard.text(), "the line that came later")
        assert heard.process.poll() is None
        heard.process.send_signal(signal.SIGINT)
        assert heard.process.wait(GENEROUS_SECONDS) in (0, 130, -signal.SIGINT)
    house.wait_until(job_id, "completed")
    assert "attempt 1: after" in log.read_text() and "attempt 1: after" not in old.read_text().partition(job_id)[2]
    assert "Traceback" not in heard.text()


@dataclass
class Heard:
    """A verb that runs, and what it has said so far."""

    process: subprocess.Popen[bytes]
    file: Path

    def text(self) -> str:
        return self.file.read_text()


@contextlib.contextmanager
def following(house: House, what: str) -> Iterator[Heard]:
    """`jobpool logs WHAT -f`, ended with the block if it has not ended."""
    file = house.folder / f"followed-{what}"
    words = [sys.executable, "-m", "pool", "logs", what, "-f", "--config", str(house.config_file)]
    with file.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=out, cwd=house.folder) as process:
        try:
            yield Heard(process, file)
        finally:
            process.kill()
