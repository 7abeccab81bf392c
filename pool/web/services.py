"""What the routes share: the store, the types, who waits for what. Made once per process, found through the app."""

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request

from pool.backends.contract import Backend, PoolState
from pool.clock import monotonic_now, wall_now
from pool.errors import BackendUnavailable
from pool.jobs.documents import REDACT_SETTING
from pool.jobs.job import Job
from pool.jobs.policy import Policy, policy_from
from pool.jobs.registry import Defaults, defaults_from
from pool.logs import log
from pool.settings import Config
from pool.web.arrivals import Arrivals
from pool.web.auth import Caller, Failures, Tokens
from pool.web.desk import StoreDesk
from pool.web.problems import Problem
from pool.web.remembered import RememberedClaims
from pool.web.typebook import TypeBook
from pool.web.views import Document, document_for
from pool.web.waiting import JobWatch, QueueWatch

REFRESH_S = 1.0


@dataclass
class Services:
    """Everything a route may need. `stopping` is set when the server has been told to leave: waits end then."""

    config: Config
    desk: StoreDesk
    tokens: Tokens
    types: TypeBook
    stopping: asyncio.Event
    failures: Failures = field(default_factory=Failures)
    remembered: RememberedClaims = field(default_factory=RememberedClaims)

    def __post_init__(self) -> None:
        self.job_watch = JobWatch(self.desk, self.stopping)
        self.arrivals = Arrivals(self.desk)
        self.queue_watch = QueueWatch(self.desk, self.stopping)
        self.defaults: Defaults = defaults_from(self.config.jobs)

    @property
    def lease_seconds(self) -> float:
        return self.config.backend.lease

    now = staticmethod(monotonic_now)
    wall_now = staticmethod(wall_now)

    def policy_of(self, type_name: str) -> Policy:
        """The retry rules of a type whose workers are not ours: its `[[types]]` entry, else the defaults of [jobs]."""
        declared = next((entry for entry in self.config.types if entry.name == type_name), None)
        table = declared.backoff if declared and declared.backoff else None
        return policy_from(table, default=self.defaults.backoff)

    def document(self, job: Job, caller: Caller) -> Document:
        """The job as this caller may see it."""
        return document_for(job, caller, self.types.redacted(job.type))

    def work_document(self, job: Job, caller: Caller) -> Document:
        """The job for the one who runs it: nothing of its payload is hidden."""
        return document_for(job, caller, ())

    async def keep_types_fresh(self) -> None:
        """Read what pools publish, about each second, for as long as the server runs."""
        while not self.stopping.is_set():
            try:
                self.types.learn(*await self.desk.ask(_types_of_pools))
            except BackendUnavailable as error:
                log.limited("types", "cannot read the job types", every_s=60.0, error=str(error))
            try:
                await asyncio.wait_for(self.stopping.wait(), REFRESH_S)
            except TimeoutError:
                continue


def _types_of_pools(store: Backend) -> tuple[list[PoolState], str | None]:
    return store.pools(), store.setting(REDACT_SETTING)


def services_of(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


def caller_of(request: Request, *roles: str) -> Caller:
    """The caller, if it has one of these roles (none given: any); Problem 403 otherwise."""
    caller: Caller | None = request.state.caller
    if caller is None:
        raise Problem(401, "unauthorized", "a valid token is needed", headers={"WWW-Authenticate": "Bearer"})
    if roles:
        refuse_other_roles(caller, roles)
    return caller


def refuse_other_roles(caller: Caller, roles: tuple[str, ...]) -> None:
    if caller.role not in roles:
        wanted = " or ".join(roles)
        raise Problem(403, "role-not-allowed", f"this needs a token of role {wanted}; yours is of role {caller.role}")


async def body_of(request: Request) -> bytes:
    """The bytes of a JSON body; Problem 415 when the request says it is something else.

    A browser sends forms to other sites without asking; it never sends this type without their consent.
    """
    raw = await request.body()
    if raw:
        refuse_other_than_json(request.headers.get("content-type", ""))
    return raw


def refuse_other_than_json(content_type: str) -> None:
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "unsupported-media-type", "send JSON, with Content-Type: application/json")
