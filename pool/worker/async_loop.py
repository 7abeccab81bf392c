"""A worker of `concurrency` above 1: many lanes in one process, each with its own claim, timeout, cancel and end."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from pool.backends import spool
from pool.backends.contract import Want
from pool.board.record import Exit, State
from pool.errors import LaneBarred
from pool.jobs.job import Claim
from pool.jobs.registry import registry
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config, WorkerKeys
from pool.worker.boot import BootFailed
from pool.worker.brief import Brief
from pool.worker.context import in_task
from pool.worker.desk import GaveUp
from pool.worker.output import Transcript
from pool.worker.presence import SharedPresence
from pool.worker.process import BELL_SLICE_S, SLICE_S, Worker
from pool.worker.store_thread import StoreThread
from pool.worker.task_lane import TaskLane


class Neighbours:
    """Jobs run side by side; one that must run alone waits for the others to end and keeps new ones out."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self.running = 0
        self._alone = False

    async def enter(self, alone: bool) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = alone
            if alone:
                await self._changed.wait_for(lambda: self.running == 0)
            self.running += 1

    async def leave(self, alone: bool) -> None:
        async with self._changed:
            self.running -= 1
            self._alone = self._alone and not alone
            self._changed.notify_all()


class Idlers:
    """Lanes with nothing to do. A ring wakes one; who finds work wakes the next."""

    def __init__(self) -> None:
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self._rung = False

    async def sleep(self) -> None:
        if self._rung:
            self._rung = False
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        await sleeper

    def wake_one(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return
        self._rung = True

    def wake_all(self) -> None:
        for _ in range(len(self._sleepers)):
            self.wake_one()

    @property
    def any(self) -> bool:
        return bool(self._sleepers)


class AsyncWorker(Worker):
    """One process, many lanes."""

    def __init__(self, config: Config, settings: WorkerKeys, seat: Seat, brief: Brief) -> None:
        presence = SharedPresence(seat)
        super().__init__(config, settings, seat, brief, presence)
        self._shared = presence
        self._count = settings.concurrency
        self._task_lanes: list[TaskLane] = []
        self.around.stage.find = _transcript_of_task

    # ------------------------------------------------------------ birth and end

    def prepare(self) -> None:
        refuse_sync_types(self.want)
        self._loop = asyncio.new_event_loop()
        self._store = StoreThread(self._open_backend, self.want, self._ring, self.watchman.is_awake)
        self._task_lanes = [
            TaskLane(self.tools, self._shared, number, self._store, self._loop) for number in range(self._count)
        ]
        self.lanes.extend(self._task_lanes)
        self._neighbours, self._idlers = Neighbours(), Idlers()

    def live(self) -> int:
        """As `Worker.live`; what a lane cannot hand in, it keeps on disk itself."""
        self._is_booting = False
        self._store.start()
        self.presence.announce_ready()
        try:
            why = self._run(self._life()) if self._replay_spool() else self._stop_reason()
        except LaneBarred:
            log.error("this worker was declared dead and its jobs given away; it leaves")
            why = Exit.BARRED
        return self.leave(why)

    def _run(self, life: Coroutine[Any, Any, Exit]) -> Exit:
        """To the end of `life`, whatever a stray task of a job throws through the loop."""
        task = self._loop.create_task(life)
        while True:
            try:
                return self._loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt):
                log.error("a task that a job left behind asked for the end of the process; ignored")

    def close_store(self) -> None:
        self._store.stop()

    def replay(self) -> int:
        """In the store's thread, which may take its time."""
        return int(self._store.submit(lambda store: spool.replay(store, self.tools.spool)).result())

    # ------------------------------------------------------------ the lanes

    async def _life(self) -> Exit:
        self._loop.add_reader(self.mailbox.fd, self._take_mail)
        pulse = self._loop.create_task(self._pulse())
        try:
            reasons = await asyncio.gather(*(self._lane_life(lane) for lane in self._task_lanes))
        finally:
            pulse.cancel()
            self._loop.remove_reader(self.mailbox.fd)
        return reasons[0]

    async def _lane_life(self, lane: TaskLane) -> Exit:
        """The turns of one lane; as `Worker.work`."""
        found_nothing = False
        try:
            while True:
                why = self.reason_to_leave() or (Exit.BURST_DONE if self.brief.is_burst and found_nothing else None)
                want = None if why or self.may_not_claim() else self.want
                claim = await self._next_claim(lane, want)
                found_nothing = claim is None and want is not None
                if claim is not None:
                    await self._carry_out(lane, claim)
                elif why:
                    return why
                elif not self.brief.is_burst:
                    await self._rest()
        except GaveUp:
            lane.keep_on_disk()
            return self._stop_reason()

    async def _next_claim(self, lane: TaskLane, want: Want | None) -> Claim | None:
        claim = await lane.exchange_async(want)
        if claim is not None:
            self._idlers.wake_one()
        return claim

    async def _carry_out(self, lane: TaskLane, claim: Claim) -> None:
        await self._neighbours.enter(claim.runs_alone)
        try:
            self.presence.show(State.BUSY)
            fresh = await lane.made_sure_async(claim, self.want)
            if fresh is not None:
                await lane.carry_out_async(fresh)
        finally:
            await self._neighbours.leave(claim.runs_alone)
        if not self.around.tidy_up():
            self._reconnect()
        self._show()

    async def _rest(self) -> None:
        self._show()
        self._listen_while_idle(True)
        await self._idlers.sleep()
        self._listen_while_idle(self._idlers.any)

    async def _pulse(self) -> None:
        """Once a second, less often while nothing runs: a sign of life, and a look at orders and limits by whoever rests."""
        while True:
            await asyncio.sleep(SLICE_S if self._neighbours.running else BELL_SLICE_S)
            self._show()
            self._heed_orders()

    def _heed_orders(self) -> None:
        self.mailbox.obey_reopen()
        if self.reason_to_leave() or self.may_not_claim():
            self._idlers.wake_all()
        self._listen_while_idle(self._idlers.any)

    # ------------------------------------------------------------ small parts

    def _show(self) -> None:
        self.presence.show(State.BUSY if self._neighbours.running else State.IDLE)

    def _listen_while_idle(self, idle: bool) -> None:
        wanted = idle and not self.may_not_claim() and not self.mailbox.is_stopping
        if wanted != self._store.is_listening:
            self._store.is_listening = wanted
            self._store.nudge()

    def _ring(self) -> None:
        """In the store's thread."""
        self._loop.call_soon_threadsafe(self._idlers.wake_one)

    def _take_mail(self) -> None:
        self.mailbox.empty()
        if self.mailbox.is_stopping:
            for lane in self._task_lanes:
                lane.stopped.set()
        self._heed_orders()

    def _reconnect(self) -> None:
        log.error("a job closed descriptors of its worker; the worker is replaced after it")
        self.presence.forget_descriptors()
        self._store.reconnect(self.around.keep_alive)


def refuse_sync_types(want: Want) -> None:
    """BootFailed when a type that this group would be handed is not async: it would hold up all the others."""
    for job_type in registry.types():
        served = job_type.queue not in want.reserved if want.is_any else job_type.queue in want.queues
        if served and not job_type.is_async:
            raise BootFailed(
                f"concurrency is above 1, but job {job_type.name!r} is not async def: "
                f"make it async, or serve its queue {job_type.queue!r} from another group"
            )


def _transcript_of_task() -> Transcript | None:
    job = in_task.get()
    return None if job is None else job.transcript
