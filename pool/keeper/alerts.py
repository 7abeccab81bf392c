"""`[[alerts]]`: what is wrong with the pool becomes a command or a webhook, at most so often, and never holds the keeper up.

All facts come from the pool's own `/status` document, asked for on its socket, and from the timetable. Judging is pure
(`Watch`); sending is another file's thread. A trouble must last a little before it is told: a pool that replaces one
worker is degraded for a second, and nobody should be called for that.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pool import config as configuration
from pool.clock import as_rfc3339, monotonic_now, wall_now
from pool.logs import log
from pool.paths import SOCKET_NAME
from pool.settings import AlertSection, Config

LOOK_EVERY_S = 2.0
RATE_WINDOW_S = 300.0
LEAST_DEAD = 3  # one dead letter among two jobs is half of them, and no reason to wake anybody
DEFAULT_ABOVE = {"dead_rate": 0.1, "overdue": 0.0}
LASTS_S = {"degraded": 10.0, "backend_down": 10.0, "overdue": 30.0}

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What one look found. `status` is None when the supervisor did not answer."""

    status: Document | None
    missed_ticks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """A word to the outside: something is wrong (`firing`) or right again."""

    on: str
    firing: bool
    says: str
    since: float  # wall


@dataclass(slots=True)
class Watch:
    """One `[[alerts]]` entry: what it saw last, and when it last spoke. Times are monotonic."""

    section: AlertSection
    _wrong_since: float | None = None
    _told_at: float | None = None
    _is_told: bool = False

    def judge(self, sentence: str, now: float) -> Alert | None:
        """`sentence` says what is wrong now, empty for nothing; what is to be sent, if anything."""
        if not sentence:
            return self._all_clear(now)
        if self._wrong_since is None:
            self._wrong_since = now
        lasted = now - self._wrong_since >= LASTS_S.get(self.section.on, 0.0)
        may_speak = self._told_at is None or now - self._told_at >= self.section.every
        if not (lasted and may_speak):
            return None
        self._told_at, self._is_told = now, True
        return self._alert(True, sentence, now)

    def _all_clear(self, now: float) -> Alert | None:
        was_told = self._is_told
        alert = self._alert(False, "it is over", now) if was_told else None
        self._wrong_since, self._is_told = None, False
        return alert

    def _alert(self, firing: bool, sentence: str, now: float) -> Alert:
        since = now if self._wrong_since is None else self._wrong_since
        return Alert(self.section.on, firing, sentence, wall_now() - (now - since))


class Judge:
    """Facts to sentences, one per kind of alert. Keeps the counts of the last minutes, and which reload it has seen."""

    def __init__(self, started: str) -> None:
        self._counts: deque[tuple[float, int, int]] = deque()
        self._reload_seen = started
        self._kinds: dict[str, Callable[[Document, float | None], str]] = {
            "degraded": _degraded,
            "backend_down": _backend_down,
            "overdue": _overdue,
            "reload_failed": self._reload_failed,
            "dead_rate": self._dead_rate,
        }

    def look(self, facts: Facts, now: float) -> None:
        """Once per look, before the questions."""
        totals = (facts.status or {}).get("totals") or {}
        if "failed" in totals:
            self._counts.append((now, int(totals["failed"]), int(totals["completed"])))
        while self._counts and now - self._counts[0][0] > RATE_WINDOW_S:
            self._counts.popleft()

    def sentence(self, section: AlertSection, facts: Facts) -> str:
        """What is wrong in the eyes of this entry; empty for nothing."""
        if section.on == "schedule_missed":
            return ", ".join(f"{name} missed {count} ticks" for name, count in sorted(facts.missed_ticks.items()))
        if facts.status is None:
            return "the supervisor does not answer on its socket" if section.on == "degraded" else ""
        above = DEFAULT_ABOVE.get(section.on) if section.above is None else section.above
        return self._kinds[section.on](facts.status, above)

    def _reload_failed(self, status: Document, above: float | None) -> str:
        """Only reloads of our own time: the one before this keeper was its predecessor's matter."""
        last = status["pool"].get("last_reload") or {}
        if not last or last["ok"] or last["at"] <= self._reload_seen:
            return ""
        return f"the reload at {last['at']} failed: {last['error']}"

    def _dead_rate(self, status: Document, above: float | None) -> str:
        (_, failed_then, completed_then), (_, failed, completed) = self._counts[0], self._counts[-1]
        dead, done = failed - failed_then, completed - completed_then
        share = dead / (dead + done) if dead + done > 0 else 0.0
        if dead < LEAST_DEAD or share <= (above or 0.0):
            return ""
        return f"{dead:,} of the last {dead + done:,} jobs failed for good ({share:.0%})"


def _degraded(status: Document, above: float | None) -> str:
    pool = status["pool"]
    if pool["state"] != "degraded":
        return ""
    return "; ".join(map(str, pool.get("problems") or ())) or "the pool is degraded: a worker's place is empty"


def _backend_down(status: Document, above: float | None) -> str:
    backend = status["backend"]
    return "" if backend["ok"] or not backend["checked_at"] else f"{backend['url']} does not answer: {backend['error']}"


def _overdue(status: Document, above: float | None) -> str:
    late = {queue["name"]: queue["overdue"] for queue in status["queues"] if queue["overdue"] and not queue["paused"]}
    if sum(late.values()) <= (above or 0.0):
        return ""
    return f"{sum(late.values()):,} jobs are due and not started, in {', '.join(sorted(late)[:10])}"


class Alerts:
    """The keeper's chore. `missed_ticks` is emptied at each look."""

    def __init__(self, config: Config, pool_name: str, host: str, missed_ticks: dict[str, int]) -> None:
        self._watches = [Watch(section) for section in config.alerts]
        self._socket = str(Path(configuration.runtime_dir(config)) / SOCKET_NAME)
        self._judge = Judge(as_rfc3339(wall_now()) or "")
        self._place = {"pool": pool_name, "host": host}
        self._missed_ticks = missed_ticks

    def look(self, now: float) -> float | None:
        """One look; whatever is to be said goes to the sending thread."""
        if not self._watches:
            return float("inf")
        from pool.keeper.alert_post import ask_status  # HTTP and TLS: 4 MB that a pool without alerts need not carry

        facts = Facts(ask_status(self._socket), dict(self._missed_ticks))
        self._missed_ticks.clear()
        self._judge.look(facts, now)
        for watch in self._watches:
            alert = watch.judge(self._judge.sentence(watch.section, facts), monotonic_now())
            if alert is not None:
                self._tell(watch.section, alert)
        return None

    def _tell(self, section: AlertSection, alert: Alert) -> None:
        from pool.keeper.alert_post import send

        log.warning("alert" if alert.firing else "alert is over", on=alert.on, why=alert.says)
        send(section, alert_document(alert, self._place))


def alert_document(alert: Alert, place: Mapping[str, str]) -> dict[str, Any]:
    """What a command reads and a webhook gets. `text` is the whole message, as chat systems show it."""
    mark = "ALERT" if alert.firing else "OVER"
    return {
        "alert": alert.on,
        "state": "firing" if alert.firing else "resolved",
        **place,
        "says": alert.says,
        "since": as_rfc3339(alert.since),
        "at": as_rfc3339(wall_now()),
        "text": f"{mark} {alert.on} on jobpool {place['pool']} ({place['host']}): {alert.says}",
    }
