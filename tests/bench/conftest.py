"""Each kind of server in turn."""

from tests.helpers.servers import flavour

__all__ = ["flavour"]
