"""Workers of one process, without a supervisor."""

from collections.abc import Iterator

import pytest

from pool.jobs.registry import registry
from tests.helpers.hired import shop

__all__ = ["shop"]


@pytest.fixture(autouse=True)
def only_the_apps_job_types() -> Iterator[None]:
    """A worker forked from here would inherit what other tests of this process declared."""
    import tests.worker.app  # noqa: F401

    entries = registry.entries()
    registry.restore({name: entry for name, entry in entries.items() if name.startswith("tests.worker.")})
    yield
    registry.restore(entries)
