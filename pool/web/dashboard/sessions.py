"""Who is signed in to the pages: a signed cookie, good for twelve hours, only under the dashboard's own paths.

The cookie carries name, expiry and a random part, signed with a key that lies in the runtime directory (0600; gone
after a reboot) and with the hash of the token, so that a token taken out of the configuration ends its sessions. It is
no way into the API: there only bearer tokens count, so no other site can use a browser's cookie there.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.requests import Request
from starlette.types import Scope

from pool import config as configuration
from pool.clock import wall_now
from pool.settings import Config
from pool.web.auth import Caller

LASTS_S = 12 * 3600
KEY_FILE = "dashboard.key"
KEY_BYTES = 32
STRANGER = Caller("", "stranger")
HOME, UNDER = "/", "/ui/"


def is_ours(path: str) -> bool:
    """Whether a path belongs to the dashboard."""
    return path == HOME or path.startswith(UNDER)


class Sessions:
    """Makes and reads the cookie. Signing out is remembered until the cookie would have ended anyway."""

    def __init__(self, config: Config) -> None:
        self._admins = {token.name: bytes.fromhex(token.sha256) for token in config.tokens if token.role == "admin"}
        self._always_secure = config.web.behind_proxy or bool(config.web.tls_cert)
        self._key = _key_in(configuration.runtime_dir(config))
        self._ended: dict[str, float] = {}

    def by_cookie(self, scope: Scope) -> Caller | None:
        """A way to sign in, for the door. Strangers come as far as the dashboard's own entrance, and no further."""
        if not is_ours(scope["path"]):
            return None
        name = self.name_in(Request(scope))
        return Caller(name, "admin") if name else STRANGER

    def name_in(self, request: Request) -> str | None:
        """The admin whose valid cookie the request carries."""
        cookie = self._cookie_of(request)
        name, _, rest = cookie.rpartition("/")[0].partition("/")
        expiry = rest.partition("/")[0]
        if not cookie or name not in self._admins or not expiry.isdigit() or cookie in self._ended:
            return None
        signed = f"{name}/{rest}"
        is_genuine = hmac.compare_digest(self._signature(name, signed).encode(), cookie.rpartition("/")[2].encode())
        return name if is_genuine and int(expiry) > wall_now() else None

    def new_cookie(self, request: Request, name: str) -> str:
        """The Set-Cookie header of a fresh session."""
        signed = f"{name}/{int(wall_now() + LASTS_S)}/{secrets.token_urlsafe(16)}"
        return self._header(request, f"{signed}/{self._signature(name, signed)}", LASTS_S)

    def end(self, request: Request) -> str:
        """Forget the session; the Set-Cookie header that removes it."""
        now = wall_now()
        self._ended = {cookie: until for cookie, until in self._ended.items() if until > now}
        self._ended[self._cookie_of(request)] = now + LASTS_S
        return self._header(request, "", 0)

    def csrf_token(self, request: Request) -> str:
        """Proof that a form came from our page: bound to the session, or to the key alone before there is one."""
        return hmac.new(self._key, b"csrf:" + self._cookie_of(request).encode(), hashlib.sha256).hexdigest()

    def is_csrf_token(self, request: Request, given: str) -> bool:
        return hmac.compare_digest(self.csrf_token(request).encode(), given.encode())

    def _signature(self, name: str, signed: str) -> str:
        return hmac.new(self._key + self._admins[name], signed.encode(), hashlib.sha256).hexdigest()

    def _cookie_of(self, request: Request) -> str:
        jar: SimpleCookie = SimpleCookie()
        with contextlib.suppress(CookieError):
            jar.load("; ".join(request.headers.getlist("cookie")))
        morsel = jar.get(self._cookie_name(request))
        return morsel.value if morsel else ""

    def _is_secure(self, request: Request) -> bool:
        return self._always_secure or request.url.scheme == "https"

    def _cookie_name(self, request: Request) -> str:
        """With the prefix that keeps other hosts of the domain from planting one, where the browser allows it."""
        return "__Host-jobpool" if self._is_secure(request) else "jobpool"

    def _header(self, request: Request, value: str, age_s: int) -> str:
        secure = "; Secure" if self._is_secure(request) else ""
        return f"{self._cookie_name(request)}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"


def _key_in(folder: Path) -> bytes:
    """The key of this runtime directory, made at the first need; one of our own where nothing can be kept."""
    path = folder / KEY_FILE
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
        key = path.read_bytes()
    except OSError:
        key = b""
    return key if len(key) == KEY_BYTES else secrets.token_bytes(KEY_BYTES)
