"""Job ids sort by the time they were made, never repeat, and are told from other texts."""

import time
import uuid

import pytest

from pool.jobs.ids import is_job_id, new_job_id
from tests.helpers.stores import together

GOOD = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_job_id())
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= after


def test_ids_made_later_sort_later_also_within_a_millisecond() -> None:
    made = [new_job_id() for _ in range(10_000)]
    assert made == sorted(made)


def test_ids_do_not_repeat() -> None:
    assert len({new_job_id() for _ in range(20_000)}) == 20_000


def test_forked_processes_do_not_make_the_same_ids() -> None:
    shares = together(4, lambda _: [new_job_id() for _ in range(1_000)])
    assert len({made for share in shares for made in share}) == 4_000


def test_an_id_is_recognised() -> None:
    assert is_job_id(GOOD)
    assert all(is_job_id(new_job_id()) for _ in range(100))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        str(uuid.UUID(int=0)),
        GOOD.upper(),
        GOOD + "\n",
        " " + GOOD,
        GOOD.replace("-", ""),
        GOOD[:-1],
        "'; DROP TABLE jobs; --",
    ],
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_job_id(text)
