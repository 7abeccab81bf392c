"""Whole pools: each test opens its own house."""

from tests.helpers.house import open_house

__all__ = ["open_house"]
