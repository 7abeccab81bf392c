"""No-op jobs for some time: memory, descriptors, files and latency stay flat."""

import pytest

from tests.chaos.soak import soak


@pytest.mark.serial
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "backend, seconds",
    [
        ("sqlite", 8),
        # On a quick machine jobs end faster than the keeper forgets them (2,500 a second): only a long run tells.
        pytest.param("redis", 120, marks=pytest.mark.full),
        pytest.param("sqlite", 120, marks=pytest.mark.full),
    ],
)
def test_nothing_grows_while_jobs_pass(backend: str, seconds: float) -> None:
    done = soak(backend, seconds)
    print(done.text())
    assert done.wrong == []
    assert done.jobs > 1_000
