"""What a running pool shows to people: its log and its file, its titles in `ps`, and nothing secret in any of them."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.house import APP, House
from tests.helpers.servers import running

OpenHouse = Callable[..., House]
SECRET = "s3cr3t-XYZ"

TALKING_APP = (
    APP
    + """
import logging, sys

@pool.job
@noted
def talk(gate: str, lines: int) -> None:
    wait_for_gate(gate)
    for n in range(lines):
        logging.getLogger("app").warning("a line of the job %d %s", n, "x" * 30)
    print("said by print")
    print("said on standard error", file=sys.stderr)
"""
)


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def opened_by(pid: int) -> set[str]:
    try:
        return {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def log_objects(file: Path) -> list[dict[str, object]]:
    """Every line of a log in JSON; a torn or mixed one is none. The last may be in the midst of being written."""
    return [json.loads(line) for line in file.read_text().rpartition("\n")[0].splitlines()]


def test_a_rotated_log_file_is_left_by_everybody_and_no_line_is_lost_or_torn(open_house: OpenHouse) -> None:
    house = open_house(workers=4, app=TALKING_APP, start=False)
    file, moved = house.folder / "jobpool.log", house.folder / "jobpool.log.1"
    house.configure(workers=4, settings=f'[log]\nfile = "{file}"\nformat = "json"\n')
    house.start()
    pids, workers = house.pids(), house.worker_pids()
    before = house.enqueue_many([("tasks.talk", {"gate": "a", "lines": 20})] * 4)
    house.release("a")
    for job in before:
        house.wait_until(job, "completed")

    after = house.enqueue_many([("tasks.talk", {"gate": "b", "lines": 250})] * 4)
    house.wait_for(lambda: house.counts()["running"] == 4, "one job in each worker")
    file.rename(moved)
    house.send_signal(signal.SIGUSR1)
    house.wait_for(file.exists, "the new file")
    house.release("b")
    for job in after:
        house.wait_until(job, "completed")

    house.wait_for(lambda: not any(str(moved) in opened_by(pid) for pid in pids), "all have left the old file")
    last = house.enqueue_many([("tasks.talk", {"gate": "c", "lines": 1})] * 4)
    house.wait_for(lambda: house.counts()["running"] == 4, "one job in each worker")
    house.release("c")
    for job in last:
        house.wait_until(job, "completed")
    old, new = log_objects(moved), log_objects(file)
    for job in after:  # one that runs at the signal goes on in the old file for a second at most
        mine = [line for line in old + new if line.get("job") == job]
        assert sum("a line of the job" in str(line["event"]) for line in mine) == 250
        assert {(line["type"], line["attempt"], line["pool"]) for line in mine} == {("tasks.talk", 1, "house")}
    assert len({str(line["who"]) for line in new if line.get("job")}) == 4
    assert any(line["who"] == "supervisor" for line in old)
    assert house.worker_pids() == workers  # nobody was forked or killed for it
    house.cli("scale", "5")
    house.wait_for(lambda: any(line["who"] == "supervisor" for line in log_objects(file)), "the supervisor's line")


def test_what_a_job_says_is_logged_with_its_name_and_each_line_has_its_pool_and_slot(open_house: OpenHouse) -> None:
    house = open_house(workers=1, app=TALKING_APP, settings='[log]\nformat = "json"\n')
    house.release("a")
    job = house.enqueue("tasks.talk", {"gate": "a", "lines": 1})
    house.wait_until(job, "completed")

    said_so = ("said by print", "said on standard error", "a line of the job 0")
    house.wait_for(lambda: all(words in house.log_text() for words in said_so), "the job's words")
    lines = house.wait_for(lambda: log_objects(house.log_file), "whole lines")
    assert {line["pool"] for line in lines} == {"house"}
    said = [line for line in lines if line.get("job") == job]
    for words in ("said by print", "said on standard error", "a line of the job 0"):
        (line,) = [line for line in said if words in json.dumps(line)]
        assert (line["type"], line["attempt"], line["who"]) == ("tasks.talk", 1, "workers/1")


def test_ps_shows_who_is_who_and_what_each_does(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    busy = house.wait_for_worker_of(job)
    (idle,) = [worker for worker in house.workers() if worker.pid != busy.pid]

    house.wait_for(lambda: title(house.pid) == "jobpool: supervisor house ready", "the supervisor's title")
    house.wait_for(lambda: title(house.keeper_pid()) == "jobpool: keeper", "the keeper's title")
    house.wait_for(lambda: title(busy.pid) == f"jobpool: worker {busy.slot} running tasks.hold", "the busy one's title")
    house.wait_for(lambda: title(idle.pid) == f"jobpool: worker {idle.slot} idle", "the idle one's title")
    house.release("a")
    house.wait_for(lambda: title(busy.pid) == f"jobpool: worker {busy.slot} idle", "idle again")


def test_a_closed_standard_error_neither_kills_the_pool_nor_makes_it_spin(open_house: OpenHouse) -> None:
    house = open_house(workers=2, app=TALKING_APP, prefix=("sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh"))
    house.release("a")
    for job in house.enqueue_many([("tasks.talk", {"gate": "a", "lines": 50})] * 4):
        house.wait_until(job, "completed")

    before = ticks(house.pid)
    house.wait_until(house.enqueue("tasks.nap", {"seconds": 2}), "completed")
    assert ticks(house.pid) - before < 50  # of 200 and more, if it spun
    assert house.stop() == 0


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# ---------------------------------------------------------------- secrets


def everything_said(house: House) -> str:
    """What anybody may read of a pool: log, status, metrics, `ps`, and what the command line says."""
    from pool.cli import control

    words = [title(pid) for pid in house.pids()]
    words += [json.dumps(house.status()), str(control.ask(house.socket, "GET", "/metrics")[1])]
    words += [str(control.ask(house.socket, "GET", "/readyz")[1]), house.log_text()]
    for verb in (("status",), ("health", "--ready"), ("queues",), ("check",), ("doctor",)):
        done = house.cli(*verb, check=False)
        words += [done.stdout, done.stderr]
    return "\n".join(words)


@pytest.mark.parametrize("trouble", ["wrong port", "wrong password"])
def test_no_password_is_ever_said(open_house: OpenHouse, trouble: str) -> None:
    with running("valkey", password="another-one") as server:
        port = 1 if trouble == "wrong port" else server.port
        house = open_house(
            workers=1, backend=f"redis://:{SECRET}@127.0.0.1:{port}/0", wait=False, settings='[log]\nlevel = "DEBUG"\n'
        )
        house.wait_for(lambda: house.answers() and (house.status()["backend"]["error"] or "") != "", "trouble")
        house.wait_for(lambda: house.status()["backend"]["error"] != "not asked yet", "the trouble itself")

        said = everything_said(house)

        assert ":***@127.0.0.1" in said
        assert SECRET not in said
        house.stop()
        assert SECRET not in house.log_text()


def use_url_file(house: House, name: str) -> None:
    text = house.config_file.read_text()
    house.config_file.write_text(text.replace(f'url = "{house.url}"', f'url_file = "{name}"'))


def test_a_url_with_its_password_comes_from_a_credential(open_house: OpenHouse, tmp_path: Path) -> None:
    with running("valkey", password=SECRET) as server:
        (tmp_path / "backend-url").write_text(server.url + "\n")
        (tmp_path / "backend-url").chmod(0o600)
        house = open_house(workers=1, backend=server.url, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)}, start=False)
        use_url_file(house, "backend-url")
        house.start()

        assert house.wait_until(house.enqueue("tasks.quick", {"n": 3}), "completed").result == "3"
        assert SECRET not in everything_said(house)
        assert "every user can read it" not in house.log_text()


@pytest.mark.parametrize("place", ["the configuration", "the file it names"])
def test_a_password_that_every_user_can_read_is_warned_about(open_house: OpenHouse, tmp_path: Path, place: str) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:1/0"
    house = open_house(workers=1, backend=url, start=False)
    exposed = house.config_file
    if place == "the file it names":
        exposed = tmp_path / "backend-url"
        exposed.write_text(url)
        use_url_file(house, str(exposed))
    exposed.chmod(0o644)

    house.start(wait=False)

    house.wait_for(lambda: f"{exposed} holds a password and every user can read it" in house.log_text(), "the warning")
