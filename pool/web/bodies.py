"""What callers send, by shape. What the values mean is checked by `pool.jobs`, for all ways in alike.

Strict: nothing is converted, unknown fields are refused. The patterns are for the OpenAPI document.
"""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from pool.jobs.payload import problems_of
from pool.jobs.times import LATEST, MAX_SPAN_S
from pool.web.problems import Problem

MAX_NAME = 200
MAX_TEXT = 100_000
NAME_PATTERN = r"^[^\s\x00-\x1f\x7f-\x9f](?:[^\x00-\x1f\x7f-\x9f]{0,198}[^\s\x00-\x1f\x7f-\x9f])?$"
QUEUE_PATTERN = r"^[^\s,*\x00-\x1f\x7f-\x9f](?:[^,\x00-\x1f\x7f-\x9f]{0,198}[^\s,\x00-\x1f\x7f-\x9f])?$"
TIME_PATTERN = (
    r"^20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])$"
)

ModelType = TypeVar("ModelType", bound=BaseModel)


def _with(pattern: str) -> Any:
    """For the document only: `pool.jobs.checks` judges, and says it better."""
    return Field(min_length=1, max_length=MAX_NAME, json_schema_extra={"pattern": pattern})


def _both(*names: str) -> dict[str, Any]:
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


Name = Annotated[str, _with(NAME_PATTERN)]
Queue = Annotated[str, _with(QUEUE_PATTERN)]
Time = Annotated[str, Field(max_length=64, json_schema_extra={"pattern": TIME_PATTERN})]
Epoch = Annotated[float, Field(ge=0, le=LATEST)]
Span = Annotated[float, Field(ge=0, le=MAX_SPAN_S)]
PositiveSpan = Annotated[float, Field(gt=0, le=MAX_SPAN_S)]
Label = Annotated[str, Field(max_length=16, json_schema_extra={"pattern": "^(low|medium|high|critical)$"})]


def _whole(value: Any) -> Any:
    """In JSON 64.0 is a whole number too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# It stands after the bounds: those that are put around a function are not in the document.
WHOLE = BeforeValidator(_whole)
PriorityNumber = Annotated[int, Field(ge=0, le=100), WHOLE]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class FollowUp(Body):
    """A job that is enqueued in the same step in which another one ends."""

    type: Name = Field(description="job type, see GET /types")
    payload: dict[str, JsonValue] = Field(default_factory=dict, description="its arguments by name")
    queue: Queue | None = Field(None, description="default: that of the type")
    priority: PriorityNumber | Label | None = Field(
        None, description="0 to 100, or low = 0, medium = 10, high = 20, critical = 30; default: that of the type"
    )
    max_retries: Annotated[int, Field(ge=0, le=100), WHOLE] | None = Field(None, description="0 = at most once")
    delay: Span | None = Field(None, description="start no sooner than so many seconds from now")


class JobBody(FollowUp):
    """A job to enqueue."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {"not": _both("run_at", "delay")},
                {"not": _both("callback_url", "on_success")},
                {"not": _both("callback_url", "on_failure")},
            ],
            "examples": [{"type": "tasks.send_email", "payload": {"to": "a@example.org"}, "priority": "medium"}],
        }
    )
    run_at: Time | Epoch | None = Field(None, description="RFC 3339 with Z or an offset, or epoch seconds; or `delay`")
    expires_in: PositiveSpan | None = Field(None, description="cancelled if not started within so many seconds")
    idempotency_key: Name | None = Field(None, description="the same key answers with the first job")
    unique_key: Name | None = Field(None, description="at most one live job has it")
    on_success: FollowUp | None = Field(None, description="enqueued when this job completes")
    on_failure: FollowUp | None = Field(None, description="enqueued when this job fails for good")
    callback_url: Annotated[str, Field(max_length=2000, json_schema_extra={"pattern": "^https?://"})] | None = Field(
        None, description="told when the job has completed or failed; its host must be on the server's list"
    )


class BatchBody(Body):
    """Jobs that enter all together or not at all."""

    jobs: list[JobBody] = Field(description="at most 10,000")
    refuse_above: Annotated[int, Field(ge=0, le=10**12), WHOLE] | None = Field(
        None, description="429 when a target queue has more pending jobs than this"
    )


class ClaimBody(Body):
    """What a worker wants."""

    queues: Annotated[list[Queue], Field(min_length=1, max_length=100)] | None = Field(
        None, description="strict order; default: all that the token allows"
    )
    wait: Annotated[float, Field(ge=0, le=30)] = Field(0.0, description="seconds to wait for a job")


Token = Annotated[str, Field(min_length=1, max_length=200)]


class CompleteBody(Body):
    """The job is done."""

    claim_token: Token
    result: JsonValue = Field(None, description="kept with the job")


class FailBody(Body):
    """The attempt failed. Whether the job runs again is decided by its retries and the rules of its type."""

    claim_token: Token
    error: Annotated[str, Field(max_length=MAX_TEXT)] = Field(description="for people; cleaned of secrets and paths")
    exception: Annotated[str, Field(max_length=MAX_NAME)] | None = Field(None, description="the error's class")
    fatal: bool = Field(False, description="never try again")
    retry_after: Span | Annotated[str, Field(max_length=100)] | None = Field(
        None, description="seconds, or the value of an HTTP Retry-After header: try no sooner"
    )


class HeartbeatBody(Body):
    """Still at work."""

    claim_token: Token
    progress: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="0 to 1")
    note: Annotated[str, Field(max_length=1000)] | None = Field(None, description="what it is doing, for people")


class RetryBody(Body):
    """Run a failed or cancelled job again."""

    payload: dict[str, JsonValue] | None = Field(None, description="instead of the old one")


BODIES: tuple[type[BaseModel], ...] = (
    JobBody,
    FollowUp,
    BatchBody,
    ClaimBody,
    CompleteBody,
    FailBody,
    HeartbeatBody,
    RetryBody,
)
_LIST_OF_JOBS = TypeAdapter(list[JobBody])


def read(model: type[ModelType], raw: bytes) -> ModelType:
    """The body; Problem 422 names the fields that do not fit, never their values."""
    try:
        return model.model_validate_json(raw or b"{}")
    except ValidationError as error:
        raise _unfit(error) from None


def read_batch(raw: bytes) -> BatchBody:
    """A batch: `{"jobs": […]}`, or the bare list."""
    if raw.lstrip()[:1] != b"[":
        return read(BatchBody, raw)
    try:
        return BatchBody(jobs=_LIST_OF_JOBS.validate_json(raw))
    except ValidationError as error:
        raise _unfit(error) from None


def _unfit(error: ValidationError) -> Problem:
    problems = dict(list(problems_of(error).items())[:20])
    listing = "; ".join(f"{field}: {problem}" for field, problem in problems.items())
    return Problem(422, "invalid-request", f"the body does not fit: {listing}"[:2000], problems=problems)
