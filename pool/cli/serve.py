"""`serve`: the HTTP API alone, for machines without a pool. It does the store's chores itself."""

import threading
from typing import Annotated

import typer

from pool import logs
from pool.cli.flags import load
from pool.cli.store import BackendUrl, ConfigFile
from pool.errors import ConfigError


def serve(
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="ADDRESS", help="Host and port, or a path for a Unix socket.")
    ] = None,
    backend: BackendUrl = None,
    config: ConfigFile = None,
) -> int:
    """Serve the HTTP API in the foreground, without workers, until told to stop."""
    loaded = load(config, backend, web__listen=listen)
    try:
        from pool.web import server
    except ImportError as error:
        raise ConfigError(
            f"the HTTP API cannot be imported: {error}. Install it with: pip install 'jobpool[web]'"
        ) from error
    from pool.backends.opening import open_backend
    from pool.keeper.storewide import run_chores

    server.refuse_unsafe(loaded.config)
    logs.configure(loaded.config.log, pool=loaded.config.pool.name, who="serve", in_parent=False)
    stop = threading.Event()
    settings = loaded.config.backend
    store = open_backend(settings.url, namespace=settings.namespace)
    chores = threading.Thread(target=run_chores, args=(loaded.config, store, stop), name="chores")
    chores.start()
    try:
        return server.serve(loaded.config)
    finally:
        stop.set()
        chores.join()
