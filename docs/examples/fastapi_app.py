"""A web application that answers at once and leaves the mail to the workers. Run it with: uvicorn fastapi_app:app"""

from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from mail import send_email
from pydantic import BaseModel

import pool

app = FastAPI()


class Order(BaseModel):
    number: int
    email: str


@app.exception_handler(pool.BackendUnavailable)
async def say_later(request: Request, error: Exception) -> JSONResponse:
    """The store is away: within 2 s the caller knows, and nothing was enqueued."""
    return JSONResponse({"detail": "try again in a minute"}, status_code=503, headers={"Retry-After": "60"})


@app.post("/orders", status_code=202)
async def place_order(order: Order) -> dict[str, str]:
    """The idempotency key makes a repeated request (a browser's second click) one mail."""
    mail = send_email.options(idempotency_key=f"order-{order.number}")
    receipt = await mail.enqueue_async(to=order.email, subject=f"Order {order.number}", body="Thank you.")
    return {"job": receipt.job_id}


@app.get("/jobs/{job_id}")
def look(job_id: str) -> dict[str, Any]:
    try:
        job = pool.default_client().get(job_id)
    except pool.JobNotFound:
        raise HTTPException(404) from None
    return {"status": job.status, "progress": job.progress}
