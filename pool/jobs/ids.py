"""Job ids: UUIDv7 text, so that they sort by the time they were made and cost no round trip."""

import os
import re
import time

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_job_id() -> str:
    """A fresh UUIDv7 (RFC 9562, method 3): 60 bits of wall time in steps of 244 ns, so that the later of two made here
    sorts last, and 62 random bits from the kernel (safe after a fork)."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    chance = int.from_bytes(os.urandom(8), "big") >> 2
    number = milliseconds << 80 | 7 << 76 | fraction << 64 | 0b10 << 62 | chance
    text = number.to_bytes(16, "big").hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_job_id(text: str) -> bool:
    """Whether the text has the form of a job id."""
    return _ID.fullmatch(text) is not None
