"""Redis has no rollback: whatever stops a step, the store is as it was before it."""

from collections.abc import Iterator

import pytest

from pool.errors import BackendFull, BackendUnavailable
from pool.jobs.lifecycle import Status
from tests.backends.redis_lab import LOOKS, STEPS, Lab, build, counted, fresh, listed, spoil
from tests.helpers.servers import FLAVOURS, running

__all__ = ["fresh"]

# What a full store still does, so that it can be worked off; all the rest is refused whole.
WORKED_OFF = {
    "claim", "claim again", "complete", "complete and claim", "complete a parent", "complete with output",
    "fail a parent", "retry", "retry at once", "give back", "abandon", "report", "beat", "recover", "leave", "promote",
    "cancel a waiting one", "cancel a running one", "discard", "pause", "limit", "purge", "forget", "take over",
}  # fmt: skip
REFUSED = {"enqueue", "enqueue with keys", "revive", "revive a cancelled one", "tick"}


@pytest.fixture(scope="module", params=sorted(FLAVOURS))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with running(request.param) as server:
        yield build(server)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_works_when_nothing_is_in_its_way(fresh: Lab, name: str) -> None:
    STEPS[name](fresh)
    assert counted(fresh) == listed(fresh), "running jobs are counted, and kept in no list of their own"


@pytest.mark.parametrize("name", {**STEPS, **LOOKS})
def test_a_key_of_the_wrong_type_changes_nothing(fresh: Lab, name: str) -> None:
    """At each key that any step may use, in turn: the step is refused whole, or had no need of that key."""
    step = {**STEPS, **LOOKS}[name]
    for key in fresh.every_key():
        fresh.restore()
        spoil(fresh.server, key)
        before = fresh.picture()
        try:
            step(fresh)
        except BackendUnavailable as refusal:
            assert fresh.picture() == before, f"{name} with {key} spoilt left a part behind"
            assert "wrong type" in str(refusal) or "overwritten" in str(refusal), key
        except KeyError:
            raise
        else:
            assert fresh.picture().get(key.encode()) == before[key.encode()], f"{name} wrote over a foreign {key}"
            if name in LOOKS:
                assert fresh.picture() == before


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_new_work_is_refused_whole_by_a_full_store(fresh: Lab, name: str) -> None:
    fresh.server.call("CONFIG", "SET", "maxmemory", 1)
    before = fresh.picture()
    with pytest.raises(BackendFull, match="maxmemory"):
        STEPS[name](fresh)
    assert fresh.picture() == before


@pytest.mark.parametrize("name", sorted(WORKED_OFF))
def test_a_full_store_can_still_be_worked_off(fresh: Lab, name: str) -> None:
    fresh.server.call("CONFIG", "SET", "maxmemory", 1)
    STEPS[name](fresh)
    assert fresh.picture() != fresh.first


def test_every_step_is_either_worked_off_or_refused() -> None:
    assert WORKED_OFF | REFUSED | {"wait"} == set(STEPS)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_every_step_survives_that_the_server_forgot_its_script(fresh: Lab, name: str) -> None:
    fresh.server.call("SCRIPT", "FLUSH")
    STEPS[name](fresh)


def test_a_record_that_was_overwritten_is_set_aside_and_hides_no_other(fresh: Lab) -> None:
    from tests.helpers.builders import drain, put

    broken, good = put(fresh.store, priority=99), put(fresh.store, priority=98)
    with fresh.server.client() as client:
        client.hset("{jobpool:lab}:jobs", bytes.fromhex(broken.replace("-", "")), "garbage")
    assert good in drain(fresh.hand(7))
    job = fresh.store.job(broken)
    assert (job.status, job.reason) == (Status.FAILED, "invalid_record")
