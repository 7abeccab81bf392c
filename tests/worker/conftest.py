"""Workers of one process, without a supervisor."""

from tests.helpers.hired import shop

__all__ = ["shop"]
