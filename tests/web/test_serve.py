"""`jobpool serve` with no pool beside it: it does what a keeper would do for the store."""

from collections.abc import Callable

from tests.web.serving import Api


def test_it_fires_the_schedule_for_workers_that_come_over_http(open_api: Callable[..., Api]) -> None:
    api = open_api(settings='[[schedule]]\nname = "thumbs"\ntype = "thumb"\nevery = 1\n')

    answer = api.php.post("/jobs/claim", json={"queues": ["thumbs"], "wait": 20})

    assert answer.status_code == 200, answer.text
    assert answer.json()["type"] == "thumb"
