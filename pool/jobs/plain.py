"""Jobs whose parameters are all of plain kinds: numbers, texts, lists, tables, or anything.

A model of them, as other kinds need, takes each worker that builds one 350 KB and a millisecond, and each that describes
one 3 MB. Here pydantic's core gets its schema at once, and so do people: both as pydantic would have made them.
"""

import types
import typing
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

Schema = dict[str, Any]
Read = tuple[dict[str, Any], dict[str, Any] | None, set[str]]
"""Values by field, those of unknown fields, and the names of all that were given."""

_JSON_TYPES = {"none": "null", "bool": "boolean", "int": "integer", "float": "number", "str": "string"}
_KINDS: dict[Any, Schema] = {
    Any: {"type": "any"},
    None: {"type": "none"},
    type(None): {"type": "none"},
    bool: {"type": "bool"},
    int: {"type": "int"},
    float: {"type": "float"},
    str: {"type": "str"},
    list: {"type": "list", "items_schema": {"type": "any"}},
    dict: {"type": "dict", "keys_schema": {"type": "any"}, "values_schema": {"type": "any"}},
}


def schema_of(hint: Any) -> Schema | None:
    """The core schema of JSON of this kind; None for one that is not plain."""
    origin = typing.get_origin(hint)
    if origin is None:
        return _KINDS.get(hint) if isinstance(hint, type) or hint is None or hint is Any else None
    parts = [schema_of(argument) for argument in typing.get_args(hint)]
    if None in parts:
        return None
    if origin is list and len(parts) == 1:
        return {"type": "list", "items_schema": parts[0]}
    if origin is dict and len(parts) == 2:
        return {"type": "dict", "keys_schema": parts[0], "values_schema": parts[1]}
    if origin in (typing.Union, types.UnionType) and len(parts) == 2 and parts[1] == _KINDS[None]:
        return {"type": "nullable", "schema": parts[0]}
    return None


def described(kinds: Mapping[str, Any], defaults: Mapping[str, Any], *, takes_rest: bool) -> Schema | None:
    """The JSON Schema of these parameters, but for its title; None where one of them or of the `defaults` is not plain.

    Where no kind is given at all, the model has a name for that.
    """
    schemas = {name: schema_of(hint) for name, hint in kinds.items()}
    if None in schemas.values() or _KINDS[Any] in schemas.values() or not all(map(_is_plain, defaults.values())):
        return None
    told = {name: {"default": default} for name, default in defaults.items() if is_told(default)}
    properties = {
        name: {**_json_schema_of(schema or {}), "title": name, **told.get(name, {})} for name, schema in schemas.items()
    }
    required = [name for name in kinds if name not in defaults]
    whole = {"additionalProperties": takes_rest, "properties": properties, "type": "object"}
    return whole | ({"required": required} if required else {})


def is_told(default: Any) -> bool:
    """Whether a schema tells the default. Of other kinds the function fills it in, and the schema says nothing."""
    return isinstance(default, str | int | float | None)


def _is_plain(default: Any) -> bool:
    return not is_told(default) or default is None or type(default) in (str, int, float, bool)


def _json_schema_of(schema: Schema) -> Schema:
    match schema["type"]:
        case "any":
            return {}
        case "list":
            return {"items": _json_schema_of(schema["items_schema"]), "type": "array"}
        case "dict":
            return {"additionalProperties": _json_schema_of(schema["values_schema"]) or True, "type": "object"}
        case "nullable":
            return {"anyOf": [_json_schema_of(schema["schema"]), {"type": "null"}]}
        case kind:
            return {"type": _JSON_TYPES[kind]}


def validator_of(kinds: Mapping[str, Any], optional: Set[str], *, takes_rest: bool) -> "SchemaValidator | None":
    """What reads JSON text or a dict into fields `p0`, `p1`, … (`Read`) for these parameters; None where one of them is not
    plain.

    Those that are `optional` may be left out. It raises pydantic's ValidationError.
    """
    fields: Schema = {}
    for number, (name, hint) in enumerate(kinds.items()):
        schema = schema_of(hint)
        if schema is None:
            return None
        whole = {"type": "default", "schema": schema, "default": None} if name in optional else schema
        fields[f"p{number}"] = {"type": "model-field", "schema": whole, "validation_alias": name}
    from pydantic_core import SchemaValidator

    extra = "allow" if takes_rest else "forbid"
    model_fields: Any = {"type": "model-fields", "fields": fields, "extra_behavior": extra}
    return SchemaValidator(model_fields, {"cache_strings": "none"})
