"""The payment of docs/jobs.md, as it stands there, against a bank of our own on loopback."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pool.inline import Record
from pool.jobs.lifecycle import Reason, Status
from pool.testing import inline

DOCS = Path(__file__).parents[2] / "docs" / "jobs.md"


class Bank(BaseHTTPRequestHandler):
    """Answers with what `answers` holds, the last one again and again."""

    answers: ClassVar[list[tuple[int, dict[str, str], dict[str, str]]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def bank_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bank)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def charged(bank_url: str, *answers: tuple[int, dict[str, str], dict[str, str]]) -> Record:
    """What became of a payment when the bank answers so."""
    Bank.answers = list(answers)
    example = re.search(r"```python payment\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example is not None
    scope: dict[str, Any] = {"__name__": "payments", "BANK_URL": bank_url}
    with inline() as jobs:
        exec(example[1], scope)
        scope["charge"].enqueue(order_id="o-1", amount_cents=1990, card_token="tok")
    return jobs.records[0]


def test_a_payment_that_is_taken_keeps_its_receipt(bank_url: str) -> None:
    record = charged(bank_url, (200, {}, {"receipt": "r-9"}))

    assert (record.status, record.result) == (Status.COMPLETED, "r-9")


def test_a_declined_card_is_definitive_and_keeps_the_banks_code(bank_url: str) -> None:
    record = charged(bank_url, (402, {}, {"code": "insufficient_funds"}))

    assert (record.status, record.reason, record.waits) == (Status.FAILED, Reason.FATAL_ERROR, [])
    assert "insufficient_funds" in str(record.error)


def test_a_busy_bank_without_retry_after_is_asked_after_300_900_3600_seconds(bank_url: str) -> None:
    record = charged(bank_url, (429, {}, {}))

    assert record.waits == [300, 900, 3600, 3600]
    assert record.reason is Reason.RETRIES_EXHAUSTED


def test_a_busy_bank_is_given_at_least_the_time_it_asks_for(bank_url: str) -> None:
    record = charged(bank_url, (429, {"Retry-After": "1000"}, {}))

    assert record.waits == [1000, 1000, 3600, 3600]


def test_a_retry_after_that_cannot_be_read_counts_as_300(bank_url: str) -> None:
    record = charged(bank_url, (429, {"Retry-After": "later"}, {}), (200, {}, {"receipt": "r-9"}))

    assert (record.status, record.waits) == (Status.COMPLETED, [300])


@pytest.mark.parametrize("status", [500, 503, 418, 302])
def test_any_other_answer_is_transient(bank_url: str, status: int) -> None:
    record = charged(bank_url, (status, {}, {}), (status, {}, {}), (200, {}, {"receipt": "r-9"}))

    assert (record.status, record.waits) == (Status.COMPLETED, [60, 300])


def test_a_bank_in_trouble_for_long_ends_in_the_dead_letters_after_five_attempts(bank_url: str) -> None:
    record = charged(bank_url, (500, {}, {}))

    assert record.waits == [60, 300, 900, 3600]
    assert (record.status, record.reason, len(record.errors)) == (Status.FAILED, Reason.RETRIES_EXHAUSTED, 5)
