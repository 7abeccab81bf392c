"""Delivers callbacks: each is a job in a queue of its own, claimed by the web process and retried as any job.

The request is signed: `Jobpool-Signature: t=SECONDS,v1=HEX`, HEX being the HMAC-SHA256 of `SECONDS.BODY` under
`web.callback_secret`. The body shows the job as its producer may see it. Redirects are not followed, and the address
that was judged is the one that is called.
"""

import asyncio
import hashlib
import hmac
import http.client
import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pool.backends.contract import Backend, Want
from pool.clock import wall_now
from pool.errors import BackendUnavailable, GiveUp, JobNotFound, RetryAfter
from pool.jobs.internal import WEBHOOK_QUEUE
from pool.jobs.job import Claim, Job
from pool.jobs.policy import Exponential, Policy
from pool.logs import log
from pool.settings import WebSection
from pool.web import holding, verdicts
from pool.web.auth import Caller
from pool.web.bodies import FailBody
from pool.web.callbacks import is_private, refuse_unlisted
from pool.web.holding import Hold
from pool.web.problems import Problem
from pool.web.services import Services

HOLDER = "webhooks"
AT_ONCE = 4
ANSWER_WITHIN_S = 10.0
LEASE_S = 60.0
WAIT_S = 30.0
POLICY = Policy(Exponential(15, factor=2, cap=3600, jitter=0.1))


class NotDelivered(Exception):
    """The receiver did not take it; it may take it later."""


async def deliver_all(services: Services) -> None:
    """Claim and deliver for as long as the server runs, a few at once."""
    await asyncio.gather(*(_courier(services) for _ in range(AT_ONCE)))


async def _courier(services: Services) -> None:
    want = Want(queues=(WEBHOOK_QUEUE,), lease_seconds=LEASE_S)
    while not services.stopping.is_set():
        try:
            found = await services.desk.ask(lambda store: holding.claim(store, holding.new_lane(HOLDER), 1, want))
            if found is None:
                await services.queue_watch.wait(want.queues, WAIT_S)
            else:
                await services.desk.ask(await _delivered(services, *found))
        except BackendUnavailable as error:
            log.limited("webhooks", "callbacks must wait", every_s=60.0, error=str(error))
            await asyncio.sleep(1.0)


async def _delivered(services: Services, claim: Claim, hold: Hold) -> Callable[[Backend], bool]:
    """Send it; the step that tells the store how it went."""
    job, parent = await services.desk.ask(lambda store: _with_parent(store, claim.job_id))
    try:
        letter = _letter(services, job, parent)
        status = await asyncio.to_thread(letter.send)
        word = verdicts.completed(job, hold.claim, json.dumps({"status": status}))
    except (GiveUp, Problem) as error:
        word = verdicts.failed(job, hold.claim, _failure(error, fatal=True), POLICY)
    except RetryAfter as error:
        word = verdicts.failed(job, hold.claim, _failure(error, retry_after=error.seconds), POLICY)
    except (NotDelivered, OSError, http.client.HTTPException, ValueError) as error:
        word = verdicts.failed(job, hold.claim, _failure(error), POLICY)
    return lambda store: holding.settle(store, hold, word)


def _failure(error: Exception, **more: Any) -> FailBody:
    return FailBody(claim_token="-", error=str(error)[:1000], exception=type(error).__name__, **more)


def _with_parent(store: Backend, job_id: str) -> tuple[Job, Job | None]:
    job = store.job(job_id)
    try:
        return job, store.job(job.parent_id or "")
    except JobNotFound:
        return job, None


def _letter(services: Services, job: Job, parent: Job | None) -> "Letter":
    if parent is None:
        raise GiveUp("the job it would tell of is not kept any more")
    web = services.config.web
    url = str(json.loads(job.payload)["url"])
    refuse_unlisted(url, web)  # the list may have changed since
    shown = services.document(parent, Caller(parent.owner, "producer"))
    body = json.dumps({"event": f"job.{parent.status.value}", "delivery": job.id, "job": shown}).encode()
    return Letter(url, body, job.id, web)


# ---------------------------------------------------------------- sending


@dataclass(frozen=True, slots=True)
class Letter:
    """One callback, ready to be sent."""

    url: str
    body: bytes
    delivery: str
    web: WebSection

    def send(self) -> int:
        """The receiver's 2xx. GiveUp for 410 Gone, RetryAfter where it asks for it, NotDelivered for all else."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_WITHIN_S)
        try:
            connection.sock = self._connected(parts.scheme, host, port)
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            connection.request("POST", path, self.body, self._headers())
            return _judged(connection.getresponse())
        finally:
            connection.close()

    def _connected(self, scheme: str, host: str, port: int) -> Any:
        """A connection to an address that was judged: a name may mean another one at the next look."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(each[4][0]) for each in found]
        if not self.web.callback_private and any(is_private(address) for address in addresses):
            raise GiveUp(f"host {host!r} has a private address")
        line = socket.create_connection((addresses[0], port), timeout=ANSWER_WITHIN_S)
        if scheme == "https":
            return ssl.create_default_context().wrap_socket(line, server_hostname=host)
        return line

    def _headers(self) -> dict[str, str]:
        moment = int(wall_now())
        return {
            "Content-Type": "application/json",
            "User-Agent": "jobpool",
            "Jobpool-Delivery": self.delivery,
            "Jobpool-Signature": f"t={moment},v1={signature(self.web.callback_secret, moment, self.body)}",
        }


def signature(secret: str, moment: int, body: bytes) -> str:
    """What the receiver computes as well: the HMAC-SHA256 of the time and the body."""
    return hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()


def _judged(answer: http.client.HTTPResponse) -> int:
    answer.read(65_536)
    if 200 <= answer.status < 300:
        return answer.status
    if answer.status == 410:
        raise GiveUp("the receiver answered 410 Gone")
    asked = answer.headers.get("Retry-After")
    if asked:
        raise RetryAfter.from_header(asked, f"the receiver answered {answer.status}")
    raise NotDelivered(f"the receiver answered {answer.status}")
