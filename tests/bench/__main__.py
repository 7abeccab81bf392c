"""The project's own benchmarks: each compares the product with a bare control in the same run, turn by turn.

    python -m tests.bench throughput --backend redis --workers 2 --runs 3
    python -m tests.bench pickup | recovery | idle | footprint | enqueue | pending [--backend sqlite|redis|valkey] …
    python -m tests.bench boot | http          # what people wait for
    python -m tests.bench footprint            # memory of an idle pool by role, and of each further worker; --merge: merged by the kernel
    python -m tests.bench anatomy              # where the CPU of a job goes, what each promise adds
    python -m tests.bench growth               # by workers, payload and pending jobs; writes docs/plots
    python -m tests.bench scale                # what one Redis carries
    python -m tests.bench packed               # which code children run: makes pool/supervisor/packed.txt
    python -m tests.bench all --runs 3         # the table of docs/performance.md, as Markdown

Absolute numbers depend on the machine and on what else it does; the ratios are what may be compared.
"""

import argparse

from tests.bench import anatomy, boot, footprint, growth, measures, packed, scale, speeds, table

MEASURES = {
    "throughput": speeds.throughput,
    "pickup": measures.pickup,
    "recovery": measures.recovery,
    "idle": footprint.idle,
    "footprint": footprint.footprint,
    "enqueue": measures.enqueue,
    "pending": measures.pending,
    "growth": growth.growth,
    "scale": scale.scale,
    "anatomy": anatomy.anatomy,
    "boot": boot.boot,
    "http": boot.http,
    "packed": packed.make,
    "all": table.all_rows,
}
OF_BOTH = ("growth", "scale", "anatomy", "packed", "all")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument(
        "--backend", help="sqlite, redis or valkey; without it redis, or each where a measure is of both"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=0, help="0: what suits the measure")
    parser.add_argument("--quick", action="store_true", help="few runs of few jobs, to try whether it works")
    parser.add_argument(
        "--merge", action="store_true", help="footprint: with merge_memory; the machine's ksmd must run"
    )
    parser.add_argument("--out", help="folder for plots and numbers; without it docs/plots (--quick: a new one)")
    parser.add_argument(
        "--write", action="store_true", help="all, scale, anatomy: put the tables into the pages of docs/"
    )
    options = parser.parse_args()
    if options.measure not in OF_BOTH:
        options.backend = options.backend or "redis"
    MEASURES[options.measure](options)


if __name__ == "__main__":
    main()
