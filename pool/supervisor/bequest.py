"""What the supervisor leaves behind: deaths that no keeper lived to tell the store, on disk for the next start's keeper.

Written as the very last act, when no child needs us any more: here, and nowhere else, the supervisor may wait for a disk.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from pool.durable import make_folder, write_whole
from pool.identity import PoolId, WorkerId
from pool.logs import log
from pool.supervisor.children import Child


def bequeath(folder: Path | None, pool: PoolId, dead: Sequence[Child]) -> int:
    """Write these deaths down, whole or not at all; how many. A disk that refuses costs time, not jobs: the lease is left."""
    if folder is None or not dead:
        return 0
    file = folder / f"{pool}.supervisor.json"
    try:
        make_folder(folder)
        write_whole(file, json.dumps([_as_line(pool, child) for child in dead]))
    except OSError as error:
        log.error("deaths could not be kept on disk; their jobs come back when the lease ends", why=str(error))
        return 0
    log.warning("deaths kept on disk for the next start", count=len(dead), file=str(file))
    return len(dead)


def _as_line(pool: PoolId, child: Child) -> dict[str, object]:
    """As the keeper would have read it from the board; `pool.keeper.kept` reads it back."""
    record = child.record
    return {
        "worker": str(WorkerId(pool, child.slot, child.generation)),
        "note": list(record.note.read()),
        "stack": record.stack.read().text,
        "started": record.started_claims(),
        "started_jobs": record.started_jobs(),
        "finished": {
            number: {
                "job_id": lane.job_id,
                "claim": lane.claim,
                "started_at": ending.started_at,
                "result": ending.result,
            }
            for number, (lane, ending) in record.endings().items()
        },
    }
