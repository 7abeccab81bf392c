"""What a pool says about a server that may lose its jobs."""

from collections.abc import Callable

from tests.helpers.house import House
from tests.helpers.servers import running


def test_a_server_that_may_lose_jobs_is_named_in_the_log_and_in_status(
    open_house: Callable[..., House], flavour: str
) -> None:
    with running(flavour, maxmemory="500mb", maxmemory_policy="allkeys-lru") as server:
        house = open_house(workers=1, backend=server.url)
        said = house.wait_for(lambda: house.status()["backend"].get("warnings"), "warnings in status")
        assert any("appendonly" in sentence for sentence in said)
        assert any("allkeys-lru" in sentence for sentence in said)
        for word in ("appendonly", "allkeys-lru"):
            house.wait_for(lambda word=word: word in house.log_text(), f"{word} in the log")
            assert word in house.cli("status").stdout


def test_a_server_that_keeps_them_is_not(open_house: Callable[..., House], flavour: str) -> None:
    with running(flavour, aof=True) as server:
        house = open_house(workers=1, backend=server.url)
        house.wait_for(lambda: house.status()["backend"]["ok"], "a look at the store")
        assert house.status()["backend"]["warnings"] == []
