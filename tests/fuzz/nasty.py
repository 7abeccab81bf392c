"""Values and texts that people and programs send by mistake or on purpose."""

import json
import random
from typing import Any

TEXTS = (
    "", " ", "0", "-1", "1e999", "NaN", "true", "null", "*", ",", "a,b", "../../etc/passwd", "'; DROP TABLE jobs; --",
    "\x00", "a\x00b", "\ud800", "\U0001f4a9" * 3, "\u202e", "é" * 300, "x" * 5000, "%s%n", "{}", "[]", '"', "\\", "\n",
    "10m", "512MB", "-5s", "99999999999999999999", "0x10", "١٢", "high", "Europe/Berlin", "* * * * *", "61 * * * *",
    "sqlite:///", "redis://", "http://[::1", "redis://h:99999/0", "tasks.nothing", "-", "--", "--help", "=", "/", ".", "~",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.0, -0.0, 1.5, 1e-300, 1e300, 65_537, 101)


def text(rng: random.Random) -> str:
    return (
        rng.choice(TEXTS)
        if rng.random() < 0.8
        else "".join(chr(rng.randrange(1, 0x2FF)) for _ in range(rng.randrange(30)))
    )


def value(rng: random.Random, depth: int = 3) -> Any:
    """Anything that JSON and TOML both know."""
    kind = rng.randrange(8)
    if kind < 3:
        return text(rng)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind == 5 or depth == 0:
        return rng.random() < 0.5
    if kind == 6:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {text(rng): value(rng, depth - 1) for _ in range(rng.randrange(4))}


def spoilt(rng: random.Random, raw: bytes) -> bytes:
    """The same bytes, hurt in one to four places."""
    data = bytearray(raw)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                data[at : at + rng.randrange(1, 20)] = b""
            case 1:
                data[at:at] = rng.randbytes(rng.randrange(1, 30))
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 200)]
            case 4:
                data[at:at] = rng.choice(
                    (b"\r\n", b"\n", b"\0", b" ", b":", b"\xff", b"\r\n\r\n", b"=", b'"', b"[", b"]")
                )
            case 5:
                del data[at:]
        if not data:
            break
    return bytes(data)


def odd_json(rng: random.Random, body: dict[str, Any]) -> bytes:
    """A body that is JSON to some and not to others."""
    plain = json.dumps(body).encode()
    match rng.randrange(10):
        case 0:
            deep = rng.choice((100, 10_000, 200_000))
            return b'{"payload":' + b"[" * deep + b"]" * deep + b"}"
        case 1:
            return plain[:-1] + b',"type":"thumb","type":' + json.dumps(value(rng)).encode() + b"}"
        case 2:
            return plain[:-1] + b',"payload":{"a":"\\ud800"}}'
        case 3:
            return (
                plain[:-1]
                + b',"payload":{"a":'
                + rng.choice((b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0"))
                + b"}}"
            )
        case 4:
            return plain[:-1] + b',"payload":{"a":' + b"9" * rng.choice((20, 400, 5000)) + b"}}"
        case 5:
            return plain[:-1] + b',"payload":{"\\u0000":"\\u0000"}}'
        case 6:
            return spoilt(rng, plain)
        case 7:
            return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe")) + plain
        case 8:
            return json.dumps(value(rng)).encode()
        case _:
            key = rng.choice(
                [*body, "queue", "priority", "run_at", "delay", "unique_key", "idempotency_key", "max_retries"]
            )
            return json.dumps({**body, key: value(rng)}).encode()
