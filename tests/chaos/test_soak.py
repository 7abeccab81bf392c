"""No-op jobs for some time: memory, descriptors, files and latency stay flat."""

import pytest

from tests.chaos.soak import soak


@pytest.mark.serial
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [8, pytest.param(120, marks=pytest.mark.full)])
@pytest.mark.parametrize("backend", ["sqlite", "redis"])
def test_nothing_grows_while_jobs_pass(backend: str, seconds: float) -> None:
    done = soak(backend, seconds)
    print(done.text())
    assert done.wrong == []
    assert done.jobs > 1_000
