"""Mail by SMTP: what is temporary is tried again, what is refused for good becomes a dead letter."""

import mimetypes
import os
import smtplib
from email.message import EmailMessage
from pathlib import Path

import pool

HOST, PORT = os.environ.get("SMTP_HOST", "localhost"), int(os.environ.get("SMTP_PORT", "25"))
SENDER = os.environ.get("MAIL_FROM", "shop@example.org")


@pool.job(queue="mail", priority="high", max_retries=2, backoff=pool.exponential(60, factor=3), timeout=60)
def send_email(to: str, subject: str, body: str, attachment: str | None = None) -> str:
    """Hand one mail to the server; its Message-ID.

    Delivery is at least once: a worker may be killed after the server took the mail. The Message-ID is made of the job's
    id, so that the copy can be recognised; most mailboxes show it once.
    """
    message = compose(to, subject, body, f"<{pool.current().id}@{SENDER.rpartition('@')[2]}>")
    if attachment:
        attach(message, Path(attachment))
    try:
        with smtplib.SMTP(HOST, PORT, timeout=20) as server:
            server.send_message(message)
    except smtplib.SMTPRecipientsRefused as refused:
        code, text = next(iter(refused.recipients.values()))
        if code >= 500:  # "no such mailbox": asking again would not help
            raise pool.GiveUp(f"{code} {text.decode(errors='replace')}") from refused
        raise
    return str(message["Message-ID"])


def compose(to: str, subject: str, body: str, message_id: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"], message["Message-ID"] = SENDER, to, subject, message_id
    message.set_content(body)
    return message


def attach(message: EmailMessage, file: Path) -> None:
    kind, _ = mimetypes.guess_type(file.name)
    major, _, minor = (kind or "application/octet-stream").partition("/")
    message.add_attachment(file.read_bytes(), maintype=major, subtype=minor, filename=file.name)
