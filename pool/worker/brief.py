"""What the parent tells all workers of a group beside their configuration."""

from dataclasses import dataclass
from pathlib import Path

from pool.backends import spool
from pool.config import backend_url, state_dir
from pool.settings import Config


@dataclass(frozen=True, slots=True)
class Brief:
    """Made once, before the fork: to find the folder costs each worker 300 KB.

    results   the folder of results that could not be handed in
    edition   names the reading of the configuration
    is_burst  leave when nothing is pending
    """

    results: Path
    edition: str = ""
    is_burst: bool = False


def results_folder(config: Config) -> Path:
    """Where results lie that could not be handed in to the store of this configuration."""
    return spool.folder_of(state_dir(config), backend_url(config), config.backend.namespace)
