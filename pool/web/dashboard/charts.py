"""Charts as SVG, drawn here, coloured by classes of the style sheet. Each has a text that says the same.

No `style` attributes: the pages' content policy forbids them. Numbers only; no text of a job ever gets in here.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from pool.web.dashboard.survey import Sample

WIDTH, HEIGHT, FOOT = 720, 150, 18
MINUTES = 60


def day(hours: Sequence[dict[str, Any]]) -> Markup:
    """Completed and failed jobs of each of the last 24 hours, stacked."""
    bars = [(str(hour["hour"])[11:16], int(hour["completed"]), int(hour["failed"])) for hour in hours]
    return _bars(bars, "Completed and failed jobs by hour (UTC), last 24 hours", every=4)


def hour(samples: Sequence[Sample], now: float) -> Markup:
    """Completed and failed jobs of each of the last 60 minutes, from the samples."""
    done, failed = [0] * MINUTES, [0] * MINUTES
    for before, after in pairwise(samples):
        _spread(done, max(0, after.completed - before.completed), now - before.at, now - after.at)
        _spread(failed, max(0, after.failed - before.failed), now - before.at, now - after.at)
    labels = [f"-{MINUTES - index} min" if index else "-60 min" for index in range(MINUTES)]
    bars = list(zip(labels, done, failed, strict=True))
    return _bars(bars, "Completed and failed jobs by minute, last hour", every=15)


def _spread(minutes: list[int], count: int, from_s: float, to_s: float) -> None:
    """Over the minutes between two samples, given by their age: they may lie far apart where nobody was there to look."""
    last = MINUTES - 1 - int(to_s // 60)
    many = max(1, round((from_s - to_s) / 60))
    for number in range(many):
        minute = last - (many - 1 - number)
        if 0 <= minute < MINUTES:
            minutes[minute] += count * (number + 1) // many - count * number // many


def spark(values: Sequence[float], label: str) -> Markup:
    """A small line for a tile; empty when there is nothing to draw."""
    if len(values) < 2:
        return Markup("")
    top = max(max(values), 1e-9)
    step = 100 / (len(values) - 1)
    points = " ".join(f"{index * step:.1f},{22 - 20 * value / top:.1f}" for index, value in enumerate(values))
    return Markup(
        f'<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<polygon class="area" points="0,24 {points} 100,24"/><polyline class="line" points="{points}"/></svg>'
    )


def bar(share: float, kind: str = "") -> Markup:
    """A thin horizontal bar, filled to `share` (0 to 1)."""
    width = max(0.0, min(1.0, share)) * 100
    return Markup(
        f'<svg class="bar {kind}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6" rx="2"/><rect class="fill" width="{width:.1f}" height="6" rx="2"/></svg>'
    )


def series(samples: Sequence[Sample], name: str) -> list[float]:
    """One field of the samples, at most about a hundred points, evenly in time though the older ones lie further apart."""
    step_s = max(1.0, (samples[-1].at - samples[0].at) / 100) if samples else 1.0
    points = {int(sample.at // step_s): sample for sample in samples}
    return [float(getattr(sample, name)) for sample in points.values()]


def per_minute(samples: Sequence[Sample]) -> float | None:
    """Completed jobs a minute, over the last minute or what there is of it."""
    recent = [sample for sample in samples if samples[-1].at - sample.at <= 60]
    if len(recent) < 2:
        return None
    seconds = recent[-1].at - recent[0].at
    return 60 * (recent[-1].completed - recent[0].completed) / seconds if seconds else None


def _bars(bars: Sequence[tuple[str, int, int]], title: str, *, every: int) -> Markup:
    """Stacked bars over a base line, with three lines of a round scale."""
    top = _round_up(max((done + failed for _, done, failed in bars), default=0))
    slot = WIDTH / max(1, len(bars))
    room = HEIGHT - FOOT
    parts = [_grid(top, room)]
    for index, (label, done, failed) in enumerate(bars):
        x, width = index * slot + slot * 0.14, slot * 0.72
        done_high, failed_high = room * done / top, room * failed / top
        parts.append(f'<g class="column"><title>{label}: {done:,} completed, {failed:,} failed</title>')
        parts.append(f'<rect class="hit" x="{index * slot:.1f}" y="0" width="{slot:.1f}" height="{room}"/>')
        if done:
            parts.append(_rect("done", x, room - done_high, width, done_high))
        if failed:
            parts.append(_rect("dead", x, room - done_high - max(failed_high, 2), width, max(failed_high, 2)))
        parts.append("</g>")
        if index % every == 0:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 4}">{label}</text>')
    done_all, failed_all = sum(done for _, done, _ in bars), sum(failed for _, _, failed in bars)
    words = f"{title}: {done_all:,} completed, {failed_all:,} failed"
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">{"".join(parts)}</svg>'
    )


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _grid(top: int, room: int) -> str:
    heights = (0.5, room / 2, room)
    lines = [f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in heights]
    lines.append(f'<text class="tick most" x="{WIDTH}" y="10">{top:,}</text>')
    return "".join(lines)


def _round_up(value: int) -> int:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    size = 1
    while True:
        for step in (1, 2, 5):
            if value <= step * size:
                return step * size
        size *= 10
