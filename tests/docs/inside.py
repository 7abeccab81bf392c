"""Runs as root inside the lab (tests/systemd/lab.sh): follows the pages that are for servers, block by block, as they stand.

Prints `ok WHERE` per block. Started by test_on_a_server.py; nothing but the standard library is here.
"""

import datetime
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks_of

TASKS = """
import pathlib, pool

@pool.job(queue="mail")
def greet(name: str = "you") -> str:
    return f"hello {name}"
"""
RELOADING = ("systemctl reload jobpool", "jobpool reload --rolling")
LATER = {"jobpool-2026-05-01.db": f"jobpool-{datetime.date.today():%F}.db"}  # what stands on the page → what there is


def sh(command: str, where: str, cwd: str = str(ROOT)) -> str:
    """Run it as a person's shell would; stop everything when it fails."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=200,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        print(f"FAIL {where}: exit {done.returncode}\n{command}\n{done.stdout}\n{done.stderr}", flush=True)
        print(subprocess.getoutput("journalctl -b --no-pager -u jobpool -n 40"), flush=True)
        sys.exit(1)
    print(f"ok {where}", flush=True)
    return done.stdout


def follow(block: Block) -> str:
    text = block.text
    for said, here in LATER.items():
        text = text.replace(said, here)
    return sh(text, block.where)


def root_blocks(page: str) -> list[Block]:
    return [block for block in blocks_of(ROOT / page) if "root" in block.tags]


def expect(fact: object, what: str) -> None:
    if not fact:
        print(f"FAIL {what}", flush=True)
        sys.exit(1)


def jobs(status: str) -> int:
    return len(json.loads(sh(f"jobpool jobs list --status {status} --json", f"jobs that are {status}", cwd="/")))


def wait_for(status: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while jobs(status) != count:
        expect(time.monotonic() < deadline, f"{count} jobs {status}")
        time.sleep(0.2)


def spoken(page: str, *beginnings: str) -> list[str]:
    """Commands in code spans of the page that begin with one of these."""
    spans = re.findall(r"`([^`\n]+)`", (ROOT / page).read_text())
    return [span for span in spans if span.startswith(beginnings) and not span.endswith("…")]


def image() -> None:
    """docs/deploy/Dockerfile without an engine: its RUN lines as root in an /app of its own, then its CMD as its USER."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "docs/deploy/Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.findall(r"^([A-Z]+) +(.+)$", text.replace("\\\n", " "), re.MULTILINE)
    said = dict(lines)
    Path("/app").mkdir()
    Path("/app/tasks.py").write_text(TASKS)
    Path("/app/requirements.txt").write_text("")
    sh(
        "/usr/bin/python3 -m venv /opt/image && /opt/image/bin/pip wheel -q --no-deps -w /app .",
        "the wheel for the image",
    )
    path = "PATH=/opt/image/bin:$PATH"
    for number, command in enumerate(words for name, words in lines if name == "RUN"):
        sh(f"{path}; {command}", f"docs/deploy/Dockerfile: RUN {number + 1}", cwd="/app")
    start, health = (" ".join(json.loads(words)) for words in (said["CMD"], said["HEALTHCHECK"].partition(" CMD ")[2]))
    user = f"{path}; export {said['ENV']}; cd {said['WORKDIR']}; setpriv --reuid=10001 --regid=10001 --clear-groups env HOME=/nonexistent"
    pool = subprocess.Popen(["bash", "-c", f"{user} {start}"], start_new_session=True)
    sh(
        f"until {user} {health} --ready; do sleep 0.2; done; {user} {health}",
        "docs/deploy/Dockerfile: HEALTHCHECK",
        cwd="/app",
    )
    sh(f"{user} jobpool enqueue tasks.greet; {user} jobpool stop --wait", "docs/deploy/Dockerfile: CMD", cwd="/app")
    expect(pool.wait(60) == 0, "the image stops in order")
    sh("userdel jobpool; rm -rf /var/lib/jobpool /run/jobpool /app /opt/image", "the machine is empty again", cwd="/")


def install() -> None:
    """systemd/README.md, from an empty machine to a pool that works."""
    (ROOT / "myapp").mkdir()
    (ROOT / "myapp" / "tasks.py").write_text(TASKS)
    (block,) = root_blocks("systemd/README.md")
    said = follow(block)
    expect("ready: " in said and "workers" in said, f"a ready pool in: {said[-3000:]}")


def day_to_day() -> None:
    """The commands that the pages name in passing, and a program of another user that enqueues."""
    page = "systemd/README.md"
    for command in spoken(
        page, "usermod", "systemctl reload jobpool", "jobpool reload", "journalctl", "systemctl kill"
    ):
        sh(command, f"{page}: {command}", cwd="/")
    for command in spoken("docs/operating.md", "journalctl -u jobpool"):
        sh(command, f"docs/operating.md: {command}", cwd="/")
    sh(
        'runuser -u www-data -- jobpool enqueue myapp.tasks.greet \'{"name": "www"}\'',
        "a member of the group enqueues",
        cwd="/",
    )
    sh("jobpool enqueue myapp.tasks.greet", "root enqueues", cwd="/")
    wait_for("completed", 2)
    sh("runuser -u www-data -- jobpool status", "a member of the group looks", cwd="/")
    sh("! runuser -u www-data -- jobpool stop", "a member of the group gives no orders", cwd="/")
    sh("jobpool doctor || [ $? = 1 ]", "the doctor", cwd="/")


def upgrade_and_restore() -> None:
    """docs/operating.md: a backup, a new version, and yesterday's jobs back."""
    upgrade, restore = root_blocks("docs/operating.md")
    sh("/opt/jobpool/venv/bin/pip wheel -q --no-deps -w . .", "docs/operating.md: the wheel")
    follow(upgrade)
    sh("jobpool pause mail; jobpool enqueue myapp.tasks.greet", "a job after the backup", cwd="/")
    expect(jobs("pending") == 1, "a job that waits")
    follow(restore)
    expect(jobs("pending") == 0 and jobs("completed") == 2, "the jobs of the backup and no others")
    sh("jobpool enqueue myapp.tasks.greet", "a job after the restore", cwd="/")
    wait_for("completed", 3)


if __name__ == "__main__":
    image()
    install()
    day_to_day()
    upgrade_and_restore()
