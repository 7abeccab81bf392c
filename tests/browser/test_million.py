"""With a million jobs in the store every page is there within 300 ms, whatever is asked of it."""

import sqlite3
import statistics
import time
from collections.abc import Iterator

import httpx
import pytest

from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.browser.test_doors import sign_in
from tests.web.serving import Api

JOBS = 1_000_000
LIMIT_MS = 300
PATHS = [
    "/", "/ui/queues", "/ui/jobs", "/ui/dead", "/ui/schedule", "/ui/pools", "/ui/jobs?status=pending",
    "/ui/jobs?status=scheduled", "/ui/jobs?status=running", "/ui/jobs?status=completed", "/ui/jobs?status=failed",
    "/ui/jobs?status=cancelled", "/ui/jobs?queue=mail", "/ui/jobs?status=failed&queue=mail",
    "/ui/jobs?status=completed&queue=rare", "/ui/jobs?type=no.such.type", "/ui/jobs?q=nowhere-to-be-found",
    "/ui/jobs?status=completed&q=nowhere-to-be-found", "/ui/jobs?status=failed&q=nowhere-to-be-found",
    "/ui/dead?q=smtp", "/ui/dead?reason=timeout",
]  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    api = Api()
    store = api.store()
    ids = [new_job_id() for _ in range(2000)]
    store.enqueue(
        [NewJob(id=i, type="shop.send_email", queue="mail", payload='{"to": "a@example.org"}') for i in ids[:1000]]
    )
    store.enqueue([NewJob(id=i, type="shop.resize_image", queue="images") for i in ids[1000:]])
    store.enqueue([NewJob(id=new_job_id(), type="shop.rare", queue="rare")])
    store.close()
    multiply(api.folder / "jobs.db")
    yield sign_in(api.start())
    api.close()


def multiply(path: object) -> None:
    """Copies of the stored jobs in all states, the oldest completed, the newest pending; counters to match."""
    with sqlite3.connect(str(path), timeout=60) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(jobs)")]
        changed = {
            "rank": "j.rank + n.n * 10000000 + 1",
            "id": "unhex(printf('0190%08x7%03x8%015x', n.n, j.rank % 4096, j.rank % 1000000007 * 31 + n.n))",
            "status": "CASE WHEN n.n < 250 THEN 3 WHEN n.n < 265 THEN 4 WHEN n.n < 270 THEN 5 WHEN n.n < 280 THEN 0 ELSE 1 END",
            "run_at": "CASE WHEN n.n BETWEEN 270 AND 279 THEN 4000000000.0 + n.n END",
            "finished_at": "CASE WHEN n.n < 270 THEN 1700000000.0 + n.n END",
            "reason": "CASE WHEN n.n BETWEEN 250 AND 264 THEN 'retries_exhausted' END",
            "error": "CASE WHEN n.n BETWEEN 250 AND 264 THEN 'smtp refused message ' || j.rank END",
        }  # fmt: skip
        values = ", ".join(changed.get(name, f"j.{name}") for name in columns)
        db.create_function("unhex", 1, lambda text: bytes.fromhex(text[:32]))
        db.execute("CREATE TEMP TABLE seed AS SELECT * FROM jobs")
        db.execute(
            f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {JOBS // 2000}) "
            f"INSERT OR IGNORE INTO jobs ({', '.join(columns)}) SELECT {values} FROM n, seed j"
        )
        for number, name in enumerate(("scheduled", "pending", "running", "completed", "failed", "cancelled")):
            db.execute(
                f"UPDATE queues SET {name} = (SELECT count(*) FROM jobs WHERE queue = queues.id AND status = {number})"
            )
        (count,) = db.execute("SELECT count(*) FROM jobs").fetchone()
    db.close()
    assert count > 0.99 * JOBS


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", PATHS)
def test_each_page_is_there_within_300_ms(client: httpx.Client, path: str) -> None:
    client.get(path)  # the first look may have to read the disk
    times_ms = []
    for _ in range(5):
        began = time.monotonic()
        answer = client.get(path)
        times_ms.append((time.monotonic() - began) * 1000)
        assert answer.status_code == 200
    print(f"{path}: {statistics.median(times_ms):.0f} ms")
    assert statistics.median(times_ms) < LIMIT_MS


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(600)
def test_a_search_says_how_far_it_came_and_goes_on(client: httpx.Client) -> None:
    text = client.get("/ui/jobs", params={"q": "nowhere-to-be-found"}).text
    assert "Searched 2,000 of " in text
    assert "Search on" in text
