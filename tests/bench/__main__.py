"""The project's own benchmarks: each compares the product with a bare control in the same run, turn by turn.

    python -m tests.bench throughput --backend redis --workers 2 --runs 3
    python -m tests.bench pickup | recovery | idle | enqueue | pending [--backend sqlite|redis|valkey] …

Absolute numbers depend on the machine and on what else it does; the ratios are what may be compared.
"""

import argparse

from tests.bench import measures, speeds

MEASURES = {
    "throughput": speeds.throughput,
    "pickup": measures.pickup,
    "recovery": measures.recovery,
    "idle": measures.idle,
    "enqueue": measures.enqueue,
    "pending": measures.pending,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("--backend", default="redis", help="sqlite, redis or valkey")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=0, help="0: what suits the measure")
    options = parser.parse_args()
    MEASURES[options.measure](options)


if __name__ == "__main__":
    main()
