"""Departures on disk: as the keeper keeps them while the store is away, and as a supervisor left them that had no keeper."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pool.backends.contract import Departure, Finished
from pool.board.record import Note
from pool.identity import parse_lane
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason
from pool.keeper.departures import departure_of


def to_text(departures: Iterable[Departure]) -> str:
    """What `from_text` reads."""
    return json.dumps([_as_dict(departure) for departure in departures])


def from_text(text: str) -> list[Departure]:
    """ValueError, KeyError, TypeError or AttributeError for what neither of the two wrote."""
    return [_by_note(line) if "note" in line else _from_dict(line) for line in json.loads(text)]


def _as_dict(departure: Departure) -> dict[str, object]:
    cause = departure.cause
    return {
        "worker": str(departure.worker),
        "reason": cause.reason,
        "text": cause.text,
        "stack": cause.stack,
        "signal": cause.signal,
        "exit_code": cause.exit_code,
        "started": departure.started,
        "started_jobs": departure.started_jobs,
        "finished": {lane: asdict(finished) for lane, finished in departure.finished.items()},
        "bar": departure.bar,
    }


def _from_dict(line: dict[str, Any]) -> Departure:
    cause = Cause(
        reason=Reason(line["reason"]),
        text=line["text"],
        stack=line.get("stack"),
        signal=line["signal"],
        exit_code=line["exit_code"],
    )
    return Departure(
        worker=parse_lane(line["worker"]).worker,
        cause=cause,
        started=None if line["started"] is None else _by_lane(line["started"]),
        started_jobs=_by_lane(line.get("started_jobs", {})),
        finished=_finished(line),
        bar=bool(line["bar"]),
    )


def _by_note(line: dict[str, Any]) -> Departure:
    """`pool.supervisor.bequest` wrote it: the note as it stood on the board."""
    worker, note = parse_lane(line["worker"]).worker, Note(*line["note"])
    started, jobs = _by_lane(line["started"]), _by_lane(line["started_jobs"])
    return departure_of(worker, note, line["stack"], started, jobs, _finished(line))


def _finished(line: dict[str, Any]) -> dict[int, Finished]:
    return {lane: Finished(**fields) for lane, fields in _by_lane(line.get("finished", {})).items()}


def _by_lane(fields: dict[str, Any]) -> dict[int, Any]:
    """JSON has made texts of the lanes' numbers."""
    return {int(lane): value for lane, value in fields.items()}
