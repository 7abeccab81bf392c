"""What a Redis URL says: where the server is, who we are there, and how the wire is protected.

redis://[user:password@]host[:port][/db]      rediss:// with TLS      unix:///path/to/socket?db=0      valkey… as redis…
redis+sentinel://[user:password@]host:port,host:port/service[/db]     redis+cluster://host:port,host:port
Options: socket_timeout, db, ssl_ca_certs, ssl_certfile, ssl_keyfile, ssl_check_hostname, sentinel_password,
sentinel_username.
"""

import ssl
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from pool.errors import ConfigError

DEFAULT_PORT, DEFAULT_SENTINEL_PORT = 6379, 26379
OPTIONS = {
    "socket_timeout", "db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "sentinel_password",
    "sentinel_username",
}  # fmt: skip
SCHEMES = {
    "redis": ("tcp", False),
    "rediss": ("tcp", True),
    "unix": ("unix", False),
    "redis+socket": ("unix", False),
    "redis+unix": ("unix", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL. `masked` is safe to print."""

    kind: str  # tcp, unix, sentinel, cluster
    masked: str
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    sentinel_username: str = field(default="", repr=False)
    sentinel_password: str = field(default="", repr=False)
    answer_seconds: float | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)


def parse_url(url: str) -> Address:
    """The address that the URL names; ConfigError says what is wrong with it and never shows the password."""
    scheme, _, rest = url.partition("://")
    name = scheme.lower().replace("valkey", "redis", 1)
    if name not in SCHEMES or not rest:
        raise ConfigError(f"unknown kind of Redis URL {scheme}://…: use one of {', '.join(s + '://' for s in SCHEMES)}")
    kind, is_tls = SCHEMES[name]
    parts = urlsplit(f"redis://{rest}")
    options = _options(parts.query)
    credentials, _, where = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    hosts = () if kind == "unix" else _hosts(where, DEFAULT_SENTINEL_PORT if kind == "sentinel" else DEFAULT_PORT)
    service, db = _path_of(kind, parts.path, options)
    if kind == "cluster" and db:
        raise ConfigError("a Redis Cluster has only database 0: remove the number from the URL")
    return Address(
        kind=kind,
        masked=_masked(scheme, credentials, where, parts.path),
        hosts=hosts,
        path=unquote(where + parts.path) if kind == "unix" else "",
        service=service,
        db=db,
        username=unquote(username),
        password=unquote(password),
        sentinel_username=options.get("sentinel_username", ""),
        sentinel_password=options.get("sentinel_password", ""),
        answer_seconds=_seconds(options.get("socket_timeout")),
        tls=_tls(options) if is_tls else None,
    )


def _options(query: str) -> dict[str, str]:
    found = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    if unknown := sorted(set(found) - OPTIONS):
        raise ConfigError(f"unknown option {unknown[0]!r} in the Redis URL: use {', '.join(sorted(OPTIONS))}")
    return found


def _hosts(where: str, default_port: int) -> tuple[tuple[str, int], ...]:
    return tuple(_host(each, default_port) for each in where.split(",") if each) or (("localhost", default_port),)


def _host(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:9]) < 65536):
        raise ConfigError(f"bad port {port!r} in the Redis URL: use a number from 1 to 65535")
    return host or "localhost", int(port) if port else default_port


def _path_of(kind: str, path: str, options: dict[str, str]) -> tuple[str, int]:
    """Service name and database number."""
    words = [unquote(word) for word in path.split("/") if word]
    if kind == "unix":
        return "", _number(options.get("db", "0"))
    if kind != "sentinel":
        return "", _number(words[0] if words else options.get("db", "0"))
    if not words:
        raise ConfigError(
            "a redis+sentinel:// URL names the service: redis+sentinel://host:26379,host:26379/mymaster/0"
        )
    return words[0], _number(words[1] if len(words) > 1 else options.get("db", "0"))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"bad database number {text!r} in the Redis URL: use a number such as 0")
    return int(text[:9])


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"bad socket_timeout {text!r} in the Redis URL: use seconds above 0")
    return seconds


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs") or None)
        if certificate := options.get("ssl_certfile"):
            context.load_cert_chain(certificate, options.get("ssl_keyfile") or None)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"the TLS files of the Redis URL cannot be used: {problem}") from problem
    context.check_hostname = options.get("ssl_check_hostname", "true").lower() not in ("false", "0", "no")
    return context


def _masked(scheme: str, credentials: str, where: str, path: str) -> str:
    user = credentials.partition(":")[0]
    secret = f"{user}:***@" if credentials else ""
    return f"{scheme}://{secret}{where}{path}"
