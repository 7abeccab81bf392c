"""Templates to HTML. Everything is escaped unless it was made as markup here; a name that is missing is an error."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pool.clock import as_rfc3339, wall_now
from pool.jobs.documents import cause_text
from pool.jobs.priority import label_of
from pool.spoken import duration, one_line, size
from pool.web.dashboard import charts

FOLDER = Path(__file__).parent
MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    media_type: str
    address: str


class Renderer:
    """Loads the assets once; templates are read once each."""

    def __init__(self) -> None:
        self.assets = {path.name: _asset(path) for path in sorted((FOLDER / "assets").iterdir())}
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            {
                "duration": duration, "bytes": size, "line": one_line, "count": count_text, "ago": ago, "clock": clock,
                "date": date, "pretty": pretty, "cause": cause_text, "priority": label_of, "short": short_id,
                "percent": percent, "until": until, "took": took,
            }
        )  # fmt: skip
        self._environment.globals.update(charts=charts, asset=self._address)

    def page(self, template: str, **facts: Any) -> str:
        """A whole page."""
        return self._environment.get_template(template).render(**facts)

    def block(self, template: str, name: str, **facts: Any) -> str:
        """One block of a page, for its live updates."""
        found = self._environment.get_template(template)
        return "".join(found.blocks[name](found.new_context(facts)))

    def _address(self, name: str) -> str:
        return self.assets[name].address


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    version = hashlib.sha256(content).hexdigest()[:12]
    return Asset(content, MEDIA_TYPES[path.suffix], f"/ui/assets/{path.name}?v={version}")


# ---------------------------------------------------------------- filters


def count_text(number: float | None) -> str:
    """`12,345`; a dash where nothing is known."""
    return "–" if number is None else f"{number:,.0f}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def ago(wall: float | None) -> str:
    """`3 m 5 s ago`; `in 5 m 0 s` for what is to come."""
    if wall is None:
        return ""
    seconds = wall_now() - wall
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def until(wall: float | None) -> str:
    return "" if wall is None else duration(max(0.0, wall - wall_now()))


def took(seconds: float) -> str:
    """`12 ms` for short ones, else as everywhere."""
    return f"{max(0.0, seconds) * 1000:.0f} ms" if seconds < 1 else duration(seconds)


def clock(wall: float | None) -> str:
    """Time of day in UTC."""
    return (as_rfc3339(wall) or "")[11:19]


def date(wall: float | None) -> str:
    """Date and time of day in UTC, to the second."""
    return (as_rfc3339(wall) or "")[:19].replace("T", " ")


def pretty(value: Any) -> str:
    """JSON with indents."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def short_id(job_id: str) -> str:
    """The end of an id, where UUIDv7 differ."""
    return job_id[-12:]
