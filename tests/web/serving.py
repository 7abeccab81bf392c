"""`jobpool serve` as a process of its own, and the people who call it.

    def test_something(api, queue):
        job = api.shop.post("/jobs", json={"type": "thumb", "queue": queue}).json()
        claim = api.php.post("/jobs/claim", json={"queues": [queue]}).json()

Each caller is an httpx client with its token. The token of `shop` is `token-of-shop`.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from tests.helpers.servers import free_port
from tests.helpers.until import GENEROUS_SECONDS

__all__ = ["PEOPLE", "TYPES", "Api", "ending", "free_port", "token_of", "tokens_toml"]
PEOPLE: dict[str, dict[str, Any]] = {
    "shop": {"role": "producer", "queues": ["*"]},
    "rival": {"role": "producer", "queues": ["*"]},
    "narrow": {"role": "producer", "types": ["thumb"], "queues": ["thumbs"]},
    "boss": {"role": "producer", "queues": ["*"], "max_priority": 100},
    "php": {"role": "worker", "queues": ["*"]},
    "node": {"role": "worker", "queues": ["*"]},
    "mailer": {"role": "worker", "queues": ["mail"]},
    "root": {"role": "admin"},
}
TYPES = """
[[types]]
name = "thumb"
queue = "thumbs"
[[types]]
name = "mail.send"
queue = "mail"
backoff = [60, 600]
[types.schema]
type = "object"
required = ["to"]
properties = { to = { type = "string" }, subject = { type = "string" } }
additionalProperties = false
"""


def token_of(name: str) -> str:
    return f"token-of-{name}"


def tokens_toml(people: dict[str, dict[str, Any]] = PEOPLE) -> str:
    """The [[tokens]] of these people."""
    return "\n".join(_entry(name, keys) for name, keys in people.items())


def _entry(name: str, keys: dict[str, Any]) -> str:
    digest = hashlib.sha256(token_of(name).encode()).hexdigest()
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in keys.items()]
    return "\n".join(["[[tokens]]", f'name = "{name}"', f'sha256 = "{digest}"', *lines])


class Api:
    """One server and its callers."""

    shop: httpx.Client
    rival: httpx.Client
    narrow: httpx.Client
    boss: httpx.Client
    php: httpx.Client
    node: httpx.Client
    mailer: httpx.Client
    root: httpx.Client
    stranger: httpx.Client

    def __init__(
        self,
        backend: str | None = None,
        *,
        namespace: str = "default",
        settings: str = "",
        web: str = "",
        lease: float = 60,
        tokens: str | None = None,
        port: int | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jpw-", dir="/tmp"))
        self.url = backend or f"sqlite:///{self.folder}/jobs.db"
        self.namespace, self.port = namespace, port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log_file, self.config_file = self.folder / "log", self.folder / "jobpool.toml"
        self.config_file.write_text(
            f'[pool]\nname = "api"\nruntime_dir = "{self.folder}/run"\nstate_dir = "{self.folder}/state"\n'
            f'[backend]\nurl = "{self.url}"\nnamespace = "{namespace}"\nlease = {lease}\n'
            f'[web]\nlisten = "127.0.0.1:{self.port}"\n{web}\n{settings}\n{TYPES}\n'
            f"{tokens_toml() if tokens is None else tokens}\n"
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[httpx.Client] = []
        self._store: Backend | None = None
        for name in PEOPLE:
            setattr(self, name, self.caller(name))
        self.stranger = self.client({})

    def start(self) -> "Api":
        """Start (again) and wait until it answers."""
        words = [sys.executable, "-m", "pool", "serve", "--config", str(self.config_file)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("JOBPOOL_")}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=self.folder
            )
        deadline = time.monotonic() + GENEROUS_SECONDS
        while not self.answers():
            assert self.process.poll() is None, f"the server ended:\n{self.log_text()}"
            assert time.monotonic() < deadline, f"the server does not answer:\n{self.log_text()}"
            time.sleep(0.02)
        return self

    def answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.stranger.get("/healthz").status_code == 200
        return False

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(GENEROUS_SECONDS)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self._store is not None:
            self._store.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def caller(self, name: str, **headers: str) -> httpx.Client:
        """A client with this person's token."""
        return self.client({"Authorization": f"Bearer {token_of(name)}", **headers})

    def client(self, headers: dict[str, str]) -> httpx.Client:
        made = httpx.Client(base_url=self.address, headers=headers, timeout=GENEROUS_SECONDS, trust_env=False)
        self._clients.append(made)
        return made

    def store(self) -> Backend:
        """A client of the store behind it."""
        if self._store is None:
            self._store = open_backend(self.url, namespace=self.namespace, producer=True)
        return self._store

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def raw(self, data: bytes, *, within: float = GENEROUS_SECONDS) -> bytes:
        """Send these bytes and read until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=within) as line:
            with contextlib.suppress(OSError):
                line.sendall(data)
            answer = b""
            with contextlib.suppress(OSError):
                while part := line.recv(65_536):
                    answer += part
            return answer

    # ------------------------------------------------------------ usual moves

    def enqueue(self, queue: str, **fields: Any) -> dict[str, Any]:
        """A job of the shop in this queue."""
        answer = self.shop.post("/jobs", json={"type": "thumb", "queue": queue, **fields})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def claim(self, queue: str, who: httpx.Client | None = None, **more: Any) -> dict[str, Any]:
        """A job for this worker; there must be one."""
        answer = (who or self.php).post("/jobs/claim", json={"queues": [queue], **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def look(self, job_id: str) -> dict[str, Any]:
        """The job as an admin sees it."""
        return dict(self.root.get(f"/jobs/{job_id}").json())


def ending(claim: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a holder's word."""
    return {"claim_token": claim["claim_token"], **more}
