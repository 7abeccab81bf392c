"""A verb's flags, laid over the configuration."""

from typing import Any

from pool.config import Loaded, load_config


def load(config: str | None, backend: str | None = None, **flags: Any) -> Loaded:
    """The configuration with this verb's flags, which have dots written as two underscores."""
    given = {"backend.url": backend, **{key.replace("__", "."): value for key, value in flags.items()}}
    return load_config(file=config, overrides={key: value for key, value in given.items() if value is not None})
