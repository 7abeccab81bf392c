"""The pool in one line, for `systemctl status` and process titles."""

from collections import Counter

from pool.supervisor.control import Controlled
from pool.supervisor.report import state_word

LONGEST = 200


def headline(pool: Controlled) -> str:
    """`ready: 8 workers, 3 busy` and, where there is one, the trouble or the failed reload."""
    counts = Counter(
        state_word(slot.child) if slot.child is not None else "missing" for slot in pool.children.workers()
    )
    parts = [f"{pool.state()}: {counts.total()} workers", f"{counts['busy']} busy"]
    parts += [f"{counts[word]} {word}" for word in ("booting", "retiring", "missing") if counts[word]]
    text = ", ".join(parts) + "".join(f"; {trouble}" for trouble in _troubles(pool))
    return " ".join(text[:LONGEST].split())


def _troubles(pool: Controlled) -> list[str]:
    reload = pool.last_reload
    failed = [f"reload failed, the old configuration stays: {reload.error}"] if reload and not reload.ok else []
    return failed + pool.problems()[:1]
