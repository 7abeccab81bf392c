"""Server-sent events: what became of jobs, to those who may know."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from tests.web.serving import Api, ending


def events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and data of each event."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_changes_are_told_as_they_happen_to_their_owner_only(api: Api, queue: str) -> None:
    with (
        api.caller("shop").stream("GET", "/events") as mine,
        api.caller("rival").stream("GET", "/events") as theirs,
        api.caller("root").stream("GET", "/events") as all_of_them,
    ):
        assert mine.headers["content-type"].startswith("text/event-stream")
        stream, other, admin = events(mine), events(theirs), events(all_of_them)
        assert next(named(admin, "queues", lambda lengths: queue not in lengths)) is not None
        job = api.enqueue(queue)
        assert next(of(stream, job["id"]))["status"] == "pending"
        assert next(named(admin, "queues", lambda lengths: lengths.get(queue) == 1))
        claim = api.claim(queue)
        assert next(of(stream, job["id"]))["status"] == "running"
        api.php.post(f"/jobs/{job['id']}/fail", json=ending(claim, error="sensitive", fatal=True))
        told = next(of(stream, job["id"]))
        assert (told["status"], told["reason"]) == ("failed", "fatal_error")
        assert "sensitive" not in json.dumps(told)
        own = api.rival.post("/jobs", json={"type": "thumb", "queue": queue}).json()
        first = next(name_and_job for name_and_job in other if name_and_job[0] == "job")
        assert first[1]["id"] == own["id"], "of the shop's job the rival heard nothing"


def of(stream: Iterator[tuple[str, dict[str, Any]]], job_id: str) -> Iterator[dict[str, Any]]:
    return (data for name, data in stream if name == "job" and data["id"] == job_id)


def named(stream: Iterator[tuple[str, dict[str, Any]]], wanted: str, fits: Any) -> Iterator[dict[str, Any]]:
    return (data for name, data in stream if name == wanted and fits(data))


def test_workers_do_not_listen(sqlite_api: Api) -> None:
    assert sqlite_api.php.get("/events").status_code == 403
    assert sqlite_api.stranger.get("/events").status_code == 401
