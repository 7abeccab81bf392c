"""The audit log as the web process writes it: which token ordered what, beside what people do on the command line."""

import json
from typing import Any

from pool.backends.contract import AuditEntry, Backend
from pool.web.auth import Caller


def note(store: Backend, caller: Caller, by: str, act: str, **details: Any) -> None:
    """Before it is done, so that nothing goes unrecorded. `by` is the way it came: "http" or "dashboard".

    Never a payload: what was edited is not said, only that it was.
    """
    store.note(AuditEntry(who=f"{caller.name}@{by}", act=act, details=json.dumps(details, ensure_ascii=False)))
