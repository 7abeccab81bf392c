"""What is wrong with a configuration, in sentences: pydantic's findings → place, key, problem. No I/O."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pool.settings import Config

FLAGS = {
    "workers.count": "--workers",
    "workers.queues": "--queues",
    "app.modules": "--app",
    "backend.url": "--backend",
}
_LONGEST_NAME, _LONGEST_PROBLEM = 60, 400
_SECRET = ("url", "sha256", "env", "payload", "argv")


def complaints(
    error: ValidationError, values: Mapping[str, Any], path: Path | None, sources: Mapping[str, str]
) -> list[str]:
    """One sentence for each finding: where it stands, which key, what is wrong, what would be right."""
    return [_sentence(detail, values, path, sources) for detail in error.errors(include_url=False)]


def has_password(url: str) -> bool:
    """Whether a URL carries a password that must not be shown."""
    try:
        return bool(urlsplit(url).password)
    except ValueError:
        return "@" in url


def _sentence(detail: ErrorDetails, values: Mapping[str, Any], path: Path | None, sources: Mapping[str, str]) -> str:
    where = _place(detail["loc"], path, sources)
    key = _key_text(detail["loc"], values)
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown key {key}{_suggestion(detail['loc'])}"
    if detail["type"] == "missing":
        return f"{where}: {key} is missing"
    separator = ":" if detail["type"] == "value_error" else ""
    return f"{where}: {key}{_shown(detail)}{separator} {_problem(detail)}"


def _place(loc: tuple[int | str, ...], path: Path | None, sources: Mapping[str, str]) -> str:
    """The file, the variable or the flag that holds the value."""
    dotted = ".".join(part for part in loc if isinstance(part, str))
    origin = _origin(dotted, sources)
    if origin == "flag":
        return FLAGS.get(dotted, "command line")
    if origin == "environment":
        return "environment " + "JOBPOOL_" + dotted.replace(".", "__").upper()
    return str(path or "configuration")


def _origin(dotted: str, sources: Mapping[str, str]) -> str:
    """Of this key, or of what holds it or what it holds."""
    related = (o for key, o in sources.items() if f"{dotted}.".startswith(f"{key}.") or key.startswith(f"{dotted}."))
    return sources.get(dotted) or next(related, "file")


def _key_text(loc: tuple[int | str, ...], values: Mapping[str, Any]) -> str:
    """`workers.count`, or `groups[1] "bulk" count` where tables repeat."""
    text, node = "", values
    for part in loc:
        node = _step(node, part)
        if isinstance(part, int):
            name = node.get("name") or node.get("type") if isinstance(node, dict) else None
            text += f"[{part}]" + (f" ({_short(name)})" if isinstance(name, str) else "")
        else:
            text += f".{_short(part)}" if text else _short(part)
    return text or "configuration"


def _short(name: str) -> str:
    """A name that somebody chose, fit for a line of a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name[:_LONGEST_NAME])
    return shown if len(name) <= _LONGEST_NAME else f"{shown}…"


def _step(node: Any, part: int | str) -> Any:
    try:
        return node[part]
    except (KeyError, IndexError, TypeError):
        return None


def _shown(detail: ErrorDetails) -> str:
    """The value as written, unless it may be a secret or is long."""
    name = detail["loc"][-1] if detail["loc"] else ""
    value = detail["input"]
    if name in _SECRET or detail["type"] == "value_error" or isinstance(value, dict | list | BaseModel):
        return ""
    text = repr(value)
    return f" = {text}" if len(text) <= 60 else ""


def _problem(detail: ErrorDetails) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    for pydantic_word, ours in (("Input should be", "must be"), ("String should", "must"), ("List should", "must")):
        message = message.replace(pydantic_word, ours)
    message = message.replace("a valid tuple", "an array of tables, written [[…]]")
    if detail["type"] == "model_type":
        return "must be a table, not a single value"
    return message if len(message) <= _LONGEST_PROBLEM else f"{message[:100]} … {message[-200:]}"


def _suggestion(loc: tuple[int | str, ...]) -> str:
    names = [part for part in loc if isinstance(part, str)]
    known = _keys_beside(names[:-1])
    near = get_close_matches(names[-1], known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    elsewhere = [f"[{section}] {key}" for section, key in _all_keys() if key == names[-1]]
    if elsewhere:
        return f"; did you mean {elsewhere[0]}?"
    return f"; known here: {', '.join(known)}"


def _keys_beside(sections: list[str]) -> list[str]:
    """The keys of the table at this place."""
    model: type[BaseModel] = Config
    for section in sections:
        inner = _model_in(model.model_fields[section].annotation) if section in model.model_fields else None
        if inner is None:
            break
        model = inner
    return [info.alias or name for name, info in model.model_fields.items()]


def _all_keys() -> Iterator[tuple[str, str]]:
    for section, info in Config.model_fields.items():
        inner = _model_in(info.annotation)
        yield from ((section, key) for key in (inner.model_fields if inner else ()))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The table's model behind `Section`, `tuple[Section, ...]` or `Section | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, list, Union, UnionType):
        return next((found for found in map(_model_in, get_args(annotation)) if found), None)
    return None
