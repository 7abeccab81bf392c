"""The examples, each in a real pool and against the real thing."""

import base64
import os
import re
import select
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.docs.pages import ROOT
from tests.docs.smtp import Post, post_office
from tests.helpers.house import House
from tests.helpers.until import until
from tests.rules.test_payment_example import Bank, bank_url

__all__ = ["bank_url"]

EXAMPLES = ROOT / "docs" / "examples"
OpenHouse = Callable[..., House]
Street = tuple[House, Post]


@pytest.fixture
def post() -> Iterator[Post]:
    with post_office() as office:
        yield office


@pytest.fixture
def street(open_house: OpenHouse, post: Post, tmp_path: Path) -> House:
    """A pool with the examples mail, images, report and outbox; its own shop database."""
    shop = tmp_path / "shop.db"
    with closing(sqlite3.connect(shop)) as made, made:
        made.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, day TEXT, customer TEXT, cents INTEGER)")
        made.execute("CREATE TABLE outbox (id TEXT PRIMARY KEY, type TEXT, payload TEXT)")
        orders = [
            ("2026-04-01", "Ann", 1000),
            ("2026-04-30", "Ann", 2000),
            ("2026-04-02", "Bob", 500),
            ("2026-05-01", "Bob", 9),
        ]
        made.executemany("INSERT INTO orders (day, customer, cents) VALUES (?, ?, ?)", orders)
    environ = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(post.port), "SHOP_DB": str(shop), "REPORTS": str(tmp_path)}
    names = ("mail", "images", "report", "outbox")
    house: House = open_house(app=f"import {', '.join(names)}", workers=2, environ=environ, start=False)
    for name in names:
        house.write_module(name, (EXAMPLES / f"{name}.py").read_text())
    return house.start()


# ---------------------------------------------------------------- mail


def test_mail_is_delivered_refused_for_good_or_tried_again(street: House, post: Post) -> None:
    post.refusals = {"gone@example.org": ["550 no such mailbox"], "busy@example.org": ["451 greylisted"]}
    well, gone, busy = (
        street.enqueue("mail.send_email", {"to": f"{who}@example.org", "subject": "Grüße", "body": "Hallo"})
        for who in ("well", "gone", "busy")
    )

    sent = street.wait_until(well, "completed")
    refused = street.wait_until(gone, "failed")
    waiting = until(lambda: (job := street.job(busy)).retry_count and job, "a retry")

    assert [(mail["To"], mail["Message-ID"]) for mail in post.received] == [
        ("well@example.org", f"<{well}@example.org>")
    ]
    assert sent.result == f'"<{well}@example.org>"'
    assert (refused.reason, refused.error) == ("fatal_error", "550 no such mailbox")
    assert (waiting.status, waiting.retry_count) == ("scheduled", 1)
    assert 55 < waiting.run_at - waiting.updated_at < 65


# ---------------------------------------------------------------- pictures


def photograph(file: Path, size: tuple[int, int] = (800, 600)) -> Path:
    Image.radial_gradient("L").resize(size).convert("RGB").save(file, "JPEG")
    return file


def test_a_picture_becomes_small_and_what_is_none_becomes_a_dead_letter(street: House, tmp_path: Path) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("not a picture")
    job = street.enqueue(
        "images.thumbnail", {"source": str(photograph(tmp_path / "a.jpg")), "target": str(tmp_path / "s.jpg")}
    )
    bad = street.enqueue("images.thumbnail", {"source": str(text), "target": str(tmp_path / "t.jpg")})

    assert street.wait_until(job, "completed").result == "[320,240]"
    with Image.open(tmp_path / "s.jpg") as small:
        assert (small.size, small.format) == ((320, 240), "JPEG")
    assert street.wait_until(bad, "failed").exception == "PIL.UnidentifiedImageError"
    assert not (tmp_path / "t.jpg").exists()


def test_a_folder_of_pictures_goes_on_where_its_worker_was_killed(street: House, tmp_path: Path) -> None:
    album, small = tmp_path / "album", tmp_path / "small"
    album.mkdir(), small.mkdir()
    for number in range(4):
        photograph(album / f"{number}.jpg")
    slow = album / "2.jpg"
    slow.unlink()
    os.mkfifo(slow)  # who reads it waits, as on a network disk that hangs
    job = street.enqueue("images.thumbnails", {"folder": str(album), "target": str(small)})
    disk = until(lambda: open_to_write(slow), "the third picture being read")
    first_written = (small / "0.jpg").stat().st_mtime_ns

    killed = next(worker for worker in street.workers() if job in worker.jobs)
    whole = tmp_path / "whole.jpg"
    photograph(whole)
    whole.replace(slow)  # before the kill: the job runs again within milliseconds
    street.kill(killed.pid)
    os.close(disk)

    assert street.wait_until(job, "completed").result == "4"
    assert sorted(file.name for file in small.iterdir()) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert (small / "0.jpg").stat().st_mtime_ns == first_written


def open_to_write(fifo: Path) -> int | None:
    """Its descriptor, once someone reads it."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


# ---------------------------------------------------------------- report


@pytest.mark.parametrize(
    ("form", "begins"), [("csv", b"customer,orders,revenue\r\nAnn,2,30.0\r\nBob,1,5.0"), ("pdf", b"%PDF")]
)
def test_a_report_is_written_once_and_mailed_once(street: House, post: Post, form: str, begins: bytes) -> None:
    job = street.enqueue("report.monthly_report", {"month": "2026-04", "to": "boss@example.org", "form": form})

    street.wait_until(job, "completed")
    mail = until(lambda: post.received and post.received[0], "the mail")

    parts = {part.get_content_disposition(): part for part in mail.walk()}
    assert (mail["To"], mail["Subject"]) == ("boss@example.org", "Revenue of 2026-04")
    assert parts["attachment"].get_filename() == f"revenue-2026-04.{form}"
    assert base64.b64decode(parts["attachment"].get_payload()).startswith(begins) or form == "csv"
    assert (Path(street._environ["REPORTS"]) / f"revenue-2026-04.{form}").read_bytes().startswith(begins)


def test_a_report_whose_worker_is_killed_is_never_started_again_and_mails_nothing(street: House, post: Post) -> None:
    file = Path(street._environ["REPORTS"]) / "revenue-2026-04.csv"
    os.mkfifo(file)  # takes 64 KiB, then its writer waits
    with closing(sqlite3.connect(street._environ["SHOP_DB"])) as shop, shop:
        shop.executemany(
            "INSERT INTO orders (day, customer) VALUES ('2026-04-03', ?)", [(f"Customer {n}",) for n in range(9000)]
        )
    disk = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    job = street.enqueue("report.monthly_report", {"month": "2026-04", "to": "boss@example.org"})
    until(lambda: select.select([disk], [], [], 0)[0], "the report being written")
    worker = next(w for w in street.workers() if job in w.jobs)

    street.kill(worker.pid)

    assert street.wait_until(job, "failed").reason == "worker_lost"
    later = street.enqueue("mail.send_email", {"to": "x@example.org", "subject": "later", "body": ""})
    street.wait_until(later, "completed")
    assert [mail["Subject"] for mail in post.received] == ["later"]
    os.close(disk)


# ---------------------------------------------------------------- payment


def test_a_payment_in_a_pool_meets_a_bank_that_takes_declines_and_is_busy(open_house: OpenHouse, bank_url: str) -> None:
    policy = re.search(r"```python payment\n(.*?)```", (ROOT / "docs/jobs.md").read_text(), re.DOTALL)
    assert policy is not None
    house = open_house(app=f"BANK_URL = {bank_url!r}\n{policy[1]}", workers=1)
    payload: dict[str, Any] = {"order_id": "o-1", "amount_cents": 1990, "card_token": "tok_secret"}

    def charge(*answers: tuple[int, dict[str, str], dict[str, str]]) -> str:
        Bank.answers = list(answers)
        return house.enqueue("payments.charge", payload)

    assert house.wait_until(charge((200, {}, {"receipt": "r-9"})), "completed").result == '"r-9"'
    declined = house.wait_until(charge((402, {}, {"code": "insufficient_funds"})), "failed")
    assert (declined.reason, declined.error) == ("fatal_error", "insufficient_funds")
    busy = charge((429, {"Retry-After": "1000"}, {}))
    waiting = until(lambda: (job := house.job(busy)).status == "scheduled" and job, "a wait")
    assert 990 < waiting.run_at - waiting.updated_at < 1010
    assert "tok_secret" not in house.cli("jobs", "show", busy).stdout


# ---------------------------------------------------------------- outbox


def test_an_order_and_its_mail_are_both_there_or_neither(
    street: House, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(street.folder / "app"))
    import outbox  # type: ignore[import-not-found]

    shop = sqlite3.connect(street._environ["SHOP_DB"])
    outbox.place_order(shop, "2026-04-30", "kept@example.org", 1990)
    with pytest.raises(RuntimeError, match="broke off"), shop:
        shop.execute("INSERT INTO orders (customer) VALUES ('lost')")
        outbox.leave_in_outbox(shop, outbox.send_email.draft("lost@example.org", "never", ""))
        raise RuntimeError("the request broke off")
    left = shop.execute("SELECT * FROM outbox").fetchall()
    assert len(left) == 1

    assert street.wait_until(street.enqueue("outbox.relay_outbox"), "completed").result == "1"
    until(lambda: post.received, "the mail")
    with shop:  # as if the relay had been killed before it could delete the row
        shop.executemany("INSERT INTO outbox VALUES (?, ?, ?)", left)
    assert street.wait_until(street.enqueue("outbox.relay_outbox"), "completed").result == "1"

    only_one = {"pending": 0, "scheduled": 0, "running": 0, "completed": 1, "failed": 0}
    until(lambda: street.counts("mail") == only_one, "one mail, done")  # it is sent before it is done
    assert [mail["To"] for mail in post.received] == ["kept@example.org"]
    assert shop.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    shop.close()
