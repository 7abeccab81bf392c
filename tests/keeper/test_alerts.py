"""Alerts: what is told, how often, and that it arrives; with made-up facts, and from a real pool."""

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pool.keeper.alert_post import ask_status, post, run_command
from pool.keeper.alerts import Alert, Facts, Judge, Watch, alert_document
from pool.metrics import metrics_text
from pool.settings import AlertSection
from pool.supervisor.report import Moment, status_document
from tests.helpers.house import House, open_house
from tests.helpers.pools import StillPool, queue, workers
from tests.helpers.until import until

__all__ = ["open_house"]
RULES = Path(__file__).parents[2] / "systemd" / "jobpool-alerts.yml"


def section(on: str, **keys: Any) -> AlertSection:
    return AlertSection.model_validate({"on": on, "command": ["true"], "every": 900, **keys})


def told(watch: Watch, history: list[tuple[float, str]]) -> list[tuple[float, bool]]:
    """When it spoke, and whether of something wrong, over a history of (second, what is wrong)."""
    alerts = [(now, watch.judge(sentence, now)) for now, sentence in history]
    return [(now, alert.firing) for now, alert in alerts if alert is not None]


def status(**more: Any) -> dict[str, Any]:
    return {
        "pool": {"state": "ready", "problems": [], "last_reload": None},
        "backend": {"ok": True, "url": "redis://h", "error": None, "checked_at": "2026-01-01T00:00:00Z"},
        "queues": [],
        "totals": {"completed": 0, "failed": 0},
        **more,
    }


def sentence(on: str, document: dict[str, Any] | None, missed: dict[str, int] | None = None, **keys: Any) -> str:
    judge = Judge("2026-01-01T00:00:00.000Z")
    facts = Facts(document, missed or {})
    judge.look(facts, 0.0)
    return judge.sentence(section(on, **keys), facts)


# ---------------------------------------------------------------- how often


def test_a_trouble_of_a_moment_is_not_told() -> None:
    assert told(Watch(section("degraded")), [(0, "x"), (5, "x"), (9, ""), (12, "x"), (21, "x"), (21.5, "")]) == []


def test_a_trouble_that_lasts_is_told_once_and_its_end_too() -> None:
    history = [(float(second), "x" if second < 300 else "") for second in range(0, 400, 2)]
    assert told(Watch(section("degraded")), history) == [(10.0, True), (300.0, False)]


def test_it_is_told_again_when_its_time_is_over_and_never_sooner() -> None:
    history = [(float(second), "x") for second in range(0, 200, 2)]
    assert told(Watch(section("degraded", every=60)), history) == [
        (10.0, True),
        (70.0, True),
        (130.0, True),
        (190.0, True),
    ]


def test_a_flapping_trouble_is_told_at_most_so_often() -> None:
    history = [(float(second), "x" if second % 40 < 20 else "") for second in range(0, 400, 2)]
    firing = [now for now, is_firing in told(Watch(section("degraded", every=100)), history) if is_firing]
    assert all(later - earlier >= 100 for earlier, later in itertools.pairwise(firing))
    assert len(firing) == 4


def test_a_failed_reload_is_told_at_once() -> None:
    assert told(Watch(section("reload_failed")), [(0, "no such key")]) == [(0, True)]


# ---------------------------------------------------------------- what is wrong


def test_nothing_is_wrong_with_a_pool_that_is_well() -> None:
    for on in ("degraded", "backend_down", "overdue", "dead_rate", "reload_failed", "schedule_missed"):
        assert sentence(on, status()) == ""


def test_a_degraded_pool_says_why() -> None:
    pool = {"state": "degraded", "problems": ["slot 3 is parked: x"], "last_reload": None}
    assert sentence("degraded", status(pool=pool)) == "slot 3 is parked: x"
    assert "does not answer" in sentence("degraded", None)


def test_a_store_that_is_away_is_named() -> None:
    backend = {"ok": False, "url": "redis://:***@h/0", "error": "refused", "checked_at": "2026-01-01T00:00:00Z"}
    assert sentence("backend_down", status(backend=backend)) == "redis://:***@h/0 does not answer: refused"
    assert sentence("backend_down", status(backend={**backend, "checked_at": None})) == ""


def test_overdue_jobs_of_a_paused_queue_wait_on_purpose() -> None:
    queues = [queue("mail", overdue=5), {**queue("held", overdue=9), "paused": True}]
    assert sentence("overdue", status(queues=queues)) == "5 jobs are due and not started, in mail"
    assert sentence("overdue", status(queues=queues), above=5) == ""


def test_a_reload_before_our_time_is_not_ours_to_tell() -> None:
    def reload(at: str) -> dict[str, Any]:
        return status(pool={"state": "ready", "last_reload": {"at": at, "ok": False, "error": "bad key"}})

    assert sentence("reload_failed", reload("2025-12-31T00:00:00.000Z")) == ""
    assert "bad key" in sentence("reload_failed", reload("2026-01-02T00:00:00.000Z"))


def test_missed_ticks_are_counted_by_entry() -> None:
    assert sentence("schedule_missed", status(), {"nightly": 3}) == "nightly missed 3 ticks"


@pytest.mark.parametrize(
    ("failed", "completed", "above", "is_told"),
    [(2, 0, None, False), (5, 100, None, False), (20, 100, None, True), (20, 100, 0.5, False), (0, 0, None, False)],
)
def test_the_dead_rate_is_that_of_the_last_minutes(
    failed: int, completed: int, above: float | None, is_told: bool
) -> None:
    judge = Judge("")
    judge.look(Facts(status(totals={"failed": 10**6, "completed": 1})), 0.0)
    then = Facts(status(totals={"failed": 1000, "completed": 5000}))
    judge.look(then, 1000.0)
    now = Facts(status(totals={"failed": 1000 + failed, "completed": 5000 + completed}))
    judge.look(now, 1100.0)
    assert bool(judge.sentence(section("dead_rate", above=above), now)) is is_told


def test_the_document_can_be_shown_by_a_chat_as_it_is() -> None:
    document = alert_document(Alert("overdue", True, "5 jobs", 0.0), {"pool": "web", "host": "h1"})
    assert document["text"] == "ALERT overdue on jobpool web (h1): 5 jobs"
    assert (document["state"], document["pool"], document["since"]) == ("firing", "web", "1970-01-01T00:00:00.000Z")


# ---------------------------------------------------------------- sending


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook on loopback, and what it got."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_the_document(hook: tuple[str, list[dict[str, Any]]]) -> None:
    url, got = hook
    assert post(f"{url}/secret-path", {"text": "hello"}) == ""
    assert got == [{"text": "hello"}]


def test_trouble_with_a_webhook_names_its_host_and_not_its_secret(hook: tuple[str, list[dict[str, Any]]]) -> None:
    url, _ = hook
    assert post(f"{url}/broken", {}).startswith("127.0.0.1: ")
    for bad in ("http://127.0.0.1:9/secret", "https://no.such.host.invalid/secret", "nonsense"):
        trouble = post(bad, {})
        assert trouble and "secret" not in trouble


def test_a_command_reads_the_document_and_its_failure_is_told(tmp_path: Path) -> None:
    target = tmp_path / "got.json"
    assert run_command(["sh", "-c", f"cat >{target}"], {"text": "hello"}) == ""
    assert json.loads(target.read_text()) == {"text": "hello"}
    assert run_command(["sh", "-c", "exit 3"], {}) == "sh ended with 3"
    assert "No such file" in run_command(["/no/such/program"], {})


def test_a_socket_that_is_not_there_answers_nothing(tmp_path: Path) -> None:
    assert ask_status(str(tmp_path / "none.sock")) is None


# ---------------------------------------------------------------- a real pool


def test_a_failed_reload_reaches_a_command_and_a_webhook(
    open_house: Callable[..., House], hook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, got = hook
    house = open_house(start=False)
    target = house.folder / "alert.json"
    alerts = (
        f'[[alerts]]\non = "reload_failed"\ncommand = ["sh", "-c", "cat >{target}.part; mv {target}.part {target}"]\n'
        f'[[alerts]]\non = "reload_failed"\nurl = "{url}/x"\n'
    )
    house.configure(workers=1, settings=alerts)
    house.start()
    until(lambda: ask_status(str(house.socket)), "the pool's answer")
    house.configure(workers=1, settings="nonsense = 1\n")
    assert house.cli("reload", check=False).returncode == 1

    until(target.exists, "the command's file")
    until(lambda: got, "the webhook's document")
    for document in (json.loads(target.read_text()), got[0]):
        assert document["alert"] == "reload_failed"
        assert document["pool"] == "house"
        assert "nonsense" in document["says"]


# ---------------------------------------------------------------- the rules for Prometheus


def test_every_metric_of_the_shipped_rules_exists() -> None:
    pool = StillPool(workers())
    pool.all_born()
    pool.keeper_says(queue("mail", pending=1))
    text = metrics_text(status_document(pool, Moment(100.0, 1_800_000_000.0)), {("workers", "signal 9"): 1}).decode()
    expressions = "".join(re.findall(r"expr: (?:\|\n)?((?:.|\n)*?)\n        (?:for|labels)", RULES.read_text()))
    named = set(re.findall(r"jobpool_\w+", expressions))
    assert len(named) >= 7
    assert named <= set(re.findall(r"^(jobpool_\w+)", text, re.MULTILINE))
