"""Results that could not be handed in before the end: kept in the state directory, settled at the next start, fenced.

A folder for each store: what was meant for one must not be offered to another, which would refuse it for good.

Each is a file of its own, written whole or not at all. Replaying is harmless however often and by whomever: the
request number makes it one step, the claim number refuses it when the job has moved on.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pool.backends.contract import Work
from pool.backends.opening import mask_url
from pool.durable import make_folder, write_whole
from pool.errors import BackendUnavailable, JobpoolError
from pool.identity import LaneId, parse_lane
from pool.jobs.job import Cause, NewJob, Outcome, Settlement
from pool.jobs.lifecycle import Reason
from pool.logs import log

FOLDER = "spool"


def folder_of(state_dir: Path, store_url: str, namespace: str) -> Path:
    """Where results for this store are kept. A new password in the URL leads to the same place."""
    name = f"{mask_url(store_url)} {namespace}"
    return state_dir / FOLDER / hashlib.sha256(name.encode()).hexdigest()[:16]


def departures_in(folder: Path) -> Path:
    """Where, below it, the deaths are kept that the store could not be told of."""
    return folder / "departures"


@dataclass(frozen=True, slots=True)
class Kept:
    """One settlement on disk, with the request it was sent under."""

    lane: LaneId
    request: int
    settlement: Settlement


def keep(folder: Path, lane: LaneId, request: int, settlement: Settlement) -> Path:
    """Write it durably; OSError when the disk refuses."""
    make_folder(folder)
    path = folder / f"{settlement.job_id}.{settlement.claim}.json"
    write_whole(path, json.dumps({"lane": str(lane), "request": request, "settlement": asdict(settlement)}))
    return path


def replay(store: Work, folder: Path) -> int:
    """Hand in everything kept; BackendUnavailable leaves the rest for later. How many were accepted."""
    accepted = 0
    for path in _kept_files(folder):
        kept = _read(path)
        if kept is not None:
            accepted += _hand_in(store, kept)
            _remove(path)
    return accepted


def _hand_in(store: Work, kept: Kept) -> bool:
    try:
        settled = store.exchange(kept.lane, kept.request, settlement=kept.settlement).settled
    except BackendUnavailable:
        raise
    except JobpoolError as error:
        log.warning("kept result refused", job=kept.settlement.job_id, error=str(error))
        return False
    log.info("kept result handed in", job=kept.settlement.job_id, accepted=bool(settled))
    return bool(settled)


def _kept_files(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  # a pattern would cost each worker 300 KB, mostly for nothing
    except OSError:
        return
    yield from (folder / name for name in names if name.endswith(".json"))


def _read(path: Path) -> Kept | None:
    """None for a file that another process has just replayed, or that is not ours (it is set aside).

    One that the disk does not give us must not keep the others, or the departures behind them, from the store.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Kept(parse_lane(fields["lane"]), int(fields["request"]), _settlement(fields["settlement"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        log.error("kept result cannot be read; set aside", file=str(path), error=str(error))
        path.replace(path.with_suffix(".unreadable"))
        return None
    except OSError as error:
        log.limited("spool", "kept result cannot be read", file=str(path), error=str(error))
        return None


def _remove(path: Path) -> None:
    """What stays is handed in again at the next start, and refused."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.limited("spool", "kept result cannot be removed", file=str(path), error=str(error))


def _settlement(fields: dict[str, Any]) -> Settlement:
    return Settlement(
        **fields
        | {
            "outcome": Outcome(fields["outcome"]),
            "reason": fields["reason"] and Reason(fields["reason"]),
            "cause": fields["cause"] and _cause(fields["cause"]),
            "children": tuple(_new_job(child) for child in fields["children"]),
        }
    )


def _cause(fields: dict[str, Any]) -> Cause:
    return Cause(**fields | {"reason": fields["reason"] and Reason(fields["reason"])})


def _new_job(fields: dict[str, Any]) -> NewJob:
    after = {name: fields[name] and _new_job(fields[name]) for name in ("on_success", "on_failure")}
    return NewJob(**fields | after)
