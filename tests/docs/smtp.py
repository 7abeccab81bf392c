"""An SMTP server of our own on loopback: takes mail, and refuses whom it is told to refuse."""

import email
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message


class Post(socketserver.ThreadingTCPServer):
    """`received` are the mails taken; `refusals` maps a recipient to the answers it gets, one for each try."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.received: list[Message] = []
        self.refusals: dict[str, list[str]] = {}

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Talk(socketserver.StreamRequestHandler):
    """One client; just enough of RFC 5321 for smtplib."""

    server: Post

    def handle(self) -> None:
        self.say("220 post.test")
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            if verb == "RCPT":
                self.say(self.answer_for(line.partition("<")[2].partition(">")[0]))
            elif verb == "DATA":
                self.take()
            else:
                self.say("221 bye" if verb == "QUIT" else "250 ok")

    def answer_for(self, recipient: str) -> str:
        waiting = self.server.refusals.get(recipient)
        return waiting.pop(0) if waiting else "250 ok"

    def take(self) -> None:
        self.say("354 go on")
        lines = iter(self.rfile.readline, b".\r\n")
        self.server.received.append(email.message_from_bytes(b"".join(lines)))
        self.say("250 taken")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def post_office() -> Iterator[Post]:
    """A server that is there for as long as the block."""
    with Post() as post:
        thread = threading.Thread(target=post.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield post
        finally:
            post.shutdown()
            thread.join()
