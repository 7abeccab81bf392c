"""A producer's wish to be told of the end of its job: a follow-up job that the web process runs (see `webhooks`).

The URL comes from a caller, so it is a way to make this server talk to machines the caller cannot reach. Only hosts on
the operator's list are taken; private addresses are refused here where the URL names one, and again when it is called,
where a name may turn out to mean one.
"""

import ipaddress
import json
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit

from pool.errors import InvalidJob
from pool.jobs.ids import new_job_id
from pool.jobs.internal import WEBHOOK_QUEUE, WEBHOOK_TYPE
from pool.jobs.job import NewJob
from pool.settings import WebSection
from pool.web.problems import Problem

MAX_RETRIES = 8


def with_callback(job: NewJob, url: str | None, web: WebSection) -> NewJob:
    """The job with its callback; Problem 403 when the URL is not allowed."""
    if url is None:
        return job
    if job.on_success or job.on_failure:
        raise InvalidJob("callback_url and on_success or on_failure are both given; give one of the two")
    refuse_unlisted(url, web)
    return replace(job, on_success=_callback(job, url), on_failure=_callback(job, url))


def refuse_unlisted(url: str, web: WebSection) -> None:
    """Problem 403 unless the operator's list has this host, over https (or http where private addresses are allowed)."""
    if not web.callback_hosts:
        raise _refused("callbacks are not set up on this server (web.callback_hosts)")
    parts = _split(url)
    if parts.scheme != "https" and not (web.callback_private and parts.scheme == "http"):
        raise _refused("callback_url must begin with https://")
    if parts.username is not None or not parts.hostname:
        raise _refused("callback_url must name a host, and no user")
    if not any(_is_match(parts.hostname, pattern.lower()) for pattern in web.callback_hosts):
        raise _refused(f"host {parts.hostname!r} of callback_url is not on this server's list")
    if is_private(parts.hostname) and not web.callback_private:
        raise _refused("callback_url names a private address")


def is_private(address: str) -> bool:
    """Whether this is an address (not a name) that the wider internet does not have."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return not (mapped or found).is_global or found.is_multicast


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for a port that is none
    except ValueError:
        raise _refused("callback_url is no URL") from None
    return parts


def _is_match(host: str, pattern: str) -> bool:
    """`hooks.example.org` itself, or any name below for `*.example.org`."""
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def _callback(job: NewJob, url: str) -> NewJob:
    return NewJob(
        id=new_job_id(),
        type=WEBHOOK_TYPE,
        payload=json.dumps({"url": url}),
        queue=WEBHOOK_QUEUE,
        priority=job.priority,
        max_retries=MAX_RETRIES,
        owner=job.owner,
    )


def _refused(why: str) -> Problem:
    return Problem(403, "callback-not-allowed", why)
