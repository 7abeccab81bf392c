"""Several pools on one server."""

from tests.helpers.house import open_house
from tests.helpers.servers import flavour

__all__ = ["flavour", "open_house"]
