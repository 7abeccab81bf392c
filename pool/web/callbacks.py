"""A producer's wish to be told of the end of its job, as follow-up jobs (see `webhooks`)."""

from pool.jobs.job import NewJob
from pool.settings import WebSection
from pool.web.problems import Problem


def with_callback(job: NewJob, url: str | None, web: WebSection) -> NewJob:
    """The job with its callbacks; Problem when the URL is not allowed."""
    if url is None:
        return job
    raise Problem(403, "callback-not-allowed", "callbacks are not set up on this server")
