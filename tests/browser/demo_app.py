"""The application of the browser tests: job types as a shop has them, with long names, failures and slow ones."""

APP = '''
import os, time
import pool
from ledger import noted, wait_for_gate

class SmtpConnectionRefused(ConnectionError):
    pass

@pool.job(queue="mail", max_retries=2, backoff=[0.2])
def send_email(to: str, subject: str = "") -> str:
    """Deliver one mail."""
    print(f"connecting to mx.example.org for {to}")
    if to.endswith("@refused.example"):
        raise SmtpConnectionRefused(f"mx.example.org:25 refused the connection for message {to}")
    return f"250 queued as {abs(hash(to)) % 10**8:08d}"

@pool.job(queue="reports", max_retries=0)
def render_quarterly_revenue_report_for_every_subsidiary_and_region(year: int, quarter: int) -> dict:
    """A type with a name that no column is wide enough for."""
    return {"pages": 12, "year": year, "quarter": quarter}

@pool.job(queue="images", max_retries=1, backoff=[0.2], timeout=60)
def resize_image(path: str, width: int = 800) -> None:
    """Fails for files that are no images."""
    if path.endswith(".txt"):
        raise ValueError(f"cannot identify image file {path!r}")

@pool.job(max_retries=3, redact=["card_token"])
def charge_card(order: int, amount_cents: int, card_token: str = "") -> dict:
    """Declined above a limit."""
    if amount_cents > 100_000:
        raise pool.GiveUp(f"card declined for order {order}: insufficient_funds")
    return {"order": order, "status": "captured"}

@pool.job(max_retries=5, backoff=[3600])
def sync_inventory(warehouse: str) -> None:
    """Always waits for its next try."""
    raise TimeoutError(f"warehouse {warehouse} did not answer within 30 s")

@pool.job(queue="exports")
@noted
def export_catalogue(gate: str = "export", steps: int = 1) -> str:
    """Runs until the test lets it go on, and says how far it is."""
    pool.current().progress(0.42, "writing articles 4,200 of 10,000 to the feed of the comparison portals")
    wait_for_gate(gate)
    return "10,000 articles"

@pool.job(max_retries=10, max_kills=2)
def leak() -> None:
    """Kills its worker."""
    os.kill(os.getpid(), 9)
'''
