"""`python -m tests.chaos --minutes 10 --backend sqlite|redis|valkey --seed N`: break everything, then count."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import Order, run


def words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--backend", choices=("sqlite", "redis", "valkey"), default="sqlite")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--pools", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="accidents whose name contains this")
    return parser.parse_args()


def main() -> int:
    """0 when every promise was kept. The folder with ledger and logs stays when not."""
    asked = words()
    folder = Path(tempfile.mkdtemp(prefix="jobpool-chaos-"))
    print(f"seed {asked.seed}; ledger and logs in {folder}", flush=True)
    order = Order(asked.seed, asked.minutes * 60, asked.backend, asked.pools, asked.workers, asked.only)
    report = run(order, folder / "town")
    print(report.text(), flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
