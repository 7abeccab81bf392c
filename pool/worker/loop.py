"""Where a worker child begins: its group's settings, its lines, its boot, its life."""

from pool import logs
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config, WorkerKeys
from pool.worker.async_loop import AsyncWorker
from pool.worker.boot import BootFailed, remark_of
from pool.worker.brief import Brief
from pool.worker.process import Worker

BAD_CONFIGURATION = 78


def run_worker(config: Config, group: str, brief: Brief, seat: Seat) -> int:
    """The whole life of a worker child of this group; returns its exit code."""
    settings = settings_of(config, group)
    logs.configure(config.log, pool=config.pool.name, who=f"{group}/{seat.worker.slot}", in_parent=False)
    worker = make_worker(config, settings, seat, brief)
    try:
        worker.boot()
    except BootFailed as error:
        seat.record.remark.write(remark_of(error))
        log.error("worker cannot boot", trace=str(error))
        return BAD_CONFIGURATION
    return worker.live()


def make_worker(config: Config, settings: WorkerKeys, seat: Seat, brief: Brief) -> Worker:
    """One job at a time, or many."""
    kind = Worker if settings.concurrency == 1 else AsyncWorker
    return kind(config, settings, seat, brief)


def settings_of(config: Config, group: str) -> WorkerKeys:
    """The keys of a group by its name; the default group has those of [workers]."""
    return next((named for named in config.groups if named.name == group), config.workers)
