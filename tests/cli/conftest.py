"""The command line against a real pool."""

from tests.helpers.house import open_house

__all__ = ["open_house"]
