"""Which store a client means: the URL it was given, else what the configuration says."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pool.errors import BackendUnavailable
from pool.jobs.checks import MAX_PAYLOAD

if TYPE_CHECKING:
    from pool.backends.contract import Backend
    from pool.config import Loaded
    from pool.settings import Config


@dataclass(frozen=True, slots=True)
class Place:
    """A store's URL (perhaps with a password) and what is asked of payloads there.

    `guessed`: nobody configured it, so it is opened only if it exists; else a mistaken user would fill a store that
    no pool reads.
    """

    url: str
    namespace: str = "default"
    max_payload: int = MAX_PAYLOAD
    guessed: bool = False

    def open(self) -> "Backend":
        """A connection of its own."""
        from pool.backends.opening import open_backend, sqlite_path

        if self.guessed and not Path(path := sqlite_path(self.url)).exists():
            raise BackendUnavailable(
                f"sqlite:///{path}",
                "nothing is there, and no other place is configured: start a pool as this user (jobpool start), or set "
                "JOBPOOL_BACKEND__URL or [backend] url in jobpool.toml to where the pool's jobs rest",
            )
        return open_backend(self.url, namespace=self.namespace, producer=True, create=not self.guessed)


def find_place(url: str | None, namespace: str | None) -> Place:
    """The given URL as it is, without reading any configuration; else the configured place, and the defaults of [jobs]."""
    if url is not None:
        return Place(url, namespace or "default")
    from pool.config import load_config
    from pool.jobs.registry import defaults_from, registry

    loaded = load_config()
    registry.defaults = defaults_from(loaded.config.jobs)
    place = place_of(loaded.config, guessed=_is_guessed(loaded))
    return place if namespace is None else replace(place, namespace=namespace)


def place_of(config: "Config", *, guessed: bool = False) -> Place:
    """The store that a configuration names."""
    return Place(config.backend.url, config.backend.namespace, config.jobs.max_payload, guessed)


def _is_guessed(loaded: "Loaded") -> bool:
    return all(loaded.origin(key) == "default" for key in ("backend.url", "backend.url_file", "pool.state_dir"))
