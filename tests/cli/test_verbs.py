"""The verbs a person types, against a real pool: what they print, what they change, how they end."""

import json
import re
from collections.abc import Callable

import pytest

from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]

REDACTING = (
    APP
    + """
@pool.job(redact=("card_token",))
def pay(card_token: str, amount: int) -> None:
    pass
"""
)
SCHEDULE = (
    '[[schedule]]\nname = "nightly"\ntype = "tasks.quick"\ncron = "30 3 * * *"\npayload = { n = 4 }\nqueue = "night"\n'
)


def wait_for_its_first_beat(house: House) -> None:
    """Until the store knows of the pool, its queues and its types."""
    house.wait_for(lambda: any(pool["types"] for pool in house.cli_json("pools")), "the pool's types in the store")


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_job_goes_in_and_its_story_can_be_read(open_house: OpenHouse) -> None:
    house = open_house()
    job_id = house.cli("enqueue", "tasks.quick", '{"n": 5}', "--priority", "high").stdout.split()[0]
    house.wait_until(job_id, "completed")

    document = house.cli_json("jobs", "show", job_id)

    assert (document["payload"], document["result"], document["priority"]) == ({"n": 5}, 5, 20)
    assert document["status"] == "completed"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", document["finished_at"])
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["completed"]
    assert job_id in house.cli("jobs", "list").stdout
    assert [job["id"] for job in house.cli_json("jobs", "list", "--status", "completed")] == [job_id]
    assert "completed" in house.cli("jobs", "show", job_id).stdout
    assert "It completed at" in house.cli("jobs", "why", job_id).stdout


def test_the_same_key_gives_the_first_job(open_house: OpenHouse) -> None:
    house = open_house()
    first = house.cli_json("enqueue", "tasks.quick", '{"n": 1}', "--key", "k", "--delay", "1h")
    again = house.cli("enqueue", "tasks.quick", '{"n": 2}', "--key", "k")
    assert first["id"] in again.stdout
    assert "another payload" in again.stderr
    assert first["status"] == "scheduled"


def test_a_payload_may_come_on_standard_input(open_house: OpenHouse) -> None:
    house = open_house()
    done = house.cli("enqueue", "quick", "-", "--json", input='{"n": 9}')
    assert json.loads(done.stdout)["payload"] == {"n": 9}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tasks.quik",), "unknown job type 'tasks.quik'. Did you mean 'tasks.quick'?"),
        (("tasks.quick", '{"n": "many"}'), "n: "),
        (("tasks.quick", '{"m": 1}'), "payload of 'tasks.quick' does not fit"),
        (("tasks.quick", "{oops"), "the payload is not JSON"),
        (("tasks.quick", "--priority", "urgent"), "unknown priority 'urgent'"),
        (("tasks.quick", "--at", "2030-01-01T10:00"), "has no time zone"),
        (("tasks.quick", "--delay", "soon"), "is not a duration"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_in_a_sentence(
    open_house: OpenHouse, words: tuple[str, ...], sentence: str
) -> None:
    house = open_house(workers=1)
    wait_for_its_first_beat(house)
    done = house.cli("enqueue", *words, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert house.counts()["pending"] == 0


def test_a_waiting_job_is_cancelled_and_comes_back_when_retried(open_house: OpenHouse) -> None:
    house = open_house()
    job_id = house.enqueue("tasks.quick", delay=3600)
    assert "cancelled job" in house.cli("jobs", "cancel", job_id).stdout
    assert house.cli("jobs", "cancel", job_id, check=False).returncode == 1
    assert house.job(job_id).status == "cancelled"
    house.cli("jobs", "retry", job_id)
    house.wait_until(job_id, "completed")


def test_dead_letters_are_listed_retried_and_discarded_by_filter(open_house: OpenHouse) -> None:
    house = open_house()
    hopeless = [house.enqueue("tasks.give_up") for _ in range(3)]
    for job_id in hopeless:
        house.wait_until(job_id, "failed")

    listed = house.cli_json("dead", "list", "--reason", "fatal_error", "--type", "tasks.give_up")
    assert {job["id"] for job in listed} == set(hopeless)
    assert house.cli_json("dead", "list", "--reason", "timeout") == []
    assert house.cli("dead", "retry", check=False).returncode == 2  # all at once only with --all

    dry = house.cli_json("dead", "discard", "--type", "tasks.give_up", "--dry-run")
    assert (len(dry["discarded"]), dry["dry_run"]) == (3, True)
    assert house.counts()["failed"] == 3

    house.cli("dead", "retry", hopeless[0])
    house.wait_for(lambda: len(house.runs(hopeless[0])) == 2, "the second run")
    house.wait_until(hopeless[0], "failed")
    assert len(house.cli_json("dead", "discard", "--all")["discarded"]) == 3
    assert {house.job(job_id).reason for job_id in hopeless} == {"discarded"}
    refused = house.cli("dead", "discard", hopeless[0], "no-such-job", check=False)
    assert refused.returncode == 1
    assert "no job 'no-such-job'" in refused.stderr


def test_a_pause_of_a_queue_that_nobody_knows_says_so_and_is_remembered(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings='[[groups]]\nname = "post"\ncount = 1\nqueues = ["mail"]\n')
    wait_for_its_first_beat(house)

    known, wrong = house.cli("pause", "mail"), house.cli("pause", "mial")

    assert (known.returncode, known.stderr) == (0, "")
    assert wrong.returncode == 0
    assert "No queue mial is known yet" in wrong.stderr
    assert "Did you mean mail? Then: jobpool resume mial; jobpool pause mail." in wrong.stderr
    assert {q["name"] for q in house.cli_json("queues") if q["paused"]} == {"mail", "mial"}


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(open_house: OpenHouse) -> None:
    house = open_house()
    house.cli("pause", "default")
    job_id = house.enqueue("tasks.quick")
    assert house.cli_json("queues")[0]["paused"] is True
    assert "is paused: jobpool resume default" in house.cli("jobs", "why", job_id).stdout
    assert house.runs(job_id) == []
    house.cli("resume", "default")
    house.wait_until(job_id, "completed")


def test_purging_needs_a_yes_and_touches_no_running_job(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    held = house.enqueue("tasks.hold", {"gate": "a"})
    house.wait_for_worker_of(held)
    house.enqueue_many([("tasks.quick", {}) for _ in range(5)])

    refused = house.cli("purge", "default", check=False)
    assert (refused.returncode, house.counts()["pending"]) == (1, 5)
    assert "add --yes" in refused.stderr
    assert house.cli_json("purge", "default", "--dry-run")["matching"] == 5

    assert house.cli_json("purge", "default", "--yes")["removed"] == 5
    house.release("a")
    house.wait_until(held, "completed")
    assert house.counts()["pending"] == 0


def test_a_queue_that_nobody_serves_is_shown(open_house: OpenHouse) -> None:
    house = open_house(settings='queues = ["default"]\n[[queues]]\nname = "configured"\n')
    wait_for_its_first_beat(house)
    job_id = house.enqueue("tasks.quick", queue="lonely")
    house.wait_for(lambda: "configured" in [queue["name"] for queue in house.cli_json("queues")], "the keeper's work")
    queues = {queue["name"]: queue for queue in house.cli_json("queues")}
    assert queues["configured"]["pending"] == 0
    assert (queues["lonely"]["pending"], queues["lonely"]["served"]) == (1, False)
    assert "No running pool serves its queue lonely" in house.cli("jobs", "why", job_id).stdout


def test_a_schedule_entry_is_listed_and_run_by_hand(open_house: OpenHouse) -> None:
    house = open_house(settings=SCHEDULE)
    (entry,) = house.cli_json("schedule", "list")
    assert (entry["name"], entry["when"]) == ("nightly", "30 3 * * *")
    assert entry["next"].endswith(":30:00.000Z")
    job = house.cli_json("schedule", "run", "nightly")
    assert (job["queue"], job["payload"]) == ("night", {"n": 4})
    assert house.wait_until(job["id"], "completed").result == "4"
    assert "there are: nightly" in house.cli("schedule", "run", "weekly", check=False).stderr


def test_a_backup_is_whole_while_the_pool_works(open_house: OpenHouse) -> None:
    import sqlite3

    house = open_house()
    ids = house.enqueue_many([("tasks.quick", {"n": n}) for n in range(50)])
    copy = house.folder / "copy.db"
    house.cli("backup", str(copy))
    connection = sqlite3.connect(copy)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()
    assert (copy.stat().st_mode & 0o077) == 0
    assert house.cli("backup", str(copy), check=False).returncode == 1
    for job_id in ids:
        house.wait_until(job_id, "completed")


def test_redacted_fields_are_never_shown(open_house: OpenHouse) -> None:
    house = open_house(app=REDACTING)
    job_id = house.enqueue("tasks.pay", {"card_token": "s3cr3t", "amount": 5})
    house.wait_until(job_id, "completed")
    wait_for_its_first_beat(house)
    shown = [house.cli("jobs", "show", job_id).stdout, house.cli("jobs", "list", "--json").stdout]
    assert all("s3cr3t" not in text for text in shown)
    assert house.cli_json("jobs", "show", job_id)["payload"] == {"card_token": "***", "amount": 5}


def test_the_pool_is_shown_scaled_drained_and_stopped(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    document = house.cli_json("status")
    assert document["pool"]["name"] == "house"
    assert len(document["workers"]) == 2
    assert "pool house is ready" in house.cli("status").stdout

    house.cli("scale", "3")
    house.wait_for(lambda: len(house.workers()) == 3, "three workers")

    house.cli("drain")
    job_id = house.enqueue("tasks.quick")
    assert house.cli("health", "--ready", check=False).returncode in (0, 1)
    assert house.runs(job_id) == []
    house.cli("undrain")
    house.wait_until(job_id, "completed")

    assert house.cli_json("pools")[0]["name"] == "house"
    house.cli("stop", "--wait")
    assert house.wait_exit() == 0
    assert house.cli("health", check=False).returncode == 69


def test_the_stack_of_a_running_job_is_shown(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    worker = house.wait_for_worker_of(house.enqueue("tasks.hold", {"gate": "a"}))
    shown = house.cli("stack", str(worker.slot)).stdout
    assert "in wait_for_gate" in shown
    assert "in run_worker" not in shown
    house.release("a")
