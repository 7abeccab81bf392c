"""Priorities by name and by number, and clear words for anything else."""

import pytest

from pool.errors import InvalidJob
from pool.jobs.priority import Priority, label_of, parse_priority


@pytest.mark.parametrize(("label", "number"), [("low", 0), ("medium", 10), ("high", 20), ("critical", 30)])
def test_labels_stand_for_numbers_in_any_case(label: str, number: int) -> None:
    for written in (label, label.upper(), label.title(), f" {label} "):
        assert parse_priority(written) == number
    assert label_of(number) == label


@pytest.mark.parametrize("value", [0, 1, 15, 99, 100, "0", "7", "100", "007", Priority.HIGH])
def test_every_integer_from_0_to_100_is_a_priority(value: int | str) -> None:
    assert parse_priority(value) == int(value)
    assert type(parse_priority(value)) is int


@pytest.mark.parametrize(
    "value", [-1, 101, 10**30, "101", "-1", "+5", "1.0", "", " ", "urgent", "hi gh", "٣", "1e1", "9" * 5_000, "\0", "²"]
)
def test_anything_else_is_refused_with_the_choices(value: int | str) -> None:
    with pytest.raises(InvalidJob, match=r"low = 0, medium = 10, high = 20, critical = 30") as refused:
        parse_priority(value)
    assert "unknown priority" in str(refused.value)


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_priority(value: bool) -> None:
    with pytest.raises(InvalidJob):
        parse_priority(value)


def test_a_number_between_the_labels_is_its_own_label() -> None:
    assert [label_of(number) for number in (1, 15, 31, 100)] == ["1", "15", "31", "100"]
