"""The dashboard on a Valkey server, over plain HTTP: every page is there, whatever the jobs have been through."""

from collections.abc import Iterator

import httpx
import pytest

from pool.jobs.lifecycle import Status
from tests.browser.conftest import PAGES
from tests.browser.test_doors import sign_in
from tests.helpers.servers import running
from tests.helpers.states import WAYS, make
from tests.web.serving import Api

ORDER = sorted(WAYS, key=lambda way: WAYS[way][0] is Status.PENDING)  # a hand takes what is pending: make that last
MADE = [way for way in ORDER if way != "waiting"]


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with running("valkey") as server:
        api = Api(server.url)
        yield api.start()
        api.close()


@pytest.fixture(scope="module")
def jobs(api: Api) -> dict[str, str]:
    """The id of a job for each way, all of them in one store."""
    return {way: make(api.store(), way).job_id for way in MADE}


@pytest.fixture(scope="module")
def client(api: Api, jobs: dict[str, str]) -> httpx.Client:
    return sign_in(api)


@pytest.mark.parametrize(
    "path", [*PAGES, "/ui/jobs?q=nowhere-to-be-found", "/ui/dead?q=broke", "/ui/dead?reason=timeout"]
)
def test_every_page_is_there(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("way", MADE)
def test_a_job_in_any_state_is_listed_and_shown(client: httpx.Client, jobs: dict[str, str], way: str) -> None:
    status, job_id = WAYS[way][0], jobs[way]
    for path in (f"/ui/jobs?status={status}", f"/ui/jobs?status={status}&queue=default", f"/ui/jobs?q={job_id}"):
        listed = client.get(path)
        assert listed.status_code == 200
        assert f"/ui/jobs/{job_id}" in listed.text
    shown = client.get(f"/ui/jobs/{job_id}")
    assert shown.status_code == 200
    assert status in shown.text


def test_a_search_says_how_much_was_searched(client: httpx.Client) -> None:
    text = client.get("/ui/jobs", params={"q": "nowhere-to-be-found"}).text
    assert f"Searched {len(MADE)} of " in text
