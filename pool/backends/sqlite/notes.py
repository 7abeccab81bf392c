"""What a store remembers beside its jobs: ageing, settings that all pools share, and the audit log."""

from pool.backends.contract import AuditEntry
from pool.backends.sqlite import rows
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import Transaction
from pool.jobs.priority import HIGHEST, LOWEST, POINTS_PER_AGEING

_SQL = statements("notes.sql")
KEPT_ENTRIES = 100_000


def set_ageing(tx: Transaction, seconds: float) -> None:
    """Remember it with each queue, where the claim finds it in what it reads anyway. Nothing is re-ranked: ranks are
    times, and the priority is weighed against them at the claim."""
    grain = round(seconds * rows.MICROSECONDS / POINTS_PER_AGEING)
    set_setting(tx, "ageing", repr(float(seconds)))
    for name in tx.all(_SQL["age queues"], (grain, grain)):
        for priority in range(LOWEST, HIGHEST + 1):
            tx.ring(name[0], priority)


def ageing(tx: Transaction) -> float:
    return float(setting(tx, "ageing") or 0.0)


def set_setting(tx: Transaction, name: str, value: str) -> None:
    tx.run(_SQL["set setting"], (name, value))


def setting(tx: Transaction, name: str) -> str | None:
    row = tx.run(_SQL["setting"], (name,)).fetchone()
    return row and row[0]  # type: ignore[no-any-return]


def note(tx: Transaction, entry: AuditEntry) -> None:
    """Append; of more than a hundred thousand the oldest go."""
    number = tx.run(_SQL["note"], (tx.now, entry.who, entry.act, entry.details)).fetchone()[0]
    tx.run(_SQL["forget notes"], (number - KEPT_ENTRIES,))


def audit(tx: Transaction, limit: int) -> list[AuditEntry]:
    return [
        AuditEntry(at=at, who=who, act=act, details=details)
        for at, who, act, details in tx.all(_SQL["audit"], (limit,))
    ]
