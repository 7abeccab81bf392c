"""Payloads typed by a person: read, and checked as at enqueue."""

import json
import sys
from typing import Any

from pool.cli.store import client_of, published_types
from pool.client import Client
from pool.config import Loaded
from pool.errors import InvalidJob


def read_payload(text: str) -> Any:
    """The JSON of an argument, or of standard input for `-`."""
    raw = sys.stdin.read() if text == "-" else text
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidJob(f'the payload is not JSON ({error}); write it as \'{{"name": "value"}}\'') from None


def edited_payload(loaded: Loaded, type_name: str, text: str) -> str:
    """The new payload of a job of this type, as it will be stored; InvalidPayload names what does not fit."""
    with client_of(loaded) as client:
        make_type_known(client, type_name, loaded)
        return client.draft(type_name, read_payload(text)).payload


def make_type_known(client: Client, name: str, loaded: Loaded) -> None:
    """Running pools publish their types. Without one, the type's own rules are in its module, if that is configured."""
    if published_types(client.backend()).get(name) is not None:
        return
    if loaded.config.app.modules:
        from pool.cli.preflight import import_modules

        import_modules(loaded.config)
