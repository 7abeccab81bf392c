"""Whole pools: each test opens its own house, and has no job types of its own in this process."""

from collections.abc import Iterator

import pytest

from pool.jobs.registry import registry
from tests.helpers.house import open_house

__all__ = ["open_house"]


@pytest.fixture(autouse=True)
def no_job_types_here() -> Iterator[None]:
    """What other tests of this process declared would be taken for what this program knows."""
    entries = registry.entries()
    registry.restore({})
    yield
    registry.restore(entries)
