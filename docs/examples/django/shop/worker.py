"""What the workers import: Django first, then the jobs. In jobpool.toml: `[app] modules = ["shop.worker"]`."""

import os
from collections.abc import Iterator

import django

import pool

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()

from django.db import close_old_connections  # noqa: E402  Django must be set up before its models are imported

import shop.tasks  # noqa: E402, F401


@pool.around_job
def with_fresh_connections(job: object) -> Iterator[None]:
    """As Django does around a request: connections that the database has closed are opened anew."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
