"""What `top` shows: a view and a size in, lines out. Pure; nothing here depends on colour to be understood.

Every line fits the width and all of them the height, from 80×24 upwards; in less room the lists get shorter first.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pool.cli.output import STYLES, duration, one_line, printable, size
from pool.cli.top_desk import Document, View
from pool.clock import as_rfc3339
from pool.spoken import progress

KEYS = "p pause  r retry  + - scale  tab \u2191 \u2193 choose  q quit"
PLAIN_KEYS = "p pause  r retry  + - scale  tab j k choose  q quit"
ROWS_ABOVE = 1
BAR_CELLS = 6
STATE_ORDER = ("busy", "retiring", "parked", "booting", "idle")
TROUBLE, QUIET, HEAD, CHOSEN = "bold red", "dim", "bold", "reverse"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the cursor stands: in which list (`queues` or `failures`), at which entry of each, and on which group."""

    panel: str = "queues"
    queue: int = 0
    failure: int = 0
    group: int = 0


@dataclass(frozen=True, slots=True)
class Screen:
    """The room there is, and whether its font and encoding have more than ASCII."""

    width: int
    height: int
    unicode: bool = True


def draw(view: View, choice: Choice, screen: Screen) -> list[Text]:
    """The whole picture, at most `height` lines of at most `width` cells."""
    head = list(_head(view, choice))
    foot = [Text(view.said or ""), Text(KEYS if screen.unicode else PLAIN_KEYS, style=QUIET)]
    room = screen.height - len(head) - len(foot)
    status = view.status
    lists = [
        _workers(status.get("workers", ()), screen),
        _queues(status.get("queues", ()), choice),
        _failures(view, choice),
    ]
    shares = share_rows([len(rows) for _, rows in lists], room)
    body = [line for (title, rows), share in zip(lists, shares, strict=True) for line in _section(title, rows, share)]
    filler = [Text()] * (room - len(body))
    return [_fitted(line, screen) for line in [*head, *body, *filler, *foot][: screen.height]]


def share_rows(wanted: Sequence[int], room: int) -> list[int]:
    """How many rows, its heading included, each list gets: the shorter ones all they want, the longest what is left."""
    shares = [0] * len(wanted)
    left = room
    for position, index in enumerate(sorted(range(len(wanted)), key=lambda i: wanted[i])):
        fair = left // (len(wanted) - position)
        shares[index] = max(0, min(wanted[index] + 1, fair))
        left -= shares[index]
    return shares


# ---------------------------------------------------------------- the head


def _head(view: View, choice: Choice) -> Iterator[Text]:
    status = view.status
    pool, backend = status.get("pool") or {}, status.get("backend") or {}
    state = str(pool.get("state", "?"))
    yield Text.assemble(
        (str(pool.get("name", "?")), HEAD), "  ", (state, STYLES.get(state, "")),
        f"  up {duration(pool.get('uptime_s'))}  pid {pool.get('pid')}  store {_store_words(backend)}",
        f"  jobpool {pool.get('version', '')}",
    )  # fmt: skip
    yield Text(_counts_line(view, choice))
    for sentence in _troubles(view)[:2]:
        yield Text(f"! {one_line(sentence, 400)}", style=TROUBLE)


def _store_words(backend: Document) -> str:
    return f"{backend.get('latency_ms')} ms" if backend.get("ok") else "AWAY"


def _counts_line(view: View, choice: Choice) -> str:
    totals = view.status.get("totals") or {}
    rate = "" if view.done_per_second is None else f"  {view.done_per_second:.1f} a second"
    counts = "  ".join(f"{name} {totals.get(name, 0):,}" for name in ("completed", "failed", "retried"))
    return f"{_group_words(view.status, choice)}{_state_words(view.status)}  {counts}{rate}"


def _group_words(status: Document, choice: Choice) -> str:
    """The group that + and - mean, as ready of wanted."""
    group = chosen_group(status, choice)
    if not group:
        return "no workers"
    more = f" of {len(status['groups'])} groups (g)" if len(status["groups"]) > 1 else ""
    return f"{group['name']}{more} {group['ready']}/{group['count']}"


def _state_words(status: Document) -> str:
    states = Counter(str(worker.get("state")) for worker in status.get("workers", ()))
    words = ", ".join(f"{states[state]} {state}" for state in STATE_ORDER if states[state])
    return f" ({words})" if words else ""


def chosen_group(status: Document, choice: Choice) -> Document:
    groups = status.get("groups") or []
    return groups[choice.group % len(groups)] if groups else {}


def _troubles(view: View) -> list[str]:
    pool, backend = view.status.get("pool") or {}, view.status.get("backend") or {}
    last = pool.get("last_reload") or {}
    found = [view.trouble] if view.trouble else []
    if not view.trouble and backend and not backend.get("ok"):
        found.append(f"the store does not answer: {backend.get('error')}")
    if last and not last.get("ok"):
        found.append(f"the last reload failed: {last.get('error')}")
    return [*found, *map(str, pool.get("problems") or ())]


# ---------------------------------------------------------------- the lists


def _section(title: str, rows: list[Text], share: int) -> Iterator[Text]:
    """A heading and as many rows as there is room; the last one says how many are not shown."""
    if share <= 0:
        return
    yield Text(title, style=QUIET)
    if len(rows) <= share - 1:
        yield from rows
    elif share >= 2:
        yield from rows[: share - 2]
        yield Text(f"  and {len(rows) - share + 2} more", style=QUIET)


def _workers(workers: Sequence[Document], screen: Screen) -> tuple[str, list[Text]]:
    """The busy first. Where all are of one group, its name is not repeated in each row."""
    group_cells = 9 if len({worker.get("group") for worker in workers}) > 1 else 0
    group = "GROUP".ljust(group_cells) if group_cells else ""
    title = f"SLOT {group}STATE    {'MEMORY':<{BAR_CELLS + 8}} {'DONE':>6} FAIL     TIME  DOING"
    busy_first = sorted(workers, key=lambda w: (_place_of(w), w.get("slot", 0)))
    return title, [_worker_row(worker, group_cells, screen) for worker in busy_first]


def _place_of(worker: Document) -> int:
    state = worker.get("state")
    return STATE_ORDER.index(state) if state in STATE_ORDER else len(STATE_ORDER)


def _worker_row(worker: Document, group_cells: int, screen: Screen) -> Text:
    state = str(worker.get("state"))
    memory = f"{memory_bar(worker, screen)} {size(worker.get('rss_bytes')):>7}"
    counts = f"{worker.get('completed') or 0:>6,} {worker.get('failed') or 0:>4,}"
    seconds = worker["jobs"][0].get("seconds") if worker.get("jobs") else None
    return Text.assemble(
        f"{worker.get('slot'):>4} {_cut(worker.get('group'), group_cells)}", (f"{state:<8}", STYLES.get(state, "")),
        f" {memory} {counts} {duration(seconds):>8}  {_doing(worker)}",
    )  # fmt: skip


def memory_bar(worker: Document, screen: Screen) -> str:
    """How much of its ceiling a worker uses; empty cells for none, dots where there is no ceiling."""
    used, limit = worker.get("rss_bytes") or 0, worker.get("memory_limit") or 0
    full, hollow = ("█", "░") if screen.unicode else ("#", "-")
    if not limit:
        return " " * BAR_CELLS
    cells = min(BAR_CELLS, round(BAR_CELLS * used / limit))
    return full * cells + hollow * (BAR_CELLS - cells)


def _doing(worker: Document) -> str:
    if jobs := worker.get("jobs"):
        more = f" +{len(jobs) - 1}" if len(jobs) > 1 else ""
        said = printable(progress(jobs[0].get("progress"), jobs[0].get("note")))
        return " ".join(filter(None, (f"{jobs[0].get('type')}{more}", said, str(jobs[0].get("id")))))
    if worker.get("state") == "idle":
        return ""
    last, next_start = worker.get("last_exit") or {}, worker.get("next_start_s")
    wait = f"starts in {duration(next_start)}" if next_start is not None else ""
    return ", ".join(filter(None, (one_line(worker.get("why"), 60), last.get("cause"), wait)))


def _queues(queues: Sequence[Document], choice: Choice) -> tuple[str, list[Text]]:
    title = f"  {'QUEUE':<20} {'PENDING':>8} {'SCHEDULED':>9} {'RUNNING':>7} {'FAILED':>6} {'OLDEST':>8} {'OVERDUE':>7}"
    rows = [_queue_row(queue) for queue in queues]
    return title, _with_cursor(rows, choice.queue, is_here=choice.panel == "queues")


def _queue_row(queue: Document) -> str:
    counts = f"{queue.get('pending', 0):>8,} {queue.get('scheduled', 0):>9,} {queue.get('running', 0):>7,}"
    oldest = duration(queue.get("oldest_pending_s"))
    remark = "paused" if queue.get("paused") else ("" if queue.get("served", True) else "not served")
    return (
        f"{_cut(queue.get('name'), 20)} {counts} {queue.get('failed', 0):>6,} {oldest:>8} "
        f"{queue.get('overdue') or '':>7} {remark}"
    )


def _failures(view: View, choice: Choice) -> tuple[str, list[Text]]:
    title = "  FAILED AT TYPE               TRIES REASON            ERROR"
    if view.no_failures:
        return title, [Text(f"  not shown: {one_line(view.no_failures, 200)}")]
    rows = [
        f"{(as_rfc3339(job.finished_at) or '')[11:19]:<8}  {_cut(job.type, 18)} {job.retry_count + 1:>5} "
        f"{_cut(job.reason.value if job.reason else '', 17)} {one_line(job.error, 200)}"
        for job in view.failures
    ]
    return title, _with_cursor(rows, choice.failure, is_here=choice.panel == "failures") or [Text("  none")]


def _with_cursor(rows: Sequence[str], at: int, *, is_here: bool) -> list[Text]:
    """The chosen row has a mark; the list begins a little above it, so that it is always in sight."""
    lines = [
        Text(f"{'>' if is_here and number == at else ' '} {row}", style=CHOSEN if is_here and number == at else "")
        for number, row in enumerate(rows)
    ]
    return lines[max(0, at - ROWS_ABOVE) :]


# ---------------------------------------------------------------- small things


def _cut(value: Any, width: int) -> str:
    """Exactly `width` cells."""
    text = printable(str(value or "")).replace("\n", " ")
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)


def _fitted(line: Text, screen: Screen) -> Text:
    clean = printable(line.plain).replace("\n", " ").replace("\t", " ")
    if clean != line.plain:
        line = Text(clean, style=line.style)
    if not screen.unicode:
        line = Text(line.plain.replace("…", "~"), style=line.style, spans=line.spans)
    line.truncate(screen.width, overflow="crop")
    return line
