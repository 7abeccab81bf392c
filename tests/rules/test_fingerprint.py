"""Which failures count as the same: what differs from job to job is left out, what tells them apart stays."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.jobs.fingerprint import families_of, fingerprint_of, shape_of
from pool.jobs.lifecycle import Reason, Status
from tests.cli.test_why import JOB

DEAD = dataclasses.replace(
    JOB, status=Status.FAILED, reason=Reason.RETRIES_EXHAUSTED, exception="ValueError", error="x"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 failed", "order 4711 failed"),
        ("order 230000 failed", "order 1 failed"),
        ("no user 'ann'", "no user 'bob'"),
        ('no file "a.txt"', 'no file "b c.txt"'),
        ("commit deadbeef1 is gone", "commit 0123456789abcdef is gone"),
        ("job 01a22c18-36dd-728b-9c6e-6bdb5ea48467", "job 01a22c18-4db2-756d-84b9-7779b51fe1cb"),
        ("at 0x7fa1c8179a50", "at 0x7fa1c81bdd50"),
        ("a  b\nc", "a b c"),
    ],
)
def test_texts_that_differ_in_what_differs_are_one_failure(one: str, other: str) -> None:
    assert shape_of(one) == shape_of(other)


@pytest.mark.parametrize(
    "change", [{"type": "other"}, {"reason": Reason.TIMEOUT}, {"exception": "KeyError"}, {"error": "y"}]
)
def test_type_reason_class_and_text_tell_failures_apart(change: dict[str, object]) -> None:
    assert fingerprint_of(DEAD) != fingerprint_of(dataclasses.replace(DEAD, **change))


def test_families_are_counted_the_most_frequent_first_with_their_newest_example() -> None:
    jobs = [
        dataclasses.replace(DEAD, id=f"a{number}", error=f"order {number}", finished_at=100.0 + number)
        for number in range(3)
    ]
    families = families_of([dataclasses.replace(DEAD, id="b", error="odd", finished_at=5.0), *jobs])
    assert [(family.count, family.shape) for family in families] == [(3, "order <n>"), (1, "odd")]
    assert (families[0].example, families[0].first_at, families[0].last_at) == ("a2", 100.0, 102.0)
    assert families_of([]) == []


@given(st.text(max_size=5000))
def test_any_text_has_a_fingerprint_and_it_does_not_change(text: str) -> None:
    job = dataclasses.replace(DEAD, error=text)
    assert fingerprint_of(job) == fingerprint_of(job)
    assert len(fingerprint_of(job)) == 10
