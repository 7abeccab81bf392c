"""A report at most once, and the mail that carries it: in the store in the same step in which the report is done."""

import csv
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

from mail import send_email
from PIL import Image, ImageDraw

import pool

SHOP = os.environ.get("SHOP_DB", "shop.db")
FOLDER = Path(os.environ.get("REPORTS", "."))
Row = tuple[str, int, float]


@pool.job(queue="reports", max_retries=0, timeout=600)
def monthly_report(month: str, to: str, form: Literal["csv", "pdf"] = "csv") -> str:
    """Write the report of a month such as 2026-04 and mail it; the file's path.

    `max_retries = 0`: it is started once, whatever happens. A report that broke off is a dead letter; a person decides.
    The mail is enqueued with the completion, so there is no report without its mail and no mail without its report.
    """
    rows = revenue_by_customer(month)
    file = FOLDER / f"revenue-{month}.{form}"
    write_csv(file, rows) if form == "csv" else write_pdf(file, month, rows)
    pool.current().enqueue(
        send_email, to=to, subject=f"Revenue of {month}", body=f"{len(rows)} customers.", attachment=str(file)
    )
    return str(file)


def revenue_by_customer(month: str) -> list[Row]:
    with closing(sqlite3.connect(f"file:{SHOP}?mode=ro", uri=True)) as shop:
        query = "SELECT customer, count(*), sum(cents) / 100.0 FROM orders WHERE day LIKE ? || '-%' GROUP BY customer ORDER BY 3 DESC"
        return shop.execute(query, (month,)).fetchall()


def write_csv(file: Path, rows: list[Row]) -> None:
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("customer", "orders", "revenue"), *rows])


def write_pdf(file: Path, month: str, rows: list[Row]) -> None:
    page = Image.new("RGB", (1240, 1754), "white")  # A4 at 150 dpi
    draw = ImageDraw.Draw(page)
    draw.text((100, 100), f"Revenue of {month}", fill="black", font_size=40)
    for line, (customer, orders, revenue) in enumerate(rows):
        draw.text((100, 200 + 40 * line), f"{customer}: {orders} orders, {revenue:.2f}", fill="black", font_size=24)
    page.save(file, "PDF", resolution=150)
