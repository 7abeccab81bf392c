"""The OpenAPI document: what each route takes and answers. Served to strangers too; it holds nothing of the installation
but for a caller with a token, who sees the types and queues that this token may use.
"""

import re
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pool.jobs.lifecycle import Reason, Status
from pool.jobs.published import PublishedType
from pool.web.auth import Caller
from pool.web.bodies import BODIES
from pool.web.problems import MEDIA_TYPE

Document = dict[str, Any]
REF = "#/components/schemas/"

TIME = {"type": ["string", "null"], "format": "date-time"}
TEXT = {"type": ["string", "null"]}
NUMBER = {"type": ["number", "null"]}
WHOLE = {"type": "integer"}

_ATTEMPT = {
    "type": "object",
    "properties": {
        "number": WHOLE,
        "worker": {"type": "string"},
        "started_at": TIME,
        "ended_at": TIME,
        "outcome": {"enum": ["completed", "failed", "retried", "returned", "cancelled", "lost"]},
        "cause": {"type": ["object", "null"]},
        "output": {"type": "string"},
    },
}
_JOB_FIELDS: Document = {
    "id": {"type": "string"},
    "type": {"type": "string"},
    "queue": {"type": "string"},
    "payload": {},
    "priority": WHOLE,
    "status": {"enum": [status.value for status in Status]},
    "retry_count": WHOLE,
    "max_retries": WHOLE,
    "kill_count": WHOLE,
    "max_kills": WHOLE,
    "timeout": {"type": "number"},
    "owner": {"type": "string"},
    "idempotency_key": TEXT,
    "unique_key": TEXT,
    "parent_id": TEXT,
    "batch_id": TEXT,
    "limit_key": TEXT,
    "run_at": TIME,
    "expires_at": TIME,
    "claimed_at": TIME,
    "worker_id": TEXT,
    "cancel_requested": {"type": "boolean"},
    "error": {**TEXT, "description": "cleaned; admins only"},
    "exception": {**TEXT, "description": "admins only"},
    "reason": {"enum": [*(reason.value for reason in Reason), None]},
    "result": {},
    "progress": NUMBER,
    "progress_note": TEXT,
    "attempts": {"type": "array", "items": _ATTEMPT},
    "created_at": TIME,
    "updated_at": TIME,
    "started_at": TIME,
    "finished_at": TIME,
}
_REPLAY = {"replayed": {"type": "boolean"}, "payload_differs": {"type": "boolean"}}
_LEASE = {"lease_seconds": {"type": "number"}, "lease_expires_at": TIME}


def _object(properties: Document, required: list[str] | None = None) -> Document:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


def _list_of(items: Document) -> Document:
    return {"type": "array", "items": items}


SCHEMAS: Document = {
    "Job": _object(_JOB_FIELDS),
    "NewJob": _object({**_JOB_FIELDS, **_REPLAY}, ["id", "status", *_REPLAY]),
    "ClaimedJob": _object({**_JOB_FIELDS, **_LEASE, "attempt": WHOLE, "claim_token": {"type": "string"}}),
    "Heartbeat": _object({**_JOB_FIELDS, **_LEASE}),
    "JobPage": _object({"jobs": _list_of({"$ref": f"{REF}Job"}), "after": TEXT, "partial": {"type": "boolean"}}),
    "Batch": {"anyOf": [{"$ref": f"{REF}BatchBody"}, _list_of({"$ref": f"{REF}JobBody"})]},
    "BatchAnswer": _object(
        {
            "ids": _list_of({"type": "string"}),
            "jobs": _list_of(_object({"id": {"type": "string"}, "status": _JOB_FIELDS["status"], **_REPLAY})),
        }
    ),
    "Types": _object({"types": _list_of({"type": "object", "required": ["name", "schema"]})}),
    "Panel": _object(
        {name: {"type": "object"} for name in ("queues", "delayed", "dead", "stats", "backend", "web")}
        | {"generated_at": {"type": "string", "format": "date-time"}}
    ),
    "Health": _object({"status": {"const": "ok"}}),
    "Problem": {
        **_object(
            {"type": {"type": "string"}, "title": {"type": "string"}, "status": WHOLE, "detail": {"type": "string"}}
        ),
        "description": "RFC 9457; `type` is urn:jobpool:KIND",
    },
}

_WRONG = {
    "400": "the request is not HTTP",
    "401": "no token, or an unknown one",
    "403": "the token may not do this",
    "404": "no such job, or another producer's",
    "409": "the job is not in a state for this, or not in your hands",
    "413": "the body is too long",
    "415": "the body is not JSON",
    "422": "the request can never succeed as it is",
    "429": "the queue is full: see Retry-After",
    "503": "the store is not available: see Retry-After",
}
_ALWAYS = ("400", "401", "403", "422", "503")
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "repeating the request with the same key has the effect of sending it once",
    "schema": {"type": "string", "pattern": r"^[!-~]{1,200}$"},
}


def documented(
    summary: str,
    *,
    ok: dict[int, str | None],
    body: type[BaseModel] | str | None = None,
    id: bool = False,
    key: bool = False,
    optional: bool = False,
    public: bool = False,
) -> dict[str, Any]:
    """Arguments for a route: what the document says of it."""
    wrong = [*_ALWAYS, *(["404", "409"] if id else []), *(["409", "413", "415", "429"] if body else [])]
    responses = {str(status): _answer(name) for status, name in ok.items()}
    responses |= {} if public else {status: _problem(status) for status in sorted(set(wrong))}
    extra: Document = {"responses": responses, "parameters": [_KEY] if key else []}
    if body is not None:
        name = body if isinstance(body, str) else body.__name__
        extra["requestBody"] = {"required": not optional, "content": _json(f"{REF}{name}")}
    if not public:
        extra["security"] = [{"token": []}]
    return {"summary": summary, "openapi_extra": extra, "response_model": None}


def _answer(name: str | None) -> Document:
    if name and "/" in name:
        return {"description": "a stream", "content": {name: {"schema": {"type": "string"}}}}
    return {"description": "done", "content": _json(REF + name)} if name else {"description": "nothing to do"}


def _problem(status: str) -> Document:
    return {"description": _WRONG[status], "content": {MEDIA_TYPE: {"schema": {"$ref": f"{REF}Problem"}}}}


def _json(ref: str) -> Document:
    return {"application/json": {"schema": {"$ref": ref}}}


def document_of(app: FastAPI, caller: Caller | None, types: list[PublishedType]) -> Document:
    """The document for this caller: with the types and queues it may use, where it is known."""
    document = FastAPI.openapi(app)
    bodies = models_json_schema([(model, "validation") for model in BODIES], ref_template=f"{REF}{{model}}")[1]["$defs"]
    own = {**document.get("components", {}).get("schemas", {}), **bodies, **SCHEMAS}
    if caller is not None:
        own |= {name: _narrowed(own[name], caller, types) for name in ("JobBody", "FollowUp")}
        own |= {_moved_name(known.name, name): _moved(known, part) for known in types for name, part in _parts(known)}
    components = {**document.get("components", {}), "schemas": own}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {**document, "paths": _paths(document["paths"]), "components": components}


def _narrowed(schema: Document, caller: Caller, types: list[PublishedType]) -> Document:
    properties = dict(schema["properties"])
    if types:
        properties["type"] = {"type": "string", "enum": [known.name for known in types]}
        schema = {**schema, "allOf": [*schema.get("allOf", ()), {"anyOf": [_variant(known) for known in types]}]}
    if caller.queues != ("*",):
        properties["queue"] = {"anyOf": [{"enum": list(caller.queues)}, {"type": "null"}]}
    return {**schema, "properties": properties}


def _variant(known: PublishedType) -> Document:
    """What a job of this type looks like: its payload by its own schema."""
    payload = _moved(known, {name: part for name, part in known.schema.items() if name != "$defs"})
    required = ["type", "payload"] if known.schema.get("required") else ["type"]
    return {"properties": {"type": {"const": known.name}, "payload": payload}, "required": required}


def _parts(known: PublishedType) -> list[tuple[str, Any]]:
    """The definitions that its schema refers to."""
    found = known.schema.get("$defs")
    return list(found.items()) if isinstance(found, dict) else []


def _moved(known: PublishedType, schema: Any) -> Any:
    """The schema with its references as they are in this document, where its definitions have another place."""
    if isinstance(schema, list):
        return [_moved(known, part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    place = schema.get("$ref")
    if isinstance(place, str) and place.startswith("#/$defs/"):
        return {"$ref": REF + _moved_name(known.name, place.removeprefix("#/$defs/"))}
    return {name: _moved(known, part) for name, part in schema.items()}


def _moved_name(type_name: str, name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{type_name}.{name}")


def _paths(paths: Document) -> Document:
    """FastAPI's own idea of a 422 is not ours."""
    return {path: {method: _operation(said) for method, said in methods.items()} for path, methods in paths.items()}


def _operation(said: Document) -> Document:
    responses = {
        status: _problem("422") if status == "422" else answer
        for status, answer in said["responses"].items()
        if answer.get("description") != "Successful Response"
    }
    parameters = [_ID if known["name"] == "id" else known for known in said.get("parameters", [])]
    return {**said, "responses": responses, "parameters": parameters}
