"""The fragments of the pages, run for real: SQLAlchemy, Django, Sentry and OpenTelemetry in a pool, RQ and Celery on a Redis.

A fragment takes names from its reader's program. `BEFORE` has that program's beginning, the tests the rest of it.
"""

import gzip
import json
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import redis

from tests.docs.desk import Desk
from tests.docs.pages import ROOT, Block, blocks_of
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, running
from tests.helpers.until import until

BEFORE = {
    "create_engine": """
import contextvars, os
import pool
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

current_session = contextvars.ContextVar("current_session")
""",
    "django": """
import django, django.db
import pool
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}})
django.setup()
""",
    "sentry_sdk": "import os\nimport pool\nimport sentry_sdk\n",
    "TracerProvider": """
import pool
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
""",
}
ORDERS = """

@pool.job(max_retries=0)
def place_order(number: int, fails: bool = False) -> None:
    current_session.get().execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
    if fails:
        raise ValueError("out of stock")


@pool.on_worker_stop
def look_at_the_engine():
    print("CONNECTIONS LEFT", engine.pool.checkedin(), flush=True)
"""
REQUESTS = """

@pool.job
def look(number: int) -> bool:
    was_open = django.db.connection.connection is not None
    with django.db.connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return was_open
"""
FAILING = """

@pool.job(max_retries=0)
def fail() -> None:
    raise ValueError("no such cat")
"""
TRACED = """

@pool.job
def traced() -> None: ...
"""


def fragment(page: str, word: str) -> Block:
    """The page's fragment in which this word stands."""
    (found,) = (b for b in blocks_of(ROOT / page) if "fragment" in b.tags and b.language == "python" and word in b.text)
    return found


def module(desk: Desk, word: str, rest: str) -> None:
    """tasks.py: the reader's imports, the page's fragment, and jobs to try it with."""
    (desk.folder / "tasks.py").write_text(BEFORE[word] + fragment("docs/jobs.md", word).text + rest)


def enqueue(desk: Desk, *lines: str) -> None:
    desk.environ["JOBPOOL_BACKEND__URL"] = f"sqlite:///{desk.folder}/jobs.db"
    desk.run([sys.executable, "-c", "import tasks\n" + "\n".join(lines)])


def work(desk: Desk) -> str:
    """A worker does what there is and leaves; what it printed."""
    said = desk.run(["jobpool", "start", "--burst", "--workers", "1", "--app", "tasks"])
    return said


def results(desk: Desk) -> dict[str, tuple[str, object]]:
    listing = json.loads(desk.run(["jobpool", "jobs", "list", "--json"]))
    return {json.dumps(job["payload"]): (job["status"], job["result"]) for job in listing}


def test_with_sqlalchemy_a_job_is_one_transaction_and_the_engine_is_closed_with_its_worker(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.folder / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (number INTEGER)")
        desk.environ["DATABASE_URL"] = f"sqlite:///{desk.folder}/shop.db"
        module(desk, "create_engine", ORDERS)
        enqueue(desk, "tasks.place_order.enqueue(1)", "tasks.place_order.enqueue(2, fails=True)")

        said = work(desk)

        assert sorted(status for status, _ in results(desk).values()) == ["completed", "failed"]
        assert shop.execute("SELECT number FROM orders").fetchall() == [(1,)]
        assert "CONNECTIONS LEFT 0" in said, said


def test_with_django_a_connection_lives_as_long_as_a_job(desk: Desk) -> None:
    module(desk, "django", REQUESTS)
    enqueue(desk, "tasks.look.enqueue(1)", "tasks.look.enqueue(2)")

    work(desk)

    assert set(results(desk).values()) == {("completed", False)}


# ---------------------------------------------------------------- what listens for reports


class Ear(ThreadingHTTPServer):
    """Takes whatever is posted to it, on loopback; `heard` are paths and bodies, unpacked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Listening)
        self.heard: list[tuple[str, bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Listening(BaseHTTPRequestHandler):
    server: Ear

    def do_POST(self) -> None:
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = self._chunks() if chunked else self.rfile.read(int(self.headers["Content-Length"]))
        unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(
            self.headers.get("Content-Encoding", ""), bytes
        )
        self.server.heard.append((self.path, unpack(body)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ear() -> Iterator[Ear]:
    with Ear() as ear:
        thread = Thread(target=ear.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield ear
        ear.shutdown()
        thread.join()


def test_sentry_hears_of_a_job_that_is_given_up(desk: Desk, ear: Ear) -> None:
    desk.environ["SENTRY_DSN"] = f"http://key@{ear.address}/1"
    module(desk, "sentry_sdk", FAILING)
    enqueue(desk, "tasks.fail.enqueue()")

    work(desk)

    until(lambda: any(path.startswith("/api/1/") and b"no such cat" in body for path, body in ear.heard), "the report")


def test_a_collector_of_opentelemetry_gets_a_span_for_each_job(desk: Desk, ear: Ear) -> None:
    desk.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://{ear.address}"
    module(desk, "TracerProvider", TRACED)
    enqueue(desk, "tasks.traced.enqueue()")

    work(desk)

    until(lambda: any(path == "/v1/traces" and b"tasks.traced" in body for path, body in ear.heard), "the span")


# ---------------------------------------------------------------- the code of the others


@pytest.fixture
def server() -> Iterator[Server]:
    with running(DEFAULT_FLAVOUR) as server:
        yield server


def test_the_code_for_rq_is_code_that_rq_takes(desk: Desk, server: Server) -> None:
    theirs = fragment("docs/migrating.md", "from rq").text.replace("Redis()", f"Redis(port={server.port})")
    (desk.folder / "mail.py").write_text("def send_email(to, subject):\n    return subject\n")
    after = "\nassert queue.count == 1 and queue.scheduled_job_registry.count == 1, queue.jobs\n"

    desk.run([sys.executable, "-c", f"from datetime import timedelta\nfrom mail import send_email\n{theirs}{after}"])


def test_the_code_for_celery_is_code_that_celery_takes(desk: Desk, server: Server) -> None:
    theirs = fragment("docs/migrating.md", "from celery").text
    (desk.folder / "shop.py").write_text(theirs.replace("redis://localhost", server.url.rpartition("/")[0]))
    desk.run([sys.executable, "-c", "import shop"])

    with closing(redis.Redis(port=server.port)) as client:
        waiting = sum(client.llen(key) for key in client.keys("*") if client.type(key) == b"list")

    assert waiting == 5  # one for later, the first of the chain, three of the chord


def test_every_fragment_of_the_pages_is_tried_here() -> None:
    words = {
        "docs/jobs.md": ("create_engine", "django", "sentry_sdk", "TracerProvider"),
        "docs/migrating.md": ("from rq", "from celery"),
    }
    for page, said in words.items():
        tried = {fragment(page, word).where for word in said}
        assert tried == {block.where for block in blocks_of(ROOT / page) if "fragment" in block.tags}
