"""The pytest plugin that comes with jobpool: the fixtures `jobpool_inline` and `jobpool_recorded`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pool.testing import InlineJobs


@pytest.fixture
def jobpool_inline() -> Iterator["InlineJobs"]:
    """Whatever the test's code enqueues runs at once, in this process."""
    from pool.testing import inline

    with inline() as jobs:
        yield jobs


@pytest.fixture
def jobpool_recorded() -> Iterator["InlineJobs"]:
    """Whatever the test's code enqueues is recorded and does not run."""
    from pool.testing import recording

    with recording() as jobs:
        yield jobs
