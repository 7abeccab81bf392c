"""No-op jobs for some time: memory, descriptors, files and latency stay flat."""

import pytest

from tests.chaos.soak import soak


@pytest.mark.serial
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "backend, seconds",
    [
        ("sqlite", 8),
        ("redis", 30),  # long enough for each record to be forgotten several times over
        pytest.param("redis", 120, marks=pytest.mark.full),
        pytest.param("sqlite", 120, marks=pytest.mark.full),
    ],
)
def test_nothing_grows_while_jobs_pass(backend: str, seconds: float) -> None:
    done = soak(backend, seconds)
    print(done.text())
    assert done.wrong == []
    assert done.jobs > 1_000
