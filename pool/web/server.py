"""The web process: uvicorn in one event loop, as a supervised child or alone.

It shows life from inside the loop, so that a loop that hangs is noticed; on SIGTERM it takes no new connections, ends
long polls, finishes what it answers, and leaves.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable

import uvicorn

from pool import config as configuration
from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.board.record import Exit, Role, State
from pool.clock import monotonic_now
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config
from pool.web.app import create_app
from pool.web.listening import file_of, listen_at, refuse_unsafe, remove_file
from pool.web.protocol import Connection

LEAVE_WITHIN_S = 10
KEEP_ALIVE_S = 15
LOOK_EVERY_S = 1.0
SWITCH_S = 0.0002  # the store's threads give up the interpreter at each call and must not wait 5 ms to have it back
LOCK_WAIT_S = 1.5  # "busy" is said within the two seconds in which "away" is said
IGNORED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGURG, signal.SIGWINCH)

__all__ = ["refuse_unsafe", "run_web", "serve"]


def run_web(config: Config, seat: Seat) -> int:
    """The web child's whole life; returns its exit code."""
    refuse_unsafe(config)
    server = Server(config, beside_predecessor=_has_predecessor(seat))
    ignored = (*IGNORED, signal.SIGINT)
    return asyncio.run(server.live(ignored, lambda: _show_life(seat), lambda: _show_leaving(seat)))


def serve(config: Config) -> int:
    """The stand-alone server's whole life, until SIGTERM or SIGINT."""
    refuse_unsafe(config)
    server = Server(config)
    return asyncio.run(server.live(IGNORED, lambda: True, lambda: None))


class Server(uvicorn.Server):
    """uvicorn with our sockets, our signals and our connections."""

    def __init__(self, config: Config, *, beside_predecessor: bool = False) -> None:
        _bridge_logs()
        sys.setswitchinterval(SWITCH_S)
        self.listen = config.web.listen
        self.app = create_app(config, store_opener(config))
        self.socket = listen_at(self.listen, beside_predecessor=beside_predecessor)
        self._file = file_of(self.listen)
        super().__init__(
            uvicorn.Config(
                self.app,
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=LEAVE_WITHIN_S,
                ssl_certfile=config.web.tls_cert or None,
                ssl_keyfile=config.web.tls_key or None,
            )
        )

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()  # ours are set in `live`

    async def live(
        self, ignored: tuple[signal.Signals, ...], show_life: Callable[[], bool], show_leaving: Callable[[], None]
    ) -> int:
        """Serve until told to leave, or until `show_life` says that nobody is there to serve for."""
        loop = asyncio.get_running_loop()
        for number in {signal.SIGTERM, signal.SIGINT} - set(ignored):
            loop.add_signal_handler(number, self.leave)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        life = asyncio.create_task(self._show(show_life))
        await self.serve(sockets=[self.socket])
        life.cancel()
        remove_file(self.listen, self._file)
        show_leaving()
        return 0

    def leave(self) -> None:
        """Take no new connections; waiting requests are answered now."""
        self.should_exit = True
        self.app.state.services.stopping.set()

    async def _show(self, show_life: Callable[[], bool]) -> None:
        while not self.started:
            await asyncio.sleep(0.01)
        gc.freeze()  # the framework stays: the collector's looks at it took a twentieth of the time of a request
        log.info("HTTP API listens", at=self.listen)
        while show_life():
            await asyncio.sleep(LOOK_EVERY_S)
        self.leave()


def store_opener(config: Config) -> Callable[[], Backend]:
    """Opens a backend of a producer: what it acknowledges survives a power cut."""
    url = configuration.backend_url(config)
    namespace = config.backend.namespace
    return lambda: open_backend(url, namespace=namespace, producer=True, lock_wait=LOCK_WAIT_S)


# ---------------------------------------------------------------- the board


def _has_predecessor(seat: Seat) -> bool:
    """Whether another web process of this pool still lives, which has the port until we are ready."""
    others = (record for record in seat.board.taken() if record.index != seat.record.index)
    return any(record.tenant.read().role == Role.WEB and not record.note.read().pid for record in others)


def _show_life(seat: Seat) -> bool:
    """Write a sign of life, the first one with a word to the parent; False when the parent is gone."""
    is_first = seat.record.process.read().state == State.BOOTING
    now = monotonic_now()
    seat.record.process.write(State.IDLE, Exit.NONE, now, now, 0.0, 0, 0, 0, 0)
    if is_first:
        with contextlib.suppress(BlockingIOError):
            os.write(seat.announce_fd, b"h")
    return os.getppid() == seat.parent.pid


def _show_leaving(seat: Seat) -> None:
    now = monotonic_now()
    seat.record.process.write(State.RETIRING, Exit.STOPPED, now, now, 0.0, 0, 0, 0, 0)


# ---------------------------------------------------------------- uvicorn's own lines


class _Bridge(logging.Handler):
    """uvicorn's warnings in our log, one line each at most a second; its tracebacks may hold payloads and stay out."""

    def emit(self, record: logging.LogRecord) -> None:
        log.limited("uvicorn", record.getMessage().partition("\n")[0][:200], level=record.levelname)


def _bridge_logs() -> None:
    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [_Bridge()], False
    logger.setLevel(logging.WARNING)
