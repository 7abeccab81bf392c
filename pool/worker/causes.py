"""From an exception of a job to what is kept of it: class, text and stack, cleaned, bounded, never failing."""

import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import TracebackType

from pool.cleaning import clean
from pool.jobs.job import Cause
from pool.jobs.policy import cause_of

FIRST_FRAMES, LAST_FRAMES = 10, 30
MAX_CHAIN = 4
MAX_STACK_CHARACTERS = 10_000
OUR_FOLDER = str(Path(__file__).parent)


def full_cause(cause: Cause, error: BaseException) -> Cause:
    """The cause with its text cleaned and with the stack of the error."""
    try:
        stack = clean(stack_of(error))[-MAX_STACK_CHARACTERS:]
    except Exception as broken:  # a user's class may break anything that looks at it
        stack = f"(the stack cannot be read: {type(broken).__name__})"
    return replace(cause, text=clean(cause.text or ""), stack=stack)


def cause_from(error: BaseException) -> Cause:
    """The whole cause of an error that no policy has judged."""
    return full_cause(cause_of(error), error)


def stack_of(error: BaseException) -> str:
    """One `file:line in function` per frame, relative where it can be, outermost first; then what it came from."""
    return "\n".join(line for link in _chain(error) for line in _lines_of(link))


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(MAX_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _lines_of(error: BaseException) -> Iterator[str]:
    frames = list(_without_repeats(_places(error.__traceback__)))
    dropped = len(frames) - FIRST_FRAMES - LAST_FRAMES
    if dropped > 0:
        frames[FIRST_FRAMES:-LAST_FRAMES] = [f"… {dropped} more frames …"]
    yield f"{type(error).__qualname__}:"
    yield from (f"  {place}" for place in frames)


def _without_repeats(places: Iterator[str]) -> Iterator[str]:
    """A function that calls itself a thousand times fills one line."""
    for place, same in groupby(places):
        count = sum(1 for _ in same)
        yield place if count == 1 else f"{place} (× {count})"


def _places(tb: TracebackType | None) -> Iterator[str]:
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(OUR_FOLDER):
            yield f"{short_path(code.co_filename)}:{tb.tb_lineno} in {code.co_name}"
        tb = tb.tb_next


def short_path(filename: str) -> str:
    """The path below the folder of `sys.path` it was imported from: absolute paths tell strangers too much."""
    for folder in sys.path:
        if folder and filename.startswith(folder.rstrip("/") + "/"):
            return filename[len(folder.rstrip("/")) + 1 :]
    return filename


def traceback_of(error: BaseException) -> str:
    """The traceback of a module of the user that cannot be imported, without our frames and the import machinery."""
    summary = traceback.TracebackException.from_exception(error)
    links: list[traceback.TracebackException] = [summary]
    while (below := links[-1].__cause__ or links[-1].__context__) is not None:
        links.append(below)
    for link in links:
        kept = [frame for frame in link.stack if not _is_machinery(frame.filename)]
        link.stack = traceback.StackSummary.from_list(kept)
    return clean("".join(summary.format()))


def _is_machinery(filename: str) -> bool:
    return filename.startswith(OUR_FOLDER) or "importlib" in filename
