"""Jobs whose ring is lost on the way to the workers."""

import time
from typing import Any

from pool.backends.contract import Backend
from tests.helpers.builders import put


def put_unheard(store: Backend, **fields: Any) -> str:
    """Enqueue a job whose ring is lost."""
    if store.kind == "sqlite":
        bells = store._store.bells  # type: ignore[attr-defined]
        bells.ring, ring = (lambda rings: None), bells.ring
        try:
            return put(store, **fields)
        finally:
            bells.ring = ring
    run, key = store._session.command, f"{store._keys.root}bells"  # type: ignore[attr-defined]
    classes = run("ZRANGE", key, 0, -1)
    run("DEL", key)
    job = put(store, **fields)
    for worker_class in classes:
        run("ZADD", key, time.time(), worker_class)
    return job
