"""Finds the orders of `bulk` and carries them out, one at a time, in the background of the web process.

The place of this server is a lane of its own: a web process that follows another at the same address is given at once
what that one held, and goes on from its checkpoint.
"""

import asyncio

from pool.backends.contract import Backend, QueueState, Want
from pool.clock import wall_now
from pool.errors import BackendUnavailable, ClaimLost
from pool.identity import boot_id, host_name, pid_namespace
from pool.jobs.internal import BULK_QUEUE
from pool.jobs.job import Claim
from pool.logs import log
from pool.web import holding
from pool.web.dashboard.trip import Trip
from pool.web.holding import Hold
from pool.web.services import Services

HOLDER = "bulk"
LEASE_S = 60.0
LOOK_EVERY_S = 5.0  # orders given here are heard at once; this is for those that another server has left


class Carrier:
    """`run` for as long as the server does. `heard` is set when an order was given here."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.heard = asyncio.Event()
        place = f"{host_name()} {boot_id()} {pid_namespace()} {services.config.web.listen}"
        self._lane = holding.keyed_lane(HOLDER, place)

    async def run(self) -> None:
        """Look, claim, carry out; an absent store is waited for."""
        while not self._services.stopping.is_set():
            self.heard.clear()
            try:
                await self._carry_out_all()
            except BackendUnavailable as error:
                log.limited("bulk", "orders of the dashboard must wait", every_s=60.0, error=str(error))
            await self._wait()

    async def _carry_out_all(self) -> None:
        while found := await self._services.desk.ask(self._next):
            await self._carry_out(*found)

    def _next(self, store: Backend) -> tuple[Claim, Hold] | None:
        """The next order, or the one that this place holds already. Only looks, while there is none."""
        if self._services.stopping.is_set() or not any(map(_holds_orders, store.queues())):
            return None
        # Above every number that the process before us can have used: only then is its claim told anew, checkpoint and all.
        number = int(wall_now() * 1000) << 1 | 1
        return holding.claim(store, self._lane, number, Want(queues=(BULK_QUEUE,), lease_seconds=LEASE_S))

    async def _carry_out(self, claim: Claim, hold: Hold) -> None:
        trip = Trip(self._services, claim, hold)
        try:
            word = await trip.outcome()
            await self._services.desk.ask(lambda store: holding.settle(store, hold, word))
        except ClaimLost:
            log.warning("an order of the dashboard went to another server", job=claim.job_id)
        else:
            log.info("order of the dashboard left", job=claim.job_id, how=str(word.outcome), so_far=trip.so_far.words)

    async def _wait(self) -> None:
        ends = {asyncio.ensure_future(event.wait()) for event in (self._services.stopping, self.heard)}
        await asyncio.wait(ends, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()


def _holds_orders(state: QueueState) -> bool:
    return state.name == BULK_QUEUE and bool(state.pending or state.scheduled or state.running)
