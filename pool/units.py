"""How values are written in a configuration, and the base of its tables. No I/O."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pool.identity import NAME_PATTERN

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_UNITS_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?\s*", re.IGNORECASE)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_duration(value: Any) -> Any:
    """Seconds from 30, 0.5, "30", "10m", "24h"; anything else is left for the model to refuse."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is not a duration: use seconds or a number with ms, s, m, h, d or w")
    return float(found[1]) * _UNITS_S[(found[2] or "s").lower()]


def parse_size(value: Any) -> Any:
    """Bytes from 1024, "512MB" (10^6), "512MiB" (2^20)."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value)
    if found is None or found[2].lower() not in _UNITS_BYTES:
        raise ValueError(f"{value!r} is not a size: use bytes or a number with KB, MB, GB, KiB, MiB or GiB")
    return int(float(found[1]) * _UNITS_BYTES[found[2].lower()])


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)


def require_distinct(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        require(name not in seen, f"{what} {name!r} is there twice")
        seen.add(name)


def split_commas(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0)]
Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]
Names = Annotated[list[str], BeforeValidator(split_commas)]
Count = Annotated[int, Field(ge=1, le=2000)]
PriorityNumber = Annotated[int, Field(ge=0, le=100)]
RateText = Annotated[str, Field(pattern=r"^(\s*[0-9]{1,7}\s*/\s*[0-9]{0,5}\s*[smhdSMHD][a-z]*\s*)?$")]
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$")]
Metric = Literal["rss", "pss", "uss"]


class Section(BaseModel):
    """A table of the file: frozen, and strict about what it knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
