"""What is wrong, as RFC 9457 problem documents: `type` is for programs, `detail` is a sentence for people.

Texts of the world's errors stay inside (they name hosts and paths); they go to the log. Every JobpoolError has its
answer here, so that nothing a caller does ends in a 500.
"""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from pool import errors
from pool.logs import log

MEDIA_TYPE = "application/problem+json"
AGAIN_SOON_S = 2
AGAIN_LATER_S = 5


class Problem(errors.JobpoolError):
    """An answer that is not what was asked for. `kind` ends the URN in `type`; `more` are further members."""

    def __init__(
        self, status: int, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers, self.more = status, kind, detail, dict(headers or {}), more

    def document(self) -> dict[str, Any]:
        """The members of the problem document."""
        return {
            "type": f"urn:jobpool:{self.kind}",
            "title": self.kind.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> Response:
        """The document as an answer."""
        text = json.dumps(self.document(), ensure_ascii=True)
        return Response(text, self.status, headers=self.headers, media_type=MEDIA_TYPE)


def problem_of(error: errors.JobpoolError) -> Problem:
    """The answer that an error of ours means to the caller."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.InvalidPayload):
        return Problem(422, "invalid-payload", str(error), problems=error.problems)
    for kind, (status, name) in _ANSWERS.items():
        if isinstance(error, kind):
            return Problem(status, name, str(error), headers=_headers(status))
    if isinstance(error, errors.WorldError):
        return away()
    return Problem(409, "conflict", str(error))


def response_to(error: errors.JobpoolError) -> Response:
    """The answer to an error of ours; that the store is away goes to the log with its reason, now and then."""
    problem = problem_of(error)
    if problem.status == 503:
        log.limited("away", "answered 503", every_s=10.0, error=str(error))
    return problem.response()


def away() -> Problem:
    """The store is not there. What exactly is wrong with it is nobody's business outside."""
    return Problem(503, "store-unavailable", "the job store is not available; try again", headers=_headers(503))


def _headers(status: int) -> dict[str, str]:
    seconds = {429: AGAIN_LATER_S, 503: AGAIN_SOON_S}.get(status)
    return {"Retry-After": str(seconds)} if seconds else {}


# Most specific first.
_ANSWERS: dict[type[errors.JobpoolError], tuple[int, str]] = {
    errors.UnknownType: (422, "unknown-type"),
    errors.PayloadTooLarge: (422, "payload-too-large"),
    errors.InvalidJob: (422, "invalid-job"),
    errors.JobNotFound: (404, "job-not-found"),
    errors.IllegalMove: (409, "illegal-move"),
    errors.QueueFull: (429, "queue-full"),
    errors.UniqueConflict: (409, "unique-conflict"),
    errors.CallerError: (422, "invalid-request"),
    errors.ClaimLost: (409, "claim-lost"),
    errors.LaneBarred: (409, "claim-lost"),
    errors.RequestRefused: (409, "claim-lost"),
}
