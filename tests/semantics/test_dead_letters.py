"""Dead letters by failure, filter, rate and edited payload; what people do is written down (points 2 and 17)."""

import json

from pool.clock import monotonic_now
from pool.jobs.lifecycle import Reason
from tests.helpers.house import House


def test_dead_letters_are_grouped_by_failure_and_retried_as_a_group_at_a_rate(house: House) -> None:
    ids = [house.enqueue("tasks.broken", {"order": number}, queue="dead") for number in (17, 4711, 230_000)]
    for job_id in ids:
        house.wait_until(job_id, "failed")
    (family,) = house.cli_json("dead", "groups", "--queue", "dead")
    assert (family["count"], family["type"], family["reason"]) == (3, "tasks.broken", "retries_exhausted")
    assert family["shape"] == "order <n> of customer <text> is broken"
    chosen = ("--group", family["fingerprint"], "--older-than", "0s")

    dry = house.cli_json("dead", "retry", *chosen, "--dry-run")
    assert (sorted(dry["retried"]), dry["dry_run"]) == (sorted(ids), True)
    assert all(len(house.runs(job_id)) == 1 for job_id in ids)

    began = monotonic_now()
    assert sorted(house.cli_json("dead", "retry", *chosen, "--rate", "4")["retried"]) == sorted(ids)
    assert monotonic_now() - began > 0.5
    for job_id in ids:
        house.wait_for(lambda job_id=job_id: len(house.runs(job_id)) == 2, "the second run")
        house.wait_until(job_id, "failed")
    assert house.cli_json("dead", "list", *chosen, "--newer-than", "1h", "--text", "4711")[0]["id"] == ids[1]
    house.cli("dead", "discard", *chosen)
    assert {house.job(job_id).reason for job_id in ids} == {Reason.DISCARDED}


def test_an_edited_payload_is_checked_retried_and_kept_in_the_history(house: House) -> None:
    job_id = house.enqueue("tasks.picky", {"amount": -5})
    house.wait_until(job_id, "failed")
    refused = house.cli("dead", "retry", job_id, "--payload", '{"amount": "many"}', check=False)
    assert refused.returncode == 1 and "amount" in refused.stderr
    house.cli("dead", "retry", job_id, "--payload", "-", input='{"amount": 5}')
    job = house.wait_until(job_id, "completed")
    assert json.loads(job.payload) == {"amount": 5}
    assert [attempt.number for attempt in job.attempts] == [1, 0, 1]
    assert "@" in job.attempts[1].worker


def test_bulk_acts_take_filters_and_every_act_is_in_the_audit_log(house: House) -> None:
    ids = [house.enqueue("tasks.quick", {"n": n}, queue="bulk", delay=3600) for n in range(4)]
    kept = house.enqueue("tasks.hold", {"gate": "never"}, queue="bulk", delay=3600)
    chosen = ("--queue", "bulk", "--type", "tasks.quick", "--status", "scheduled")
    assert sorted(house.cli_json("jobs", "cancel", *chosen, "--dry-run")["cancelled"]) == sorted(ids)
    assert house.job(ids[0]).status == "scheduled"
    house.cli("jobs", "cancel", *chosen)
    assert [house.job(job_id).status for job_id in (*ids, kept)] == ["cancelled"] * 4 + ["scheduled"]
    house.cli("jobs", "retry", "--queue", "bulk", "--reason", "cancelled", "--older-than", "0")
    for job_id in ids:
        house.wait_until(job_id, "completed")
    assert house.cli("jobs", "cancel", check=False).returncode == 2
    house.cli("jobs", "cancel", kept)

    house.cli("scale", "4")
    entries = house.cli_json("audit")
    assert (entries[0]["act"], entries[0]["details"]) == ("scale", {"count": 4})
    mine = [entry for entry in entries if "bulk" in str(entry["details"]) or kept in str(entry["details"])]
    assert [entry["act"] for entry in mine] == ["jobs cancel", "jobs retry", "jobs cancel"]
    assert all("@" in entry["who"] and entry["at"].endswith("Z") for entry in mine)
    assert mine[-1]["details"] == {"filters": {"type": "tasks.quick", "queue": "bulk"}, "matching": 4}


def test_a_purge_takes_filters_too(house: House) -> None:
    gone = [house.enqueue("tasks.quick", queue="attic", delay=3600) for _ in range(3)]
    kept = house.enqueue("tasks.hold", {"gate": "never"}, queue="attic", delay=3600)
    assert house.cli_json("purge", "attic", "--type", "tasks.quick", "--dry-run")["matching"] == 3
    assert house.cli_json("purge", "attic", "--type", "tasks.quick", "--yes")["removed"] == 3
    assert {job["id"] for job in house.cli_json("jobs", "list", "--queue", "attic")} == {kept}
    assert gone
    house.cli("purge", "attic", "--yes")
    assert house.counts("attic")["scheduled"] == 0
