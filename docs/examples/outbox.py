"""Enqueueing with the application's own transaction: the order and its mail are both there, or neither.

The application writes the job into a table of its own database, in its own transaction. A job of jobpool carries it over.
Any database will do; here it is SQLite.
"""

import json
import os
import sqlite3
from contextlib import closing

from mail import send_email

import pool

SHOP = os.environ.get("SHOP_DB", "shop.db")
TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, day TEXT, customer TEXT, cents INTEGER);
CREATE TABLE IF NOT EXISTS outbox (id TEXT PRIMARY KEY, type TEXT, payload TEXT);
"""
AT_ONCE = 500


def place_order(shop: sqlite3.Connection, day: str, customer: str, cents: int) -> int:
    """What the web application does: one transaction, nothing else."""
    with shop:
        order = shop.execute(
            "INSERT INTO orders (day, customer, cents) VALUES (?, ?, ?)", (day, customer, cents)
        ).lastrowid
        leave_in_outbox(shop, send_email.draft(to=customer, subject=f"Order {order}", body="Thank you."))
    return int(order or 0)


def leave_in_outbox(shop: sqlite3.Connection, job: pool.NewJob) -> None:
    """`draft` has checked it: what lies in the outbox can be enqueued, so no bad row can hold up the others."""
    shop.execute("INSERT INTO outbox VALUES (?, ?, ?)", (job.id, job.type, job.payload))


@pool.job(queue="outbox", priority="critical", unique_key="relay_outbox", max_retries=5, backoff=[1, 5, 30])
def relay_outbox() -> int:
    """Carry over what lies in the outbox; how many. Fired each second by [[schedule]], one at a time (`unique_key`).

    Killed between the enqueue and the delete, it finds the same rows again. The row's id is the idempotency key, so the
    store answers with the first job and makes no second one.
    """
    carried, query = 0, "SELECT id, type, payload FROM outbox ORDER BY rowid LIMIT ?"
    with closing(sqlite3.connect(SHOP)) as shop:
        while rows := shop.execute(query, (AT_ONCE,)).fetchall():
            pool.default_client().enqueue_many(
                (kind, json.loads(payload), {"idempotency_key": key}) for key, kind, payload in rows
            )
            with shop:
                shop.executemany("DELETE FROM outbox WHERE id = ?", [(key,) for key, *_ in rows])
            carried += len(rows)
    return carried
