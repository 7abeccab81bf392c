"""Jobs get the key, not the object: the row may have changed by the time the job runs."""

import pool
from shop.models import Order


@pool.job(queue="orders", max_retries=5)
def confirm_order(order: int) -> None:
    """Idempotent: a second run finds nothing left to do."""
    Order.objects.filter(pk=order, state="new").update(state="confirmed")
