"""Small plots as SVG, by hand: a title, panels side by side, lines over the same few values of x, a legend.

Readable on white and on black: colours of middle lightness, text and grid by `prefers-color-scheme`.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 760, 330
TOP, BOTTOM, LEFT, GAP = 84, 46, 58, 70
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #8884; stroke-width: 1 } .axis { stroke: #888; stroke-width: 1 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } }
"""


class Line(NamedTuple):
    """One line of the legend, drawn in every panel."""

    name: str
    colour: str
    is_dashed: bool = False


class Panel(NamedTuple):
    """What stands on the y axis, with its unit, and the values of each line, one for each x (None: not measured)."""

    title: str
    values: Sequence[Sequence[float | None]]


class Frame(NamedTuple):
    """Where a panel's points go."""

    left: float
    width: float
    count: int
    top_value: float

    def x(self, number: int) -> float:
        return self.left + self.width * (number + 0.5) / self.count

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top_value


def figure(title: str, x_title: str, x_labels: Sequence[str], lines: Sequence[Line], panels: Sequence[Panel]) -> str:
    """The whole picture. The x axis is one of sizes: each label stands where a logarithm would put it, about."""
    width = (WIDTH - LEFT - 16 - GAP * (len(panels) - 1)) / len(panels)
    body = [_text(LEFT, 22, title, "title"), *_legend(lines)]
    for number, panel in enumerate(panels):
        frame = Frame(LEFT + number * (width + GAP), width, len(x_labels), _round_up(_highest(panel)))
        body += _axes(frame, panel.title, x_title, x_labels)
        for line, values in zip(lines, panel.values, strict=True):
            body += _drawn(frame, line, values)
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img"><title>{escape(title)}</title>'
    return "\n".join([head, f"<style>{STYLE}</style>", *body, "</svg>\n"])


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    for number, line in enumerate(lines):
        x = LEFT + number * (WIDTH - LEFT) / max(4, len(lines))
        yield f'<path d="M{x:.0f} 42h22" {_stroke(line)}/>'
        yield _text(x + 28, 46, line.name)


def _axes(frame: Frame, title: str, x_title: str, x_labels: Sequence[str]) -> Iterator[str]:
    yield _text(frame.left, TOP - 8, title)
    for value in _ticks(frame.top_value):
        y = frame.y(value)
        yield f'<path class="{"grid" if value else "axis"}" d="M{frame.left:.0f} {y:.1f}h{frame.width:.0f}"/>'
        yield _text(frame.left - 6, y + 4, f"{value:,.4g}" if frame.top_value < 10 else f"{value:,.0f}", anchor="end")
    for number, label in enumerate(x_labels):
        yield _text(frame.x(number), HEIGHT - BOTTOM + 17, label, anchor="middle")
    yield _text(frame.left + frame.width / 2, HEIGHT - 8, x_title, anchor="middle")


def _drawn(frame: Frame, line: Line, values: Sequence[float | None]) -> Iterator[str]:
    points = [(frame.x(number), frame.y(value)) for number, value in enumerate(values) if value is not None]
    if points:
        yield f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}" {_stroke(line)}/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>'


def _stroke(line: Line) -> str:
    dashes = ' stroke-dasharray="5 4"' if line.is_dashed else ""
    return f'fill="none" stroke="{line.colour}" stroke-width="2"{dashes}'


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _highest(panel: Panel) -> float:
    return max((value for values in panel.values for value in values if value is not None), default=1.0)


def _round_up(value: float) -> float:
    """To 1, 2, 2.5 or 5 times a power of ten, in four steps at most five of them unused."""
    step = value / 4 or 1.0
    power = 10 ** math.floor(math.log10(step))
    return 4 * next(power * one for one in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if power * one >= step * 0.999)


def _ticks(top: float) -> list[float]:
    return [top * part / 4 for part in range(5)]
