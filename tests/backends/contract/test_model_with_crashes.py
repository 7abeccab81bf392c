"""Two clients, and at any step one of them may be killed, cut off or overtaken: store and model still agree.

Fixed seeds, and one that is new each time: it is printed, and `JOBPOOL_MODEL_SEED=… pytest -k model_with_crashes` plays it again.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.backends.contract.troubled import TroubledDriver
from tests.helpers.stores import Place

FIXED = ("one", "two")
RARE = ("claimed", "lost", "died in a call", "pools lost", "ghosts", "adopted", "audited", "together", "ahead")
HARM = {
    "sqlite": ("killed in the step", "killed after the step"),
    "redis": ("request cut", "reply lost", "late copies"),
}


@pytest.fixture
def places(place: Place, tmp_path) -> Callable[[str], Place]:
    """Further empty stores of this kind."""

    def build(name: str) -> Place:
        if place.kind == "sqlite":
            return replace(place, url=f"sqlite:///{tmp_path}/{name}.db", opened=place.opened)
        return replace(place, namespace=f"{place.namespace}-{name}", opened=place.opened)

    return build


def drive(places: Callable[[str], Place], seeds: list[str], steps: int) -> Counter[str]:
    made: Counter[str] = Counter()
    for seed in seeds:
        print(f"JOBPOOL_MODEL_SEED={seed}")
        driver = TroubledDriver(places(f"house-{seed}"), seed)
        driver.run(steps)
        made += driver.made + driver.shaky.made
    return made


def a_new_seed() -> str:
    return os.environ.get("JOBPOOL_MODEL_SEED") or secrets.token_hex(4)


@pytest.mark.timeout(600)
def test_store_and_model_agree_though_clients_die_between_and_within_steps(place: Place, places) -> None:
    made = drive(places, list(FIXED), 180)
    hurt = HARM.get(place.kind, HARM["redis"])

    rare = [what for what in (*RARE, *hurt) if made[what] < 1]
    assert not rare, f"the drive never tried {rare}: {made}"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_store_and_model_agree_with_a_seed_that_is_new_each_time(places) -> None:
    drive(places, [a_new_seed()], 120)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_store_and_model_agree_though_clients_die_for_twenty_thousand_moves(places) -> None:
    drive(places, [a_new_seed() for _ in range(80)], 250)
