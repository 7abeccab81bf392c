"""Small pieces of a record: ids as 16 bytes, and frames (a letter, a length, a value) for what only some jobs have."""

import struct

from pool.errors import InvalidJob

_FRAME, _DOUBLE = struct.Struct(">cI"), struct.Struct(">d")
_SHORT, _LONG = struct.Struct(">H"), struct.Struct(">I")
NO_JOB_ID = b"\0" * 16
# What reading a broken record raises.
UNREADABLE = (struct.error, ValueError, KeyError, IndexError, TypeError)

Frames = dict[bytes, bytes]


def text_bytes(text: str, what: str) -> bytes:
    """UTF-8, or InvalidJob for a text that has none (a lone surrogate)."""
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        raise InvalidJob(f"{what} holds a character that cannot be stored (a lone surrogate)") from problem


def short_text(text: bytes) -> bytes:
    """With its length before it, as a script takes one of less than 64 KiB among others."""
    return _SHORT.pack(len(text)) + text


def long_text(text: bytes) -> bytes:
    """The same for one of any length."""
    return _LONG.pack(len(text)) + text


def packed_id(job_id: str) -> bytes:
    """16 bytes that sort as the text does; ValueError for anything that is no UUID in its usual form."""
    digits = job_id.replace("-", "")
    packed = bytes.fromhex(digits)
    has_its_form = len(job_id) == 36 and job_id[8:24:5] == "----" and packed.hex() == digits
    if not has_its_form or len(packed) != len(NO_JOB_ID):
        raise ValueError(job_id)
    return packed


def quick_id(job_id: str) -> bytes:
    """The packed form of an id that came from the store; anything else is nobody's id."""
    try:
        packed = bytes.fromhex(job_id.replace("-", ""))
    except ValueError:
        return NO_JOB_ID
    return packed if len(packed) == len(NO_JOB_ID) else NO_JOB_ID


def id_text(packed: bytes) -> str:
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def frame(tag: bytes, value: bytes) -> bytes:
    return _FRAME.pack(tag, len(value)) + value


def read_frames(raw: bytes) -> Frames:
    """Of broken frames those before the break."""
    found: Frames = {}
    at = 0
    while at + _FRAME.size <= len(raw):
        tag, size = _FRAME.unpack_from(raw, at)
        at += _FRAME.size + size
        found[tag] = raw[at - size : at]
    return found


def text_in(frames: Frames, tag: bytes) -> str | None:
    value = frames.get(tag)
    return None if value is None else value.decode(errors="replace")


def shown_in(frames: Frames, tag: bytes) -> str | None:
    value = text_in(frames, tag)
    return value[1:] if value else None


def number_in(frames: Frames, tag: bytes) -> float | None:
    value = frames.get(tag)
    return float(_DOUBLE.unpack(value)[0]) if value is not None and len(value) == _DOUBLE.size else None
