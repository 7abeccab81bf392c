"""`start` in its modes, and what a changed file does to a running pool."""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pool.cli import app, start
from pool.cli.starting import modules, plain_flags
from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]


def test_burst_ends_with_0_when_nothing_is_pending(open_house: OpenHouse) -> None:
    house = open_house(start=False, flags=("--burst",))
    ids = [house.cli_json("enqueue", "tasks.quick", f'{{"n": {n}}}')["id"] for n in range(4)]
    house.start(wait=False)
    assert house.wait_exit() == 0
    assert {house.job(job_id).status.value for job_id in ids} == {"completed"}
    assert house.pids() == []


def test_burst_ends_with_1_when_a_worker_died(open_house: OpenHouse) -> None:
    house = open_house(
        start=False, flags=("--burst",), settings="[restart]\nfirst_delay = 0.1\n[jobs]\nmax_kills = 1\n"
    )
    house.cli("enqueue", "tasks.die")
    house.start(wait=False)
    assert house.wait_exit() == 1


def test_watch_rolls_the_workers_when_a_source_file_changes(open_house: OpenHouse) -> None:
    house = open_house(flags=("--watch",))
    before = house.worker_pids()
    assert house.wait_until(house.enqueue("tasks.quick", {"n": 1}), "completed").result == "1"

    house.write_module("tasks", APP.replace("return n\n", "return n * 100\n"))

    house.wait_for(lambda: not (house.worker_pids() & before), "new workers")
    assert house.wait_until(house.enqueue("tasks.quick", {"n": 1}), "completed").result == "100"


def test_flags_beat_the_file(open_house: OpenHouse) -> None:
    house = open_house(workers=1, flags=("--workers", "3", "--queues", "high,low"))
    document = house.status()
    (group,) = document["groups"]
    assert (group["count"], group["source"], group["queues"]) == (3, "flag", ["high", "low"])


def test_a_changed_count_in_the_file_beats_the_flag(open_house: OpenHouse) -> None:
    house = open_house(workers=1, flags=("--workers", "2"))
    house.configure(workers=4)
    house.cli("reload")
    house.wait_for(lambda: len(house.workers()) == 4, "four workers")


def test_a_bad_file_changes_nothing_and_is_reported(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    before = house.worker_pids()
    house.configure(workers=2, settings="cuont = 5\n")

    done = house.cli("reload", check=False)

    assert done.returncode == 1
    assert "unknown key workers.cuont; did you mean count?" in done.stderr
    assert house.worker_pids() == before
    reload = house.status()["pool"]["last_reload"]
    assert (reload["ok"], "cuont" in reload["error"]) == (False, True)
    assert "! the last reload failed" in house.cli("status").stdout


def test_a_reload_by_signal_changes_how_the_supervisor_logs(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    house.configure(workers=1, settings='[log]\nformat = "json"\n')
    house.send_signal(signal.SIGHUP)
    house.wait_for(lambda: '"who": "supervisor"' in house.log_text(), "a line in JSON")


def test_a_roll_publishes_the_types_of_the_new_code(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    types = house.folder / "run" / "types.json"
    house.write_module("tasks", APP + "\n@pool.job\ndef fresh(n: int) -> None:\n    pass\n")

    assert "tasks.fresh" not in types.read_text()
    house.cli("reload", "--rolling")

    house.wait_for(lambda: "tasks.fresh" in types.read_text(), "the new type")


def test_modules_may_be_named_one_by_one_or_with_commas() -> None:
    assert modules(["a,b", " c "]) == ["a", "b", "c"]
    assert modules(None) is None


PLAIN = (
    "",
    "--workers 3 --queues high,low --app tasks --app more --backend sqlite:///x.db --config file --burst --watch",
    "-w 2000",
    "--app a,b --config=file",
    "--app -x",
    "-w3",
    "--workers 0",
    "--workers 2001",
    "--workers many",
    "--config one --config two",
    "--work 3",
    "--app",
    "--burst yes",
    "tasks",
    "--help",
)


@pytest.mark.parametrize("words", PLAIN)
def test_words_that_are_read_without_the_parser_mean_what_the_parser_says(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[dict[str, Any]] = []
    monkeypatch.setattr(start, "run_pool", lambda **flags: called.append(flags) or 0)
    plain = plain_flags(words.split())

    code = app.run_app(["start", *words.split()])

    if plain is None:
        assert code or words in ("--app a,b --config=file", "--app -x", "-w3", "--config one --config two", "--help")
    else:
        assert [{key: value for key, value in flags.items() if value} for flags in called] == [plain]


def test_a_plain_start_loads_neither_the_parser_nor_other_verbs() -> None:
    code = (
        "import sys\nfrom pool.cli import starting\nimport pool.__main__\n"
        "starting.run_pool = lambda **flags: print(flags, [m for m in sys.modules if m.startswith(('typer', 'pool.cli'))])\n"
        "pool.__main__.main(['start', '--app', 'tasks'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = {"pool.cli", "pool.cli.failures", "pool.cli.flags", "pool.cli.output", "pool.cli.starting"}
    flags, _, names = done.stdout.partition("} ")
    assert flags == "{'app': ['tasks']" and set(eval(names)) == loaded, done.stderr
