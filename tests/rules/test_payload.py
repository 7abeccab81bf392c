"""Payloads typed by the job's signature: there and back unchanged, or refused with the field named."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from pool.errors import InvalidJob, InvalidPayload
from pool.jobs.payload import Signature


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: Decimal


class Address(BaseModel):
    street: str
    number: int = 1


def everything(
    n: int,
    when: datetime,
    day: date,
    who: UUID,
    price: Decimal,
    colour: Colour,
    point: Point,
    address: Address,
    raw: bytes,
    gap: timedelta,
    tags: set[str],
    table: dict[int, float],
    plain=None,
) -> None: ...


def signature(function: Any) -> Signature:
    return Signature("shop.job", function)


def test_rich_values_come_back_as_they_were() -> None:
    given = {
        "n": 2**70,
        "when": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        "day": date(2026, 2, 28),
        "who": uuid4(),
        "price": Decimal("19.90"),
        "colour": Colour.RED,
        "point": Point(1, Decimal("2.50")),
        "address": Address(street="Rue de l'Été", number=7),
        "raw": b"\xff\x00raw",
        "gap": timedelta(milliseconds=1500),
        "tags": {"a", "b"},
        "table": {1: 0.1, 2: 1e300},
        "plain": {"🎉": ["\0", None, True, 2**64, "é"]},
    }
    shape = signature(everything)

    assert shape.arguments(shape.payload_of((), given)) == given


def test_arguments_by_position_are_stored_by_name() -> None:
    def mail(to: str, subject: str = "Hi") -> None: ...

    assert json.loads(signature(mail).payload_of(("a@example.org",), {})) == {"to": "a@example.org"}


def test_a_default_is_filled_in_by_the_function_when_it_runs() -> None:
    def mail(to: str, copies: list[str] = []) -> None: ...  # noqa: B006

    shape = signature(mail)
    assert shape.arguments('{"to":"x"}') == {"to": "x"}
    assert shape.with_defaults({"to": "x"}) == {"to": "x", "copies": []}


def test_every_name_that_python_allows_is_a_field() -> None:
    def odd(schema: int, model_config: int, _hidden: int, copy: int, self: int, p0: int, été: int) -> None: ...

    given = {"schema": 1, "model_config": 2, "_hidden": 3, "copy": 4, "self": 5, "p0": 6, "été": 7}
    assert signature(odd).arguments(signature(odd).payload_of((), given)) == given


def test_further_keywords_are_kept_where_the_function_takes_them() -> None:
    def loose(a: int, **rest: Any) -> None: ...

    shape = signature(loose)
    assert shape.arguments(shape.payload_of((1,), {"b": [2], "c": None})) == {"a": 1, "b": [2], "c": None}


@pytest.mark.parametrize(
    "arguments, field, problem",
    [
        ({}, "to", "missing"),
        ({"to": 5}, "to", "valid string"),
        ({"to": "x", "cc": "y"}, "cc", "unknown field"),
        ({"to": "x", "copies": "many"}, "copies", "valid integer"),
        ({"to": "x", "point": {"x": "one", "y": 1}}, "point.x", "valid integer"),
        ({"to": "x", "level": 11}, "level", "less than or equal to 10"),
    ],
)
def test_what_does_not_fit_is_named_by_field(arguments: dict[str, Any], field: str, problem: str) -> None:
    def mail(to: str, copies: int = 1, point: Point | None = None, level: Annotated[int, Field(le=10)] = 1) -> None: ...

    for attempt in (lambda s: s.payload_of((), arguments), lambda s: s.arguments(json.dumps(arguments))):
        with pytest.raises(InvalidPayload) as caught:
            attempt(signature(mail))
        assert any(problem in text for name, text in caught.value.problems.items() if name.startswith(field))
        assert "shop.job" in str(caught.value)


def test_a_refusal_never_repeats_the_value() -> None:
    def pay(card: int) -> None: ...

    with pytest.raises(InvalidPayload) as caught:
        signature(pay).payload_of((), {"card": "4111-SECRET"})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("args, kwargs", [((1, 2), {}), ((1,), {"a": 1})])
def test_too_many_or_doubled_arguments_are_refused(args: Any, kwargs: Any) -> None:
    def job(a: int) -> None: ...

    with pytest.raises(InvalidPayload):
        signature(job).payload_of(args, kwargs)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"x"', "{'a': 1}", '{"a":1}{"a":2}'])
def test_a_payload_that_is_no_json_object_is_refused(text: str) -> None:
    def job(a: int = 0) -> None: ...

    with pytest.raises(InvalidPayload, match="payload"):
        signature(job).arguments(text)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), [float("-inf")], "\ud800", {"\udfff": 1}, {1, 2}, object(), b"x", {1: 2}]
)
def test_without_an_annotation_only_plain_json_is_taken(value: Any) -> None:
    def job(a) -> None: ...

    with pytest.raises(InvalidPayload):
        signature(job).payload_of((value,), {})


def test_values_nested_without_end_are_refused() -> None:
    def job(a) -> None: ...

    endless: list[Any] = []
    endless.append(endless)
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for value in (endless, deep):
        with pytest.raises(InvalidPayload):
            signature(job).payload_of((value,), {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_typed_nan_is_refused_with_the_reason(value: float) -> None:
    def job(a: float, note: str = "") -> None: ...

    with pytest.raises(InvalidPayload, match="NaN"):
        signature(job).payload_of((value,), {})
    assert signature(job).payload_of((1.0,), {"note": "NaN or Infinity"}) == '{"a":1.0,"note":"NaN or Infinity"}'


def test_a_validator_that_makes_another_kind_of_it_is_told(recwarn: pytest.WarningsRecorder) -> None:
    """Of plain kinds the writer does not watch for this; a kind with a validator of its own is not plain."""

    def job(n: int, mail: Annotated[str, AfterValidator(lambda text: object())]) -> None: ...

    with pytest.raises(InvalidPayload, match="cannot be written as JSON"):
        signature(job).payload_of((1, "a@example.org"), {})
    assert not recwarn.list


class Shade(StrEnum):
    DARK = "dark"


@pytest.mark.parametrize("value", [True, 1, 1.5, "x", "1", None, Shade.DARK, 10**30, -0.0, b"x", [1], {}])
def test_plain_kinds_are_written_as_by_a_writer_that_watches(value: Any) -> None:
    def plain(a: int | None = None, b: str = "", c: float = 0.0, d: bool = False, e: int | str = 0) -> None: ...

    def watched(
        a: int | None = None, b: str = "", c: float = 0.0, d: bool = False, e: int | str = 0, f: date | None = None
    ) -> None: ...

    for name in "abcde":
        told = []
        for function in (plain, watched):
            try:
                told.append(signature(function).payload_of((), {name: value}))
            except InvalidPayload as refusal:
                told.append(str(refusal))
        assert told[0] == told[1]


def test_a_number_with_more_digits_than_readers_take_is_refused() -> None:
    def job(a: int) -> None: ...

    with pytest.raises(InvalidPayload):
        signature(job).payload_of((10**4301,), {})


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(plain_json)
def test_any_plain_json_comes_back_exactly(value: Any) -> None:
    def job(a) -> None: ...

    shape = signature(job)
    back = shape.arguments(shape.payload_of((value,), {}))["a"]
    assert back == value
    assert json.dumps(back) == json.dumps(value)  # 1 is not True and not 1.0


def test_foreign_text_is_written_as_our_own() -> None:
    def job(a: int, b: str = "") -> None: ...

    shape = signature(job)
    assert shape.checked('{ "b": "x",\n "a": "1" }') == shape.payload_of((1,), {"b": "x"})


def test_positional_only_parameters_are_refused_at_the_declaration() -> None:
    def one(a: int, /) -> None: ...
    def many(*a: int) -> None: ...

    for function in (one, many):
        with pytest.raises(InvalidJob, match="name"):
            signature(function)


def test_a_parameter_that_cannot_travel_is_named() -> None:
    class Session:
        pass

    def job(session: Session) -> None: ...

    with pytest.raises(InvalidJob, match="cannot travel as JSON"):
        signature(job).payload_of((), {"session": Session()})


def test_an_annotation_that_cannot_be_resolved_is_named() -> None:
    def job(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidJob, match="Nowhere"):
        signature(job).schema()


def test_the_schema_tells_strangers_what_fits() -> None:
    def mail(to: str, copies: int = 1, when: datetime | None = None) -> None: ...

    schema = signature(mail).schema()
    assert schema["title"] == "shop.job"
    assert schema["required"] == ["to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["copies"] == {"default": 1, "title": "copies", "type": "integer"}
