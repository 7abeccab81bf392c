"""Schema versions of a namespace. Step n makes version n + 1 of version n, in portions, each one script.

The hash `schema` says where a namespace is: field `version` (none: 1), and `cursor` while the step to that version is
under way. An older jobpool refuses from the first portion on; a newer one, whichever comes, goes on with what it finds
unfinished, before it does anything else. A step is a script that ends with `--! include migrating`.
"""

from collections.abc import Sequence

from pool.backends.redis.connection import Connection, pack
from pool.backends.redis.keys import Keys
from pool.backends.redis.scripts import Step
from pool.backends.redis.trouble import ServerError
from pool.errors import BackendUnavailable, StoreTooNew

STEPS: tuple[Step, ...] = ()  # version 2, 3, ...
PORTION = 500  # jobs: some milliseconds of the server


def bring_up_to_date(keys: Keys, where: str, connection: Connection, *, steps: Sequence[Step] = STEPS) -> None:
    """Look at the version on a new connection, and migrate if need be. StoreTooNew for one of a newer jobpool."""
    version, is_unfinished = _found(keys, where, connection)
    if version > len(steps) + 1:
        raise StoreTooNew(where, version, len(steps) + 1)
    unfinished = steps[version - 2 :] if is_unfinished else steps[version - 1 :]
    for step in unfinished:
        _take(step, 2 + steps.index(step), keys, connection)


def _found(keys: Keys, where: str, connection: Connection) -> tuple[int, bool]:
    version, cursor = connection.ask(pack("HMGET", keys.schema, "version", "cursor"))
    try:
        return int(version or 1), cursor is not None
    except ValueError:
        raise BackendUnavailable(where, f"its schema version is {version!r}, which no jobpool writes") from None


def _take(step: Step, target: int, keys: Keys, connection: Connection) -> None:
    """Portion after portion. Several programs that open at once help each other: the cursor is the store's."""
    call = pack(15, *keys.fixed, keys.schema, target, PORTION)
    count, _, rest = call.partition(b"\r\n")
    words = int(count[1:]) + 2
    is_done = False
    while not is_done:
        try:
            is_done = bool(connection.ask(b"*%d\r\n%b%b" % (words, step.by_digest, rest)))
        except ServerError as error:
            if error.word != "NOSCRIPT":
                raise
            is_done = bool(connection.ask(b"*%d\r\n%b%b" % (words, step.by_text, rest)))
