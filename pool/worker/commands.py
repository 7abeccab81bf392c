"""Job types that are executables: `[[commands]]`. Placeholder until the process runner stands."""

from pool.jobs.registry import Registry
from pool.settings import Config


def register_commands(config: Config, registry: Registry) -> None:
    """Make each `[[commands]]` entry a job type."""
