"""`python -m tests.fuzz --minutes 10 --seed 7 [--only status]`: each kind in turn, until the time is over or one fails."""

import argparse
import secrets
import sys

from tests.fuzz import commands, configuration, http, records, status
from tests.fuzz.runner import Ground, for_seconds, fuzz

KINDS: dict[str, Ground] = {
    "status": status.ground,
    "http": http.ground,
    "configuration": configuration.ground,
    "commands": commands.ground,
    "records-sqlite": records.sqlite_ground,
    "records-redis": records.redis_ground,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", choices=sorted(KINDS))
    parser.add_argument("--try", dest="number", type=int, help="repeat this one try")
    asked = parser.parse_args()
    chosen = [asked.only] if asked.only else list(KINDS)
    for name in chosen:
        tries = for_seconds(asked.minutes * 60 / len(chosen)) if asked.number is None else iter([asked.number])
        print(f"{name}: {fuzz(name, KINDS[name], asked.seed, tries):,} tries, seed {asked.seed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
