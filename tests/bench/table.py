"""The whole table of docs/performance.md by one command: what, aim, measured, met or not, and the command for one row alone."""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.bench import boot, footprint, measures, merging, pages, scale, speeds
from tests.bench.measures import Found, Options
from tests.helpers.coldness import coldness

MANY, FEW = 1_000_000, 20_000
NAMES = {"sqlite": "SQLite", "redis": "Redis"}
MB_PER_MIB = 2**20 / 1e6
OF_WHAT_RESTS = ("pickup", "idle", "recovery", "boot", "scale")
COLD = 3.0  # times; a machine of one's own has about 1


class Row(NamedTuple):
    """One line. `is_met` None: nothing was aimed at, or it could not be measured."""

    what: str
    aim: str
    measured: str
    is_met: bool | None
    command: str


def all_rows(options: Options) -> Found:
    """Progress goes to stderr, the table alone to stdout."""
    rows: list[Row] = []
    above, cold = pages.circumstances(options.runs), coldness()
    for name, make in PARTS.items():
        began = time.monotonic()
        with contextlib.redirect_stdout(sys.stderr):
            print(f"--- {name}", flush=True)
            rows += _rows_of(name, make, options)
            print(f"--- {name}: {time.monotonic() - began:.0f} s", flush=True)
    if cold > COLD:
        above, rows = f"{above} {_warning(cold)}", [_marked(row) for row in rows]
    text = f"{above}\n\n{as_markdown(rows)}"
    print(text)
    if options.write:
        pages.fill("performance.md", "all", text)
    return {}


def _rows_of(name: str, make: Callable[[Options], Iterator[Row]], options: Options) -> list[Row]:
    """A part that fails says so in its row: the others took long."""
    rows = []
    try:
        for row in make(options):
            rows.append(row)
    except Exception as problem:
        rows.append(Row(name, "", f"not measured: {type(problem).__name__}: {str(problem)[:200]}", None, ""))
    return rows


def _warning(cold: float) -> str:
    return (
        f"Memory that has rested for a second answers {cold:.0f} times as slowly here as the processor's caches explain: "
        "the host of this virtual machine takes it away meanwhile. Rows with ‡, of what rests and wakes, say little about the code."
    )


def _marked(row: Row) -> Row:
    return row._replace(what=f"{row.what} ‡") if row.command.startswith(OF_WHAT_RESTS) else row


def as_markdown(rows: list[Row]) -> str:
    verdicts = {True: "yes", False: "no", None: ""}
    head = ("what", "aim", "measured", "met", "`python -m tests.bench`")
    command = {row: f"`{row.command}`" if row.command else "" for row in rows}
    return pages.table(head, [(row.what, row.aim, row.measured, verdicts[row.is_met], command[row]) for row in rows])


def _options(options: Options, **changes: object) -> Options:
    return argparse.Namespace(**{**vars(options), "jobs": 0, "merge": False, **changes})


# ---------------------------------------------------------------- the parts


def throughput_on_redis(options: Options) -> Iterator[Row]:
    for workers in (2, 8):
        found = speeds.throughput(_options(options, backend="redis", workers=workers, jobs=_jobs(options)))
        command = f"throughput --backend redis --workers {workers}"
        for way, control, aim in (
            (speeds.ONE, "redis-py", 1.0),
            (speeds.ONE, "raw socket", 0.6),
            (speeds.AHEAD, "redis-py", 1.5),
            (speeds.AHEAD, "raw socket", None),
        ):
            yield _ratio_row(f"Redis, N={workers}", way, control, aim, found, command)


def throughput_on_sqlite(options: Options) -> Iterator[Row]:
    for workers in (2, 8):
        found = speeds.throughput(_options(options, backend="sqlite", workers=workers, jobs=_jobs(options)))
        command = f"throughput --backend sqlite --workers {workers}"
        for way, aim in ((speeds.ONE, 0.6), (speeds.AHEAD, 1.0)):
            yield _ratio_row(f"SQLite, N={workers}", way, speeds.FUSED, aim, found, command)
    for way in (speeds.ONE, speeds.AHEAD):
        least = found[f"{way} fairness"]
        what = f"SQLite, N=8, {way}: slowest worker against the mean"
        yield Row(what, "≥ 0.5", f"{least:.2f}", least >= 0.5, command)


def _ratio_row(where: str, way: str, control: str, aim: float | None, found: Found, command: str) -> Row:
    ratio, rate = found[f"{way} / {control}"], found[f"{way} per_s"]
    is_met = None if aim is None else ratio >= aim
    what = f"no-op jobs, {where}, {way}, against the bare loop ({control})"
    return Row(what, "" if aim is None else f"≥ {aim:g}", f"{ratio:.2f} ({rate:,.0f}/s)", is_met, command)


def _jobs(options: Options) -> int:
    return 3_000 if options.quick else FEW


def enqueue(options: Options) -> Iterator[Row]:
    for backend, least in (("sqlite", 100_000), ("redis", 40_000)):
        found = measures.enqueue(_options(options, backend=backend, jobs=1_000 if options.quick else 5_000))
        single, many, command = found.get("single / bare"), found.get("many / bare"), f"enqueue --backend {backend}"
        bare = "" if single is None else f"{single:.2f} "
        met = None if single is None else single >= 0.8
        yield Row(
            f"enqueue, one call, {NAMES[backend]}, against a bare insert",
            "≥ 0.8",
            f"{bare}({found['single']:,.0f}/s)",
            met,
            command,
        )
        is_met = found["many"] >= least or (many or 0.0) >= 0.7
        words = f"{found['many']:,.0f}/s" + ("" if many is None else f", {many:.2f} of bare")
        yield Row(f"enqueue_many, {NAMES[backend]}", f"≥ {least:,}/s or ≥ 0.7 of bare", words, is_met, command)


def pickup(options: Options) -> Iterator[Row]:
    for backend in ("redis", "sqlite"):
        found = measures.pickup(_options(options, backend=backend, workers=8, jobs=20 if options.quick else 200))
        words, met = f"{found['median']:.2f} / {found['p99']:.2f} ms", found["median"] < 1 and found["p99"] < 3
        command = f"pickup --workers 8 --backend {backend}"
        yield Row(f"idle pickup, {NAMES[backend]}: median / p99", "< 1 / < 3 ms", words, met, command)


def rest(options: Options) -> Iterator[Row]:
    for backend, most in (("sqlite", 55), ("redis", 75)):
        here = _options(options, backend=backend, workers=8, runs=1 if options.quick else options.runs)
        spent, command = footprint.idle(here)["cpu_s_in_20_s"], f"idle --workers 8 --backend {backend}"
        what = f"idle pool of 8, {NAMES[backend]}, CPU of the tree in 20 s"
        yield Row(what, "< 0.02 s", f"{spent:.3f} s", spent < 0.02, command)
        found, command = footprint.footprint(here), f"footprint --backend {backend}"
        tree, more = found["pss_mib"] * MB_PER_MIB, found["worker_mib"] * MB_PER_MIB
        yield Row(
            f"memory of that tree (PSS), {NAMES[backend]}", f"< {most} MB", f"{tree:.0f} MB", tree < most, command
        )
        yield Row(f"each further worker, {NAMES[backend]}", "< 4 MB", f"{more:.1f} MB", more < 4, command)
        if merging.runs():
            tree = footprint.footprint(_options(here, merge=True))["pss_mib"] * MB_PER_MIB
            what, command = f"memory of that tree with merge_memory, {NAMES[backend]}", command + " --merge"
            yield Row(what, "", f"{tree:.0f} MB", None, command)


def recovery(options: Options) -> Iterator[Row]:
    for backend in ("redis", "sqlite"):
        found = measures.recovery(_options(options, backend=backend, workers=2, jobs=1 if options.quick else 7))
        words = f"{found['median']:.1f} ms, worst {found['worst']:.0f}"
        command = f"recovery --backend {backend}"
        yield Row(f"SIGKILL to its job elsewhere, {NAMES[backend]}", "< 5 ms", words, found["median"] < 5, command)


def prompt(options: Options) -> Iterator[Row]:
    found = boot.boot(options)
    for name, aim in (("start", 0.4), ("health", 0.12), ("import", 0.06)):
        words = {"start": "start to 8 workers ready", "health": "`jobpool health`", "import": "`import pool`"}[name]
        yield Row(words, f"< {aim * 1000:.0f} ms", f"{found[name] * 1000:.0f} ms", found[name] < aim, "boot")


def pending(options: Options) -> Iterator[Row]:
    for backend, most in (("sqlite", 350), ("redis", 450)):
        found = measures.pending(_options(options, backend=backend, jobs=FEW if options.quick else MANY))
        command = f"pending --backend {backend}"
        words = f"{found['ratio']:.2f} ({found['few_us']:.0f} and {found['many_us']:.0f} µs)"
        yield Row(
            f"claim at 1,000,000 pending against 1,000, {NAMES[backend]}",
            "≤ 1.2",
            words,
            found["ratio"] <= 1.2,
            command,
        )
        size = found["bytes"]
        yield Row(f"bytes per pending job, {NAMES[backend]}", f"< {most}", f"{size:.0f}", size < most, command)


def many(options: Options) -> Iterator[Row]:
    found = scale.scale(options)
    ratio, keeper, late = found["many / few"], found["keeper ratio"], found["pickup p99"]
    yield Row("200 workers in 10 pools against 8 workers", "≥ 0.7", f"{ratio:.2f}", ratio >= 0.7, "scale")
    yield Row("idle keeper's CPU, 10 pools against 1", "constant", f"{keeper:.2f} times", keeper < 1.3, "scale")
    yield Row("pickup among 10,000 idle workers, p99", "< 50 ms", f"{late:.1f} ms", late < 50, "scale")


def over_http(options: Options) -> Iterator[Row]:
    ratio = boot.http(options)["ratio"]
    yield Row("HTTP enqueue against a bare route that validates", "≥ 0.6", f"{ratio:.2f}", ratio >= 0.6, "http")


PARTS: dict[str, Callable[[Options], Iterator[Row]]] = {
    "throughput on Redis": throughput_on_redis,
    "throughput on SQLite": throughput_on_sqlite,
    "enqueue": enqueue,
    "idle pickup": pickup,
    "an idle pool": rest,
    "recovery": recovery,
    "start, health, import": prompt,
    "a million pending jobs": pending,
    "many workers": many,
    "HTTP": over_http,
}
