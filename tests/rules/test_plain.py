"""Parameters of plain kinds are read and described without a model, exactly as the model would have done it."""

import typing
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Optional

import pytest
from pydantic import Field, TypeAdapter

from pool.errors import InvalidPayload
from pool.jobs.payload import Signature
from pool.jobs.plain import described, schema_of

PLAIN = [
    int,
    str,
    float,
    bool,
    None,
    list,
    dict,
    Any,
    list[int],
    list[Any],
    dict[str, float],
    dict[int, list[str]],
    int | None,
    Optional[str],  # noqa: UP045  # the old words mean the same
    list[dict[str, int | None]],
]
NOT_PLAIN = [
    datetime,
    bytes,
    int | str,
    typing.List,  # noqa: UP006  # with no kind of its own
    typing.Dict,  # noqa: UP006
    None | int,
    tuple[int, ...],
    set[int],
    Annotated[int, Field(gt=0)],
    list[datetime],
]


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize("hint", PLAIN, ids=str)
def test_the_core_has_the_schema_that_pydantic_makes(hint: Any) -> None:
    assert schema_of(hint) == TypeAdapter(hint).core_schema


@pytest.mark.parametrize("hint", NOT_PLAIN, ids=str)
def test_what_is_not_plain_is_left_to_the_model(hint: Any) -> None:
    assert schema_of(hint) is None


def many(
    n: int,
    text: str = "",
    *,
    share: float = 1,
    is_on: bool = True,
    nothing: None = None,
    some: int | None = 3,
    numbers: list[int] = [],  # noqa: B006
    table: dict[str, Any] = {},  # noqa: B006
    deep: list[dict[str, int | None]] | None = None,
) -> None: ...


def with_rest(n: int, **rest: Any) -> None: ...


def nothing() -> None: ...


def unannotated(n=1) -> None: ...  # type: ignore[no-untyped-def]


def by_enum(colour: str = Colour.RED) -> None: ...


def by_model(when: datetime, n: int = 1) -> None: ...


@pytest.mark.parametrize("function", [many, with_rest, nothing])
def test_people_are_told_what_the_model_would_tell(function: Any) -> None:
    signature = Signature("shop.job", function)

    assert signature.schema() == signature._model.model_json_schema()
    assert described(signature._hints(), signature._defaults, takes_rest=False) is not None


@pytest.mark.parametrize("function", [unannotated, by_enum, by_model])
def test_where_the_model_has_words_of_its_own_it_tells_them(function: Any) -> None:
    signature = Signature("shop.job", function)

    assert signature.schema() == signature._model.model_json_schema()
    assert described(signature._hints(), signature._defaults, takes_rest=False) is None


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (many, '{"n": 1}'),
        (
            many,
            '{"n": "12", "share": 2, "is_on": "no", "numbers": ["3"], "table": {"a": [1, null]}, "deep": [{"x": null}]}',
        ),
        (many, '{"n": 1.5}'),
        (many, '{"text": "no n"}'),
        (many, '{"n": 1, "more": 2}'),
        (many, '{"n": 1, "p0": 2}'),
        (many, "[1]"),
        (many, '{"n": '),
        (with_rest, '{"n": 1, "more": {"a": 1}}'),
        (with_rest, '{"more": 1}'),
        (nothing, "{}"),
        (nothing, '{"n": 1}'),
        (unannotated, '{"n": {"a": [1, 2.5, null]}}'),
    ],
)
def test_a_payload_is_read_or_refused_as_by_the_model(function: Any, payload: str) -> None:
    plain, with_model = Signature("shop.job", function), with_a_model(function)

    assert outcome(plain.arguments, payload) == outcome(with_model.arguments, payload)
    assert "_model" not in plain.__dict__
    assert "_model" in with_model.__dict__


def simple(n: int, text: str = "", *, share: float = 1.0, is_on: bool = True, some: int | None = 3) -> None: ...


class Number(int):
    """One of a caller's own."""


@pytest.mark.parametrize(
    "given",
    [
        {"n": 1},
        {"some": None, "text": 'Grüße "€" \n', "n": 2},  # written in the order of the function
        {"n": "12", "share": 2, "is_on": "no"},
        {"n": 1, "share": 1e300, "text": Colour.RED},
        {"n": Number(7), "some": True},
        {"n": 10**5000},
        {"n": 1.5},
        {"n": 1, "share": float("nan")},
        {"n": 1, "share": float("-inf")},
        {"n": 1, "text": "NaN"},
        {"n": 1, "text": "\ud800"},
        {"n": 1, "text": b"bytes"},
        {"n": None},
        {"text": "no n"},
        {"n": 1, "more": 2},
        {"n": 1, "p0": 2},
    ],
)
def test_arguments_are_written_or_refused_as_by_the_model(given: dict[str, Any]) -> None:
    plain, with_model = Signature("shop.job", simple), with_a_model(simple)

    assert outcome(lambda given: plain.payload_of((), given), given) == outcome(
        lambda given: with_model.payload_of((), given), given
    )
    assert "_model" not in plain.__dict__
    assert "_model" in with_model.__dict__


@pytest.mark.parametrize(
    "payload", ['{"text": "a", "n": "1"}', '{"n": 1.5}', "[1]", "null", '{"n": ', '{"n": 1, "p0": 2}']
)
def test_foreign_text_is_written_or_refused_as_by_the_model(payload: str) -> None:
    plain, with_model = Signature("shop.job", simple), with_a_model(simple)

    assert outcome(plain.checked, payload) == outcome(with_model.checked, payload)


def with_a_model(function: Any) -> Signature:
    signature = Signature("shop.job", function)
    signature.__dict__["_core"] = None
    return signature


def outcome(step: Callable[[Any], Any], given: Any) -> Any:
    try:
        return step(given)
    except InvalidPayload as refused:
        return str(refused)
