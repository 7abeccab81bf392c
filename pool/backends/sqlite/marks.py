"""The mark of a move on a SQLite store: what it refuses."""

from pool.backends.moving import said_by_mark, warning_of_mark
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import Transaction
from pool.errors import StoreMoved

_SQL = statements("moving.sql")


def refuse_if_moving(tx: Transaction) -> None:
    """StoreMoved for anything new, while the store is moved and after."""
    found = tx.run(_SQL["mark"]).fetchone()
    if found:
        file = tx.run("PRAGMA database_list").fetchone()[2]
        raise StoreMoved(f"sqlite:///{file}", **said_by_mark(found[0]))


def warnings(tx: Transaction) -> list[str]:
    """What a pool on this store should be told."""
    found = tx.run(_SQL["mark"]).fetchone()
    return [warning_of_mark(found[0])] if found else []
