"""Sending alerts, and asking the pool's own socket: the slow and failing parts of `[[alerts]]`, kept from the keeper.

One thread sends, one alert after the other; what cannot be sent is tried three times and then logged. The keeper leaves
without waiting for it.
"""

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pool.clock import monotonic_now
from pool.logs import log
from pool.settings import AlertSection

STATUS_TIMEOUT_S = 1.0
COMMAND_TIMEOUT_S = 30.0
POST_TIMEOUT_S = 10.0
TRIES, RETRY_AFTER_S = 3, 5.0
MOST_WAITING = 100

_outbox: "queue.Queue[tuple[AlertSection, Mapping[str, Any]]]" = queue.Queue(MOST_WAITING)
_thread: list[threading.Thread] = []


def send(section: AlertSection, document: Mapping[str, Any]) -> None:
    """Put it into the thread's hands; dropped with a line in the log when a hundred are waiting already."""
    try:
        _outbox.put_nowait((section, document))
    except queue.Full:
        log.error("alert dropped: too many are waiting to be sent", on=section.on)
    if not _thread:
        _thread.append(threading.Thread(target=_send_all, name="alerts", daemon=True))
        _thread[0].start()


def _send_all() -> None:
    while True:
        section, document = _outbox.get()
        for left in reversed(range(TRIES)):
            trouble = run_command(section.command, document) if section.command else post(section.url, document)
            if not trouble:
                break
            log.error("alert not sent", on=section.on, error=trouble, tries_left=left)
            if left:
                threading.Event().wait(RETRY_AFTER_S)


def run_command(argv: list[str], document: Mapping[str, Any]) -> str:
    """Run it with the alert as JSON on its standard input; what went wrong, empty for nothing."""
    text = json.dumps(document).encode()
    try:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    try:
        child.communicate(text, timeout=COMMAND_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return f"{argv[0]} did not end within {COMMAND_TIMEOUT_S:g} s and was killed"
    return "" if child.returncode == 0 else f"{argv[0]} ended with {child.returncode}"


def post(url: str, document: Mapping[str, Any]) -> str:
    """POST it as JSON; what went wrong, empty for nothing. The URL is a secret (chat webhooks): only its host is named."""
    headers = {"Content-Type": "application/json", "User-Agent": "jobpool"}
    host = urlsplit(url).hostname
    try:
        request = urllib.request.Request(url, json.dumps(document).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=POST_TIMEOUT_S) as answer:
            return "" if answer.status < 300 else f"{host} answered {answer.status}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{host}: {getattr(error, 'reason', None) or type(error).__name__}"


def ask_status(path: str) -> dict[str, Any] | None:
    """The pool's /status; None when it does not answer within a second."""
    deadline = monotonic_now() + STATUS_TIMEOUT_S
    parts: list[bytes] = []
    try:
        with socket.socket(socket.AF_UNIX) as pool:
            pool.settimeout(STATUS_TIMEOUT_S)
            pool.connect(path)
            pool.sendall(b"GET /status HTTP/1.1\r\nHost: jobpool\r\nConnection: close\r\n\r\n")
            while (part := pool.recv(65536)) and monotonic_now() < deadline:
                parts.append(part)
        document = json.loads(b"".join(parts).partition(b"\r\n\r\n")[2])
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and "pool" in document else None
