"""Payloads typed by the job function's signature: one schema checks Python callers, the CLI, HTTP and the worker.

pydantic is imported at the first use, not before: `import pool` must stay cheap for the callers' programs.
"""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar

from pool.errors import InvalidJob, InvalidPayload
from pool.jobs.checks import is_shallow
from pool.jobs.plain import Read, described, is_told, validator_of

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import SchemaValidator

T = TypeVar("T")
Kind = inspect.Parameter
Schema = dict[str, Any]
SHORT = 4000  # characters: a whole number in it has fewer digits than readers take (4,300)


class Signature:
    """The arguments of one job function: to JSON at enqueue, back from JSON in the worker, and as a JSON Schema."""

    def __init__(self, type_name: str, function: Callable[..., Any]) -> None:
        self.type_name, self.function = type_name, function
        self.parameters = inspect.signature(function).parameters
        for parameter in self.parameters.values():
            self._refuse_unnamed(parameter)

    def payload_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The call's arguments as checked JSON text; InvalidPayload names the fields that do not fit."""
        named = self._by_name(args, kwargs) if args else kwargs
        return self._dumped(self._validated(self._read_python, named))

    def checked(self, payload: str) -> str:
        """Foreign JSON text, checked and written as `payload_of` would have."""
        return self._dumped(self._validated(self._read_json, payload))

    def arguments(self, payload: str) -> dict[str, Any]:
        """Keyword arguments for the function from JSON text; InvalidPayload names the fields that do not fit."""
        try:
            fields, rest, given = self._read_fields(payload)
        except ValueError as error:
            raise self._misfit(error) from None
        names = self._names
        arguments = {names[key]: fields[key] for key in given if key in names}
        return {**arguments, **rest} if rest else arguments

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, and the function's own defaults where none was given."""
        return {**self._defaults, **arguments}

    def build(self) -> None:
        """Make now what reads the first payload: two milliseconds that no job shall wait for. InvalidJob as when declared."""
        _ = self._read_fields, self._names

    def schema(self) -> Schema:
        """JSON Schema (2020-12) of the payload."""
        plain = described(self._hints(), self._defaults, takes_rest=self._takes_rest)
        return self._model.model_json_schema() if plain is None else plain | {"title": self.type_name}

    @cached_property
    def _model(self) -> "type[BaseModel]":
        """A model of the parameters. Fields have names of ours and theirs as aliases, so that any name may be used."""
        from pydantic import ConfigDict, create_model
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation

        config = ConfigDict(
            extra="allow" if self._takes_rest else "forbid",
            ser_json_bytes="base64",
            val_json_bytes="base64",
            ser_json_inf_nan="constants",  # found and refused when dumped
            cache_strings="none",  # the first use of the cache would fill a quarter of a megabyte, in each worker
        )
        try:
            return create_model(self.type_name, __config__=config, **self._fields())
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
            raise InvalidJob(
                f"job {self.type_name!r} has a parameter that cannot travel as JSON: {str(error).splitlines()[0]}"
            ) from None

    # What reads and writes, without the arguments that nobody gives here: these are called for each job.

    @cached_property
    def _core(self) -> "SchemaValidator | None":
        """What reads without a model, where that can be."""
        return validator_of(self._hints(), self._defaults.keys(), takes_rest=self._takes_rest)

    @cached_property
    def _reader(self) -> Any:
        """What reads for `_write_json`: into a model, or of plain kinds into a `Read`."""
        return self._core if self._is_plain and self._core else self._model.__pydantic_validator__

    @cached_property
    def _read_json(self) -> "Callable[[str], BaseModel | Read]":
        return self._reader.validate_json  # type: ignore[no-any-return]

    @cached_property
    def _read_fields(self) -> Callable[[str], Read]:
        """What a worker reads with."""
        return self._core.validate_json if self._core else self._reader_by_model()

    def _reader_by_model(self) -> Callable[[str], Read]:
        read_json = self._model.__pydantic_validator__.validate_json

        def read(payload: str) -> Read:
            model = read_json(payload)
            return model.__dict__, model.__pydantic_extra__, model.__pydantic_fields_set__

        return read

    @cached_property
    def _named(self) -> dict[str, inspect.Parameter]:
        """The parameters but for a last one that takes the rest."""
        return {name: p for name, p in self.parameters.items() if not _is_rest(p)}

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {name: p.default for name, p in self._named.items() if p.default is not Kind.empty}

    @cached_property
    def _read_python(self) -> "Callable[[Any], BaseModel | Read]":
        return self._reader.validate_python  # type: ignore[no-any-return]

    @cached_property
    def _write_json(self) -> Callable[[Any], bytes]:
        """What writes what was read. A model refuses a value that is not what its annotation says; a plain one always is,
        once read."""
        if self._reader is self._core:
            return self._plain_writer()
        warnings: Any = False if self._is_plain else "error"
        write = self._model.__pydantic_serializer__.to_json
        return partial(write, by_alias=True, exclude_unset=True, warnings=warnings)

    def _plain_writer(self) -> Callable[[Read], bytes]:
        from pydantic_core import to_json

        names = self._names

        def write(read: Read) -> bytes:
            fields, _, given = read
            return to_json({names[key]: value for key, value in fields.items() if key in given})

        return write

    @property
    def _is_plain(self) -> bool:
        return not self._takes_rest and all(map(_is_plain, self._hints().values()))

    @cached_property
    def _names(self) -> dict[str, str]:
        """Field of the model → name of the parameter."""
        return {f"p{number}": name for number, name in enumerate(self._named)}

    def _fields(self) -> dict[str, Any]:
        hints, parameters = self._hints(), self._named
        return {field: _field(hints[name], name, parameters[name]) for field, name in self._names.items()}

    def _hints(self) -> dict[str, Any]:
        """What each parameter is annotated with; Any: nothing."""
        try:
            hints = typing.get_type_hints(self.function, include_extras=True)
            return {name: hints.get(name, Any) for name in self._named}
        except NameError as error:
            raise InvalidJob(
                f"job {self.type_name!r}: an annotation cannot be resolved ({error}); import it where the job is defined"
            ) from None

    @property
    def _takes_rest(self) -> bool:
        return any(_is_rest(parameter) for parameter in self.parameters.values())

    @cached_property
    def _taken_by_position(self) -> list[str]:
        return [name for name, p in self.parameters.items() if p.kind is Kind.POSITIONAL_OR_KEYWORD]

    def _by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = self._taken_by_position
        if len(args) > len(names):
            self._refuse({"arguments": f"{len(args)} given by position, at most {len(names)} are taken"})
        by_position = dict(zip(names, args, strict=False))
        twice = by_position.keys() & kwargs.keys()
        if twice:
            self._refuse(dict.fromkeys(sorted(twice), "given twice"))
        return {**by_position, **kwargs}

    def _validated(self, validate: Callable[..., T], value: Any) -> T:
        try:
            return validate(value)
        except ValueError as error:
            raise self._misfit(error) from None

    def _misfit(self, error: ValueError) -> ValueError | InvalidPayload:
        """What to raise for pydantic's error, which is a ValueError; to import it before a call would cost each job a microsecond."""
        from pydantic import ValidationError

        return InvalidPayload(self.type_name, problems_of(error)) if isinstance(error, ValidationError) else error

    def _dumped(self, read: "BaseModel | Read") -> str:
        try:
            text = self._write_json(read).decode()
            if not _is_surely_json(text):
                _read_back(text)
        except (ValueError, RecursionError) as error:
            raise InvalidPayload(self.type_name, {"payload": _why_not_json(error)}) from None
        return text

    def _refuse(self, problems: dict[str, str]) -> typing.NoReturn:
        raise InvalidPayload(self.type_name, problems)

    def _refuse_unnamed(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in (Kind.POSITIONAL_ONLY, Kind.VAR_POSITIONAL):
            raise InvalidJob(
                f"job {self.type_name!r}: parameter {parameter} has no name in JSON; jobs take their arguments by name"
            )


def problems_of(error: "ValidationError") -> dict[str, str]:
    """What is wrong, by field; never the values themselves, which may be secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return {".".join(str(part) for part in e["loc"]) or "payload": _in_our_words(e["type"], e["msg"]) for e in found}


def _is_surely_json(text: str) -> bool:
    """A quick look that most payloads stand: the writer writes NaN and infinity, and what no reader may read, as they are."""
    return len(text) < SHORT and "NaN" not in text and "Infinity" not in text and is_shallow(text)


def _read_back(text: str) -> None:
    from pydantic_core import from_json

    from_json(text, allow_inf_nan=False, cache_strings="none")


def _why_not_json(error: Exception) -> str:
    from pydantic_core import PydanticSerializationError

    if isinstance(error, PydanticSerializationError | UnicodeEncodeError | RecursionError):
        return f"cannot be written as JSON: {error}"
    return "nested too deep" if "recursion" in str(error) else "NaN and infinity are not JSON"


def _in_our_words(kind: str, message: str) -> str:
    return {"missing": "missing", "extra_forbidden": "unknown field"}.get(kind, message[:1].lower() + message[1:])


def _field(hint: Any, name: str, parameter: inspect.Parameter) -> Any:
    """One field of the model. Without an annotation: plain JSON, so that nothing changes its kind on the way.

    A parameter with a default may be left out; the function itself fills it in, in the worker.
    """
    from pydantic import Field, JsonValue

    kind = JsonValue if hint is Any else hint
    if parameter.default is Kind.empty:
        return kind, Field(alias=name, title=name)
    if is_told(parameter.default):
        return kind, Field(default=parameter.default, alias=name, title=name)
    return kind, Field(default_factory=lambda: None, alias=name, title=name)


def _is_plain(hint: Any) -> bool:
    """Whether it is a plain kind, or one of several."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)
    return all(any(kind is plain for plain in _PLAIN) for kind in kinds)


_PLAIN = (str, int, float, bool, NoneType)


def _is_rest(parameter: inspect.Parameter) -> bool:
    return parameter.kind is Kind.VAR_KEYWORD
