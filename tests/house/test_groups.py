"""Groups of workers: their own queues, priorities, counts; drained apart; growing by themselves; what probes and scrapers see."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from pool.cli import control
from tests.helpers.house import House
from tests.helpers.servers import free_port

OpenHouse = Callable[..., House]

TWO_GROUPS = """
min_priority = 20
[[groups]]
name = "bulk"
count = 1
max_priority = 19
memory_limit = "300MB"
"""


def group_of(house: House, job: str) -> str:
    (run,) = house.runs(job)
    return next(worker["group"] for worker in house.status()["workers"] if worker["pid"] == run.pid)


def test_a_dedicated_group_serves_low_priorities_while_urgent_ones_wait_for_the_others(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings=TWO_GROUPS)
    urgent = house.enqueue("tasks.hold", {"gate": "a"}, priority="high")
    house.wait_for_worker_of(urgent)
    also_urgent = house.enqueue("tasks.quick", priority="critical")
    low = house.enqueue_many([("tasks.quick", {})] * 5, priority="low")

    for job in low:
        house.wait_until(job, "completed")
        assert group_of(house, job) == "bulk"
    assert house.runs(also_urgent) == []
    house.release("a")
    house.wait_until(also_urgent, "completed")
    assert group_of(house, also_urgent) == "workers"
    ceilings = {worker["group"]: worker["memory_limit"] for worker in house.status()["workers"]}
    assert ceilings["bulk"] == 300_000_000


def test_one_group_is_drained_scaled_and_restarted_and_the_other_works_on(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings=TWO_GROUPS)
    before = {worker["group"]: worker["pid"] for worker in house.status()["workers"]}

    house.cli("drain", "--group", "bulk")
    low = house.enqueue("tasks.quick", priority="low")
    assert house.wait_until(house.enqueue("tasks.quick", priority="high"), "completed")
    assert house.runs(low) == []
    assert {worker["group"]: worker["pid"] for worker in house.status()["workers"]} == before
    house.cli("undrain", "--group", "bulk")
    house.wait_until(low, "completed")

    house.cli("scale", "3", "--group", "bulk")
    house.wait_for(lambda: len(house.workers()) == 4, "three of bulk")
    house.cli("restart", "--group", "workers")
    house.wait_for(
        lambda: before["workers"] not in house.worker_pids() and before["bulk"] in house.worker_pids(), "one restarted"
    )


AUTOSCALED = 'count_min = 1\ncount_max = 3\ntarget_wait = 0.5\nmemory_limit = "100MB"\n'


def test_a_group_grows_with_the_age_of_its_oldest_job_and_says_why(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings=AUTOSCALED)
    house.enqueue_many([("tasks.hold", {"gate": "a"})] * 4)

    house.wait_for(lambda: len(house.workers()) >= 2, "a second worker", within=40)

    (group,) = house.status()["groups"]
    assert group["source"] == "autoscale"
    assert re.fullmatch(r"the oldest job waits [\d.]+ s, target_wait is 0.5 s.*", group["reason"])
    assert "by=autoscale" in house.log_text()
    house.release("a")


# ---------------------------------------------------------------- probes


def readiness(house: House) -> tuple[int, list[str]]:
    code, document = control.ask(house.socket, "GET", "/readyz")
    return code, document.get("reasons", [])


def test_readyz_names_each_reason(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings="[restart]\nfirst_delay = 60\n")
    assert readiness(house) == (200, [])

    house.kill(house.workers()[0].pid)
    house.wait_for(lambda: readiness(house)[0] == 503, "a worker is missing")
    assert readiness(house)[1] == ["group workers: 1 of 2 workers are ready"]
    assert house.cli("health", "--ready", check=False).returncode == 1
    house.cli("drain")
    house.wait_for(lambda: "the pool is draining" in readiness(house)[1], "draining")


def test_metrics_of_a_working_pool_tell_its_story(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings="[restart]\nfirst_delay = 0.05\n")
    for job in house.enqueue_many([("tasks.quick", {})] * 5):
        house.wait_until(job, "completed")
    house.wait_until(house.enqueue("tasks.fail", max_retries=1), "failed")
    held = house.enqueue("tasks.hold", {"gate": "a"})
    victim = house.wait_for_worker_of(held)
    house.kill(victim.pid)
    house.wait_for_worker_of(held, other_than=victim)
    facts = {
        ("jobpool_worker_restarts_total", "workers"): 1,
        ("jobpool_attempts_total", "completed", "tasks.quick"): 5,
        ("jobpool_queue_jobs", "default", "running"): 1,
    }

    def whole_story() -> dict[tuple[str, ...], float] | None:
        told = scraped(house)
        return told if {key: told.get(key) for key in facts} == facts else None

    told = house.wait_for(whole_story, "an heir and the keeper's news")
    assert told is not None
    assert told["jobpool_attempts_total", "failed", "tasks.fail"] == 1
    assert told["jobpool_attempts_total", "retried", "tasks.fail"] == 1
    assert told["jobpool_run_seconds_count", "tasks.quick"] == 5
    assert told["jobpool_wait_seconds_count", "tasks.quick"] == 5
    assert told["jobpool_workers", "workers", "busy"] == 1
    assert told["jobpool_deaths_total", "signal_9", "workers"] == 1
    assert told[("jobpool_backend_up",)] == 1
    assert told[("jobpool_memory_bytes",)] > 10_000_000
    assert ("jobpool_queue_oldest_pending_seconds", "default") in told
    house.release("a")


def scraped(house: House) -> dict[tuple[str, ...], float]:
    """(name, the values of its labels in the order of their names) → value."""
    text = str(control.ask(house.socket, "GET", "/metrics")[1])
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(s.name, *(value for _, value in sorted(s.labels.items()))): s.value for s in samples}


def test_a_tcp_listener_answers_probes_and_takes_no_orders(open_house: OpenHouse) -> None:
    port = free_port()
    house = open_house(workers=1, settings=f'[status]\nlisten = "127.0.0.1:{port}"\n')
    base = f"http://127.0.0.1:{port}"

    assert json.loads(fetch(f"{base}/readyz")[1])["state"] == "ready"
    assert b"jobpool_info" in fetch(f"{base}/metrics")[1]
    assert fetch(f"{base}/stop", data=b"{}")[0] in (403, 405)
    assert house.status()["pool"]["state"] == "ready"


def fetch(url: str, data: bytes | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, data, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


HOSTILE = """
import socket, sys, time
path, kind = sys.argv[1], sys.argv[2]
held = []
while True:
    try:
        s = socket.socket(socket.AF_UNIX); s.setblocking(False); s.connect(path)
        if kind == "endless header":
            s.setblocking(True); s.settimeout(0.2)
            s.sendall(b"GET /status HTTP/1.1\\r\\n")
            for n in range(100000): s.sendall(b"X-%d: %s\\r\\n" % (n, b"y" * 1000))
        held.append(s)
    except OSError:
        time.sleep(0.01)
    held = held[-500:]
"""


def test_hostile_clients_keep_neither_jobs_nor_a_friend_waiting(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    words = [sys.executable, "-c", HOSTILE, str(house.socket)]
    hostile = [subprocess.Popen([*words, kind]) for kind in ("silent", "endless header")]
    try:
        time.sleep(0.5)
        for job in house.enqueue_many([("tasks.quick", {})] * 50):
            house.wait_until(job, "completed")
        house.wait_for(lambda: house.cli("health", check=False).returncode == 0, "a friend is answered")
    finally:
        for one in hostile:
            one.kill()
            one.wait()
    house.wait_for(lambda: house.cli("health", check=False).returncode == 0, "and afterwards")
    assert all(worker["restarts"] == 0 for worker in house.status()["workers"])


def test_pools_shows_each_with_its_last_beat(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    pools: list[dict[str, Any]] = house.wait_for(lambda: house.cli_json("pools"), "a beat in the store")

    (pool,) = pools
    assert (pool["name"], pool["state"]) == ("house", "alive")
    assert 0 <= pool["age_s"] < 60
    assert "LAST BEAT" in house.cli("pools").stdout
