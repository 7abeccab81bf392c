"""Fixtures of the tests of the pages."""

from tests.docs.desk import desk
from tests.helpers.house import open_house

__all__ = ["desk", "open_house"]
